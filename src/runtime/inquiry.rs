//! A question to several actors, such as what each waits for, and when all have answered it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// A question to several actors; each may give any number of answers.
pub(crate) struct Inquiry<T>(Rc<Answers<T>>);

/// An inquiry at one of its actors, which has answered once it drops this.
pub(crate) struct Asked<T>(Rc<Answers<T>>);

struct Answers<T> {
    given: RefCell<Vec<T>>,
    /// The number of actors that have not answered.
    unanswered: Cell<usize>,
}

impl<T> Inquiry<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Answers { given: RefCell::default(), unanswered: Cell::default() }))
    }

    /// The inquiry for one actor more.
    pub(crate) fn ask(&self) -> Asked<T> {
        self.0.unanswered.set(self.unanswered() + 1);
        Asked(Rc::clone(&self.0))
    }

    /// The number of actors that have not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.0.unanswered.get()
    }

    /// Whether all actors have answered.
    pub(crate) fn is_over(&self) -> bool {
        self.unanswered() == 0
    }

    /// Takes the answers that are there.
    pub(crate) fn take(&self) -> Vec<T> {
        self.0.given.take()
    }
}

impl<T> Asked<T> {
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = T>) {
        self.0.given.borrow_mut().extend(answers);
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.unanswered.set(self.0.unanswered.get() - 1);
    }
}

impl<T> fmt::Debug for Asked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an inquiry")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inquiry_is_over_once_each_actor_has_answered_or_is_gone() {
        let inquiry = Inquiry::new();
        let (one, other) = (inquiry.ask(), inquiry.ask());
        one.answer([1, 2]);
        drop(one);
        assert_eq!((inquiry.unanswered(), inquiry.is_over()), (1, false));
        drop(other);
        assert!(inquiry.is_over());
        assert_eq!(inquiry.take(), [1, 2]);
    }
}
