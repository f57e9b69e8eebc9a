//! Lists that travel in messages and are used again.

use std::cell::RefCell;

/// The most lists that are kept: a worker sends to several parameter servers in one turn.
const KEPT_LISTS: usize = 8;

/// Lists that travel in messages and are used again once they are empty: a few, since many are on
/// their way at a time where many tasks are served, and none with room for more than `most`.
pub(crate) struct Spare<T> {
    lists: RefCell<Vec<Vec<T>>>,
    most: usize,
}

impl<T> Spare<T> {
    /// Keeps lists with room for at most so many.
    pub(crate) fn of_at_most(most: usize) -> Self {
        Self { lists: RefCell::default(), most }
    }

    /// An empty list.
    pub(crate) fn take(&self) -> Vec<T> {
        self.lists.borrow_mut().pop().unwrap_or_default()
    }

    /// Empties `list`, and keeps it for the next [`Spare::take`] if it is short and one of few.
    pub(crate) fn give(&self, mut list: Vec<T>) {
        list.clear();
        let mut lists = self.lists.borrow_mut();
        if list.capacity() <= self.most && lists.len() < KEPT_LISTS {
            lists.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lists_that_more_come_in_than_go_out_a_few_short_ones_are_kept() {
        let spare = Spare::<u8>::of_at_most(8);
        spare.give(Vec::with_capacity(9));
        assert_eq!(spare.take().capacity(), 0, "a long one is dropped");
        (0..=KEPT_LISTS).for_each(|_| spare.give(Vec::with_capacity(8)));
        let kept = std::iter::from_fn(|| Some(spare.take()).filter(|list| list.capacity() > 0));
        assert_eq!(kept.count(), KEPT_LISTS);
    }
}
