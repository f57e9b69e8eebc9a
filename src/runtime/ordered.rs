//! A map in the order of its keys that allocates nothing while it fills and empties again.

use std::cell::Cell;

/// A map whose values stay where they are while others come and go: an insertion moves keys only.
#[derive(Debug)]
pub(super) struct Ordered<K, V> {
    /// The keys in order, each with the place of its value.
    keys: Vec<(K, u32)>,
    values: Vec<Option<V>>,
    /// The places without a value.
    vacant: Vec<u32>,
    /// Where a key was found last: most often, it is looked for again.
    recent: Cell<usize>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        let (keys, values, vacant) = (Vec::new(), Vec::new(), Vec::new());
        Self { keys, values, vacant, recent: Cell::new(0) }
    }
}

impl<K: Ord + Copy, V> Ordered<K, V> {
    /// The place of the value of `key` or, if it has none, the position of the key to come.
    fn place(&self, key: K) -> Result<usize, usize> {
        if let Some((found, place)) = self.keys.get(self.recent.get())
            && *found == key
        {
            return Ok(*place as usize);
        }
        let at = self.keys.binary_search_by_key(&key, |(key, _)| *key)?;
        self.recent.set(at);
        Ok(self.keys[at].1 as usize)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.place(*key).ok().and_then(|place| self.values[place].as_ref())
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(*key).ok().and_then(|place| self.values[place].as_mut())
    }

    /// The value of `key`; the default one if it had none.
    pub(super) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = self.place(key).unwrap_or_else(|at| self.insert_at(at, key, V::default()));
        self.values[place].as_mut().expect("a key has a value")
    }

    /// Replaces the value of `key`.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(place) => self.values[place] = Some(value),
            Err(at) => {
                self.insert_at(at, key, value);
            }
        }
    }

    /// Returns the place of the value.
    fn insert_at(&mut self, at: usize, key: K, value: V) -> usize {
        let place = self.vacant.pop().unwrap_or(self.values.len() as u32);
        match self.values.get_mut(place as usize) {
            Some(vacant) => *vacant = Some(value),
            None => self.values.push(Some(value)),
        }
        self.keys.insert(at, (key, place));
        self.recent.set(at);
        place as usize
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.keys.binary_search_by_key(key, |(key, _)| *key).ok()?;
        let (_, place) = self.keys.remove(at);
        self.vacant.push(place);
        self.values[place as usize].take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Empties the map.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        let Self { keys, values, vacant, .. } = self;
        keys.drain(..).filter_map(|(key, place)| {
            vacant.push(place);
            Some((key, values[place as usize].take()?))
        })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.iter().map(|(key, _)| key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.keys.iter().filter_map(|(key, place)| {
            self.values[*place as usize].as_ref().map(|value| (key, value))
        })
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
                prop_assert_eq!(found.values.len(), found.keys.len() + found.vacant.len());
            }
            prop_assert!(found.drain().eq(wanted) && found.is_empty());
        }
    }
}
