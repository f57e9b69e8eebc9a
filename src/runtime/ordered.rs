//! A small map in the order of its keys that allocates nothing while it fills and empties again.

use std::cell::Cell;

/// A map of a few entries.
#[derive(Debug)]
pub(super) struct Ordered<K, V> {
    entries: Vec<(K, V)>,
    /// Where a key was found last: most often, it is looked for again.
    recent: Cell<usize>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), recent: Cell::new(0) }
    }
}

impl<K: Ord + Copy, V> Ordered<K, V> {
    fn position(&self, key: K) -> Result<usize, usize> {
        let recent = self.recent.get();
        if self.entries.get(recent).is_some_and(|(found, _)| *found == key) {
            return Ok(recent);
        }
        let found = self.entries.binary_search_by_key(&key, |(key, _)| *key);
        if let Ok(at) = found {
            self.recent.set(at);
        }
        found
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.position(*key).ok().map(|at| &self.entries[at].1)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.position(*key).ok().map(|at| &mut self.entries[at].1)
    }

    /// The value of `key`; the default one if it had none.
    pub(super) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let at = self.position(key).unwrap_or_else(|at| {
            self.insert_at(at, key, V::default());
            at
        });
        &mut self.entries[at].1
    }

    /// Replaces the value of `key`.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.position(key) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.insert_at(at, key, value),
        }
    }

    fn insert_at(&mut self, at: usize, key: K, value: V) {
        self.entries.insert(at, (key, value));
        self.recent.set(at);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.position(*key).ok().map(|at| self.entries.remove(at).1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Empties the map.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.entries.drain(..)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
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
            let (mut found, mut wanted) = (Ordered::default(), BTreeMap::new());
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
