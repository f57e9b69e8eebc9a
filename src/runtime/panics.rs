//! The panics of a task's actors and kernels: the first, and the text of any.

use std::any::Any;
use std::cell::RefCell;

use super::signal::Signal;

/// The first panic of a task's actors and kernels. An actor that has panicked has stopped, and its
/// task is of no use any more.
#[derive(Default)]
pub(crate) struct Panics {
    first: RefCell<Option<String>>,
    noted: Signal,
}

impl Panics {
    /// Notes that `role`, an actor or a kernel, has panicked.
    pub(crate) fn note(&self, role: &str, panic: &(dyn Any + Send)) {
        let text = format!("{role} panicked: {}", panic_text(panic));
        self.first.borrow_mut().get_or_insert(text);
        self.noted.raise();
    }

    /// What has panicked, and the panic's text.
    pub(crate) fn first(&self) -> Option<String> {
        self.first.borrow().clone()
    }

    /// Waits for the first panic.
    pub(crate) async fn noted(&self) -> String {
        self.noted.until(|| self.first()).await
    }
}

/// The text that a panic was given.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
