//! The mailboxes of a task's actors, and the one place that puts a message into one.
//!
//! Mailboxes are unbounded: the protocol bounds the queue, since a step has a bounded number of
//! messages and a session a bounded number of steps. A message to an actor that has stopped is
//! lost, which happens only while a server shuts down; a program that waits for the answer learns
//! of the loss from the dropped reply.
//!
//! All actors of a task live on one thread, so a mailbox is a queue without a lock; it allocates
//! nothing once it has grown.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll, Waker};

use actix::fut::ActorFuture;
use actix::{Actor, ActorContext, ActorState, AsyncContext, Context};

/// An actor that takes messages.
pub(crate) trait Receive: Actor<Context = Context<Self>> {
    /// The actor's messages.
    type Message: 'static;

    /// Takes one message: a turn.
    fn receive(&mut self, message: Self::Message, context: &mut Context<Self>);
}

/// The address that messages to an actor are sent to.
pub(crate) struct Address<M>(Rc<Mailbox<M>>);

/// The messages that an actor has not dealt with yet.
struct Mailbox<M> {
    messages: RefCell<VecDeque<M>>,
    /// The actor's waker, while it waits.
    waker: Cell<Option<Waker>>,
    is_closed: Cell<bool>,
}

/// An actor's end of its mailbox, which closes when the actor stops.
struct Inlet<M>(Rc<Mailbox<M>>);

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> std::fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a mailbox of {} messages", self.0.messages.borrow().len())
    }
}

impl<M: 'static> Address<M> {
    /// The address of an actor that does not run yet.
    pub(crate) fn new() -> Self {
        let messages = RefCell::default();
        Self(Rc::new(Mailbox { messages, waker: Cell::default(), is_closed: Cell::new(false) }))
    }

    /// Runs `actor`, which then takes the messages sent here.
    pub(crate) fn run<A: Receive<Message = M>>(&self, actor: A) {
        let mut context = Context::new();
        context.spawn(Inlet(Rc::clone(&self.0)));
        context.run(actor);
    }
}

impl<A: Receive> ActorFuture<A> for Inlet<A::Message> {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        context: &mut Context<A>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        while let Some(message) = self.next() {
            actor.receive(message, context);
            if context.state() != ActorState::Running {
                return Poll::Ready(());
            }
        }
        self.0.waker.set(Some(task.waker().clone()));
        Poll::Pending
    }
}

impl<M> Inlet<M> {
    fn next(&self) -> Option<M> {
        self.0.messages.borrow_mut().pop_front()
    }
}

impl<M> Drop for Inlet<M> {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        self.0.waker.take();
        // Dropped only once the queue is free again: a dropped reply can wake a task that sends us
        // a message.
        drop(self.0.messages.take());
    }
}

/// Sends `message` to the actor at `address`.
pub(crate) fn tell<M>(address: &Address<M>, message: M) {
    let mailbox = &*address.0;
    if mailbox.is_closed.get() {
        return;
    }
    SENT.set(SENT.get() + 1);
    mailbox.messages.borrow_mut().push_back(message);
    if let Some(waker) = mailbox.waker.take() {
        waker.wake();
    }
}

thread_local! {
    static SENT: Cell<u64> = const { Cell::new(0) };
}

/// The number of messages this thread has put into mailboxes: after it has grown, an actor has
/// something to do.
pub(crate) fn messages_sent() -> u64 {
    SENT.get()
}

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
}
