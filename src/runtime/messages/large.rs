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
