//! Values that are gathered by key, and then taken out together in the order of their keys.

/// Values by key, in the order of their keys. It allocates nothing while it fills and empties
/// again, and is fastest where keys come in their order.
pub(super) struct Gathered<K, V>(Vec<(K, V)>);

impl<K, V> Default for Gathered<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Gathered<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key`; what `make` makes if it had none.
    pub(super) fn of(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let place = match self.0.last() {
            Some((last, _)) if *last >= key => self.0.partition_point(|(other, _)| *other < key),
            _ => self.0.len(),
        };
        if self.0.get(place).is_none_or(|(other, _)| *other != key) {
            self.0.insert(place, (key, make()));
        }
        &mut self.0[place].1
    }

    /// Takes out all, in the order of their keys.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.0.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_out_by_their_keys_and_of_one_key_in_the_order_in_which_they_came(
            values: Vec<(u8, u32)>
        ) {
            let (mut found, mut wanted) = (Gathered::default(), BTreeMap::new());
            for (key, value) in values {
                found.of(key, Vec::new).push(value);
                wanted.entry(key).or_insert_with(Vec::new).push(value);
            }
            prop_assert_eq!(found.is_empty(), wanted.is_empty());
            prop_assert!(found.drain().eq(wanted) && found.is_empty());
        }
    }
}
