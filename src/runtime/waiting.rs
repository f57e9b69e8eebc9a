//! What actors and programs wait for, as they say it to those who ask.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The end of what a program waits for until the training is over, with all workers in it.
pub(crate) const TO_LEAVE: &str = "workers to leave";

/// Who waits, and for what: for the report of a hang.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    /// The actor that waits, with its step if it has one.
    pub(crate) who: String,
    /// The thing waited for.
    pub(crate) what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.who, self.what)
    }
}

/// What a task's program waits for beside its actors, such as a disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits(Rc<RefCell<BTreeMap<u64, Waiting>>>);

/// A wait of a program, which ends as this is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    all: Waits,
    number: u64,
}

impl Waits {
    /// The program waits for `waiting` from now on.
    pub(crate) fn begin(&self, waiting: Waiting) -> Wait {
        let mut waits = self.0.borrow_mut();
        let number = waits.last_key_value().map_or(0, |(last, _)| last + 1);
        waits.insert(number, waiting);
        Wait { all: self.clone(), number }
    }

    /// All that it waits for.
    pub(crate) fn all(&self) -> Vec<Waiting> {
        self.0.borrow().values().cloned().collect()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_of_until_it_ends() {
        let waits = Waits::default();
        let waiting = |what: &str| Waiting { who: "a".to_owned(), what: what.to_owned() };
        let (one, other) = (waits.begin(waiting("b")), waits.begin(waiting("c")));
        assert_eq!(waits.all(), [waiting("b"), waiting("c")]);
        drop(one);
        assert_eq!(waits.all(), [waiting("c")]);
        drop(other);
        assert!(waits.all().is_empty());
    }
}
