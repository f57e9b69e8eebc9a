//! The closures of a coordinator that wait for an executor, and what has come of the others.

use std::collections::VecDeque;

use crate::runtime::Error;

/// A bounded queue of closures, each of which ends once.
///
/// The first failure cancels those that wait. It is told once, after those under way have ended:
/// what fails for the same reason is not told again.
pub(super) struct ClosureQueue<C> {
    waiting: VecDeque<C>,
    room: usize,
    /// The number of closures that executors run.
    running: usize,
    failed: Option<Error>,
}

impl<C> ClosureQueue<C> {
    /// A queue with room for so many that wait.
    pub(super) fn new(room: usize) -> Self {
        Self { waiting: VecDeque::new(), room: room.max(1), running: 0, failed: None }
    }

    /// Whether another closure may be put in.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.room
    }

    pub(super) fn put(&mut self, closure: C) {
        self.waiting.push_back(closure);
    }

    /// The next closure, for an executor that runs it.
    pub(super) fn take(&mut self) -> Option<C> {
        let next = self.waiting.pop_front()?;
        self.running += 1;
        Some(next)
    }

    /// The executor of `closure` is lost: the next free one takes it. It is cancelled if another
    /// one has failed meanwhile.
    pub(super) fn put_back(&mut self, closure: C) {
        self.running -= 1;
        if self.failed.is_none() {
            self.waiting.push_front(closure);
        }
    }

    /// A closure has run.
    pub(super) fn done(&mut self) {
        self.running -= 1;
    }

    /// A closure has failed: those that wait are cancelled.
    pub(super) fn fail(&mut self, error: Error) {
        self.running -= 1;
        self.failed.get_or_insert(error);
        self.cancel();
    }

    /// Cancels the closures that wait.
    pub(super) fn cancel(&mut self) {
        self.waiting.clear();
    }

    /// Whether no closure runs.
    pub(super) fn is_at_rest(&self) -> bool {
        self.running == 0
    }

    /// Whether all closures have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.is_at_rest() && self.waiting.is_empty()
    }

    /// Whether a closure has failed, and nobody was told yet.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The first failure, which is told now.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Code;

    fn queue_of(closures: &[u32]) -> ClosureQueue<u32> {
        let mut queue = ClosureQueue::new(4);
        closures.iter().for_each(|closure| queue.put(*closure));
        queue
    }

    #[test]
    fn closures_are_taken_in_order_and_one_that_comes_back_is_the_next() {
        let mut queue = queue_of(&[1, 2, 3, 4]);
        assert!(!queue.has_room());
        assert_eq!([queue.take(), queue.take()], [Some(1), Some(2)]);
        assert!(queue.has_room());
        queue.put_back(1);
        queue.done();
        assert!(queue.is_at_rest() && !queue.is_empty());
        assert_eq!([queue.take(), queue.take(), queue.take()], [Some(1), Some(3), Some(4)]);
        assert_eq!(queue.take(), None);
        (0..3).for_each(|_| queue.done());
        assert!(queue.is_empty());
    }

    #[test]
    fn the_first_failure_cancels_what_waits_or_comes_back_and_is_told_once() {
        let mut queue = queue_of(&[1, 2, 3, 4]);
        assert_eq!([queue.take(), queue.take(), queue.take()], [Some(1), Some(2), Some(3)]);
        queue.fail(Error::new(Code::InvalidArgument, "first"));
        assert!(queue.has_failed() && !queue.is_empty(), "two are under way");
        queue.fail(Error::new(Code::InvalidArgument, "second"));
        queue.put_back(3);
        assert!(queue.is_empty());
        assert_eq!(queue.take_failure().unwrap().message, "first");
        assert!(queue.take_failure().is_none());
        queue.put(5);
        assert_eq!(queue.take(), Some(5), "it goes on");
    }
}
