//! A small map in the order of its keys that allocates nothing while it fills and empties again.

/// A map of a few entries.
#[derive(Debug)]
pub(super) struct Ordered<K, V>(Vec<(K, V)>);

impl<K: Ord + Copy, V> Ordered<K, V> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    fn position(&self, key: K) -> Result<usize, usize> {
        // The key looked for is most often the one inserted last.
        match self.0.last() {
            Some((last, _)) if *last == key => Ok(self.0.len() - 1),
            _ => self.0.binary_search_by_key(&key, |(key, _)| *key),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.position(*key).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.position(*key).ok().map(|at| &mut self.0[at].1)
    }

    /// Replaces the value of `key`.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.position(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.position(*key).ok().map(|at| self.0.remove(at).1)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_in_its_order(changes: Vec<(bool, u8, u32)>) {
            let (mut found, mut wanted) = (Ordered::new(), BTreeMap::new());
            for (is_removal, key, value) in changes {
                if is_removal {
                    prop_assert_eq!(found.remove(&key), wanted.remove(&key));
                } else {
                    found.insert(key, value);
                    wanted.insert(key, value);
                }
                prop_assert_eq!(found.get(&key), wanted.get(&key));
                prop_assert!(found.iter().eq(wanted.iter()));
            }
        }
    }
}
