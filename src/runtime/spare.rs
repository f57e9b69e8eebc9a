//! Lists that travel in messages and are used again.

use std::cell::RefCell;

/// The most messages that a list kept by [`Spare::give_if_few`] has room for.
const KEPT_CAPACITY: usize = 8;
/// The most lists that it keeps: a worker sends to several parameter servers in one turn.
const KEPT_LISTS: usize = 8;

/// Lists that travel in messages and are used again once they are empty.
pub(crate) struct Spare<T>(RefCell<Vec<Vec<T>>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Spare<T> {
    /// An empty list.
    pub(crate) fn take(&self) -> Vec<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Empties `list` and keeps it for the next [`Spare::take`].
    pub(crate) fn give(&self, mut list: Vec<T>) {
        list.clear();
        self.0.borrow_mut().push(list);
    }

    /// As [`Spare::give`], but drops a list that is long, and any beyond the first
    /// [`KEPT_LISTS`]: of these lists, more can come in than go out.
    pub(crate) fn give_if_few(&self, list: Vec<T>) {
        if list.capacity() <= KEPT_CAPACITY && self.0.borrow().len() < KEPT_LISTS {
            self.give(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lists_that_more_come_in_than_go_out_a_few_short_ones_are_kept() {
        let spare = Spare::<u8>::default();
        spare.give_if_few(Vec::with_capacity(KEPT_CAPACITY + 1));
        assert_eq!(spare.take().capacity(), 0, "a long one is dropped");
        (0..=KEPT_LISTS).for_each(|_| spare.give_if_few(Vec::with_capacity(KEPT_CAPACITY)));
        let kept = std::iter::from_fn(|| Some(spare.take()).filter(|list| list.capacity() > 0));
        assert_eq!(kept.count(), KEPT_LISTS);
    }
}
