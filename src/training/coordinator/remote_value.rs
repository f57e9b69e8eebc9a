//! The result of a scheduled closure, which its program waits for.

use std::cell::RefCell;
use std::rc::Rc;

use crate::runtime::{Code, Error, Result, Signal};

use super::super::fetched::Fetched;

/// What a scheduled closure fetches, once it has run (TensorFlow: `RemoteValue`). Cheap to clone.
#[derive(Clone)]
pub struct RemoteValue(Rc<Inner>);

shown!(RemoteValue);

#[derive(Default)]
struct Inner {
    result: RefCell<Option<Result<Fetched>>>,
    known: Signal,
}

impl RemoteValue {
    /// Waits until the closure has run, and returns what its step has fetched. Each executor has a
    /// graph of its own: the values are found by their positions, in the order of the closure's
    /// `fetch` calls.
    ///
    /// # Errors
    /// The step's; of class `Cancelled` if the closure was cancelled.
    pub async fn fetch(&self) -> Result<Fetched> {
        self.0.known.until(|| self.0.result.borrow().clone()).await
    }
}

/// The end of a closure, to be told once. Dropped before, it cancels the closure.
pub(super) struct Promise(Rc<Inner>);

impl Promise {
    /// A promise, and the value that it is kept with.
    pub(super) fn new() -> (Self, RemoteValue) {
        let inner = Rc::<Inner>::default();
        (Self(Rc::clone(&inner)), RemoteValue(inner))
    }

    /// The closure has ended with `result`.
    pub(super) fn keep(self, result: Result<Fetched>) {
        self.0.result.replace(Some(result));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.result.borrow_mut().get_or_insert_with(|| {
            let why = "the closure was cancelled: another one had failed, or the coordinator has \
                       ended";
            Err(Error::new(Code::Cancelled, why))
        });
        self.0.known.raise();
    }
}
