//! A map in the order of its keys that allocates nothing while it fills and empties again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// A map whose values stay where they are while others come and go: an insertion moves keys only,
/// and few of them, whatever their number.
pub(super) struct Ordered<K, V> {
    /// The place of each key's value.
    places: BTreeMap<K, u32>,
    values: Vec<Option<V>>,
    /// The places without a value.
    vacant: Vec<u32>,
    /// The key that was found last, with its place: most often, it is looked for again.
    recent: Cell<Option<(K, u32)>>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        let (values, vacant) = (Vec::new(), Vec::new());
        Self { places: BTreeMap::new(), values, vacant, recent: Cell::new(None) }
    }
}

impl<K: Ord + Copy, V> Ordered<K, V> {
    fn place(&self, key: K) -> Option<usize> {
        if let Some((found, place)) = self.recent.get()
            && found == key
        {
            return Some(place as usize);
        }
        let place = *self.places.get(&key)?;
        self.recent.set(Some((key, place)));
        Some(place as usize)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.place(*key).and_then(|place| self.values[place].as_ref())
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(*key).and_then(|place| self.values[place].as_mut())
    }

    /// Replaces the value of `key`.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Some(place) => self.values[place] = Some(value),
            None => {
                self.add(key, value);
            }
        }
    }

    /// Adds a key that is not there. Returns the place of its value.
    fn add(&mut self, key: K, value: V) -> usize {
        let place = self.vacant.pop().unwrap_or(self.values.len() as u32);
        match self.values.get_mut(place as usize) {
            Some(vacant) => *vacant = Some(value),
            None => self.values.push(Some(value)),
        }
        self.places.insert(key, place);
        self.recent.set(Some((key, place)));
        place as usize
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key)?;
        self.recent.set(None);
        self.vacant.push(place);
        self.values[place as usize].take()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.places.keys()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(..)
    }

    /// The keys in `range`, with their values.
    pub(super) fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.places.range(range).filter_map(|(key, place)| {
            self.values[*place as usize].as_ref().map(|value| (key, value))
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values, in any order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.iter_mut().flatten()
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
                prop_assert_eq!(found.values.len(), found.places.len() + found.vacant.len());
            }
            prop_assert!(found.keys().eq(wanted.keys()));
        }
    }
}
