//! The way back from an actor to a program that has asked it something and waits for the answer.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The place where a program waits for one answer after another; it allocates only once.
pub(crate) struct Answer<T>(Rc<Slot<T>>);

/// The obligation to answer a question; if dropped without an answer, the program learns of it.
pub(crate) struct Reply<T>(Rc<Slot<T>>);

struct Slot<T> {
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
    /// Whether a [`Reply`] exists.
    is_asked: Cell<bool>,
}

impl<T> Answer<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Slot {
            value: Cell::new(None),
            waker: Cell::new(None),
            is_asked: Cell::new(false),
        }))
    }

    /// The reply to the next question; the one before must have been answered.
    pub(crate) fn reply(&self) -> Reply<T> {
        assert!(!self.0.is_asked.replace(true), "a program waits for one answer at a place");
        Reply(Rc::clone(&self.0))
    }
}

impl<T> Future for Answer<T> {
    /// `None` if nobody will answer.
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let value = self.0.value.take();
        if value.is_some() || !self.0.is_asked.get() {
            return Poll::Ready(value);
        }
        self.0.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl<T> Reply<T> {
    /// Whether somebody still waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Answers; returns whether somebody still waits.
    pub(crate) fn send(self, value: T) -> bool {
        self.0.value.set(Some(value));
        self.is_awaited()
    }
}

/// Answers a program, which may wait no more.
pub(crate) fn answer<T>(reply: Reply<T>, value: T) {
    if !reply.send(value) {
        tracing::debug!("nobody waits for the answer any more");
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.0.is_asked.set(false);
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reply")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn polled<T>(answer: &mut Answer<T>) -> Poll<Option<T>> {
        pin!(answer).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_place_takes_one_answer_after_the_other() {
        let mut answer = Answer::new();
        for value in 0..3 {
            let reply = answer.reply();
            assert_eq!(polled(&mut answer), Poll::Pending);
            assert!(reply.send(value));
            assert_eq!(polled(&mut answer), Poll::Ready(Some(value)));
        }
    }

    #[test]
    fn a_reply_that_is_dropped_is_no_answer() {
        let mut answer = Answer::<u8>::new();
        drop(answer.reply());
        assert_eq!(polled(&mut answer), Poll::Ready(None));
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_known_to_be_none() {
        let answer = Answer::new();
        let reply = answer.reply();
        drop(answer);
        assert!(!reply.send(1));
    }
}
