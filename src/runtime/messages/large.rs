//! Large messages and values: each of them travels in an envelope of its own, so that its receiver
//! has the first while the next are on their way.

use super::{Arrival, PeerMessage};
use crate::transport::{LARGE_ENVELOPE, Payload};

/// What can be too large to travel with others.
pub(crate) trait Large {
    /// Whether it is longer than an envelope that travels with others.
    fn is_large(&self) -> bool;
}

impl Large for PeerMessage {
    fn is_large(&self) -> bool {
        self.wire_size().0 > LARGE_ENVELOPE as u64
    }
}

impl Large for Arrival {
    fn is_large(&self) -> bool {
        let (_, value) = self;
        value.as_ref().is_some_and(|value| value.size() > LARGE_ENVELOPE as u64)
    }
}

/// The place of the second large one among `items`, which begins another envelope: the small ones
/// stay with the large one before them, behind which they were to arrive.
pub(crate) fn second_large(items: &[impl Large]) -> Option<usize> {
    if items.len() < 2 {
        return None;
    }
    let mut large = items.iter().enumerate().filter(|(_, item)| item.is_large());
    large.nth(1).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Item(bool);

    impl Large for Item {
        fn is_large(&self) -> bool {
            self.0
        }
    }

    proptest! {
        #[test]
        fn what_is_cut_before_each_second_large_one_has_one_large_one_each(
            items in prop::collection::vec(any::<bool>().prop_map(Item), 0..20)
        ) {
            let (mut left, mut cuts) = (&items[..], 0);
            while let Some(second) = second_large(left) {
                let (first, later) = left.split_at(second);
                prop_assert_eq!(first.iter().filter(|item| item.0).count(), 1);
                prop_assert!(later[0].0, "small ones stay with the large one before them");
                (left, cuts) = (later, cuts + 1);
            }
            let large = items.iter().filter(|item| item.0).count();
            prop_assert_eq!(cuts, large.saturating_sub(1));
        }
    }
}
