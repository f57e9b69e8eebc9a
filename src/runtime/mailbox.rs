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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll, Waker};

use actix::fut::{ActorFuture, wrap_future};
use actix::{Actor, ActorContext, ActorState, AsyncContext, Context, SpawnHandle};

use crate::clock::Sleep;

use super::panics::Panics;

/// An actor that takes messages.
pub(crate) trait Receive: Actor<Context = Context<Self>> {
    /// The actor's messages.
    type Message: 'static;

    /// The actor's name within its task, for the report of its panic.
    const ROLE: &'static str;

    /// Takes one message: a turn.
    fn receive(&mut self, message: Self::Message, context: &mut Context<Self>);
}

/// The address that messages to an actor are sent to.
pub(crate) struct Address<M>(Rc<Mailbox<M>>);

/// The messages that an actor has not dealt with yet.
struct Mailbox<M> {
    messages: RefCell<VecDeque<M>>,
    /// Wakes the actor, once it has waited.
    waker: RefCell<Option<Waker>>,
    /// Whether the actor waits for a message, and nobody has woken it yet.
    is_waiting: Cell<bool>,
    is_closed: Cell<bool>,
}

/// An actor's end of its mailbox, which closes when the actor stops.
struct Inlet<M>(Rc<Mailbox<M>>, Rc<Panics>);

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
        Self(Rc::new(Mailbox {
            messages: RefCell::default(),
            waker: RefCell::default(),
            is_waiting: Cell::new(false),
            is_closed: Cell::new(false),
        }))
    }

    /// Whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.messages.borrow().is_empty()
    }

    /// Runs `actor`, which then takes the messages sent here. Its panic is noted in `panics`.
    pub(crate) fn run<A: Receive<Message = M>>(&self, actor: A, panics: &Rc<Panics>) {
        let mut context = Context::new();
        context.spawn(Inlet(Rc::clone(&self.0), Rc::clone(panics)));
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
        let turns = catch_unwind(AssertUnwindSafe(|| {
            while let Some(message) = self.next() {
                actor.receive(message, context);
                if context.state() != ActorState::Running {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }));
        let state = turns.unwrap_or_else(|panic| {
            self.1.note(A::ROLE, &*panic);
            context.terminate(); // what it holds may be half changed
            Poll::Ready(())
        });
        if state.is_pending() {
            self.0.waits(task.waker());
        }
        state
    }
}

impl<M> Mailbox<M> {
    /// The actor waits for the next message, and is woken by `waker`: mostly the one that has woken
    /// it before.
    fn waits(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        match &mut *known {
            Some(known) => known.clone_from(waker),
            None => *known = Some(waker.clone()),
        }
        self.is_waiting.set(true);
    }

    /// Wakes the actor, if it waits.
    fn wake(&self) {
        if self.is_waiting.replace(false)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}

impl<M> Inlet<M> {
    fn next(&self) -> Option<M> {
        let mut messages = self.0.messages.borrow_mut();
        let next = messages.pop_front();
        if messages.is_empty() {
            messages.clear(); // the next one is put at the beginning of the memory, and not behind
        }
        next
    }
}

impl<M> Drop for Inlet<M> {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        self.0.is_waiting.set(false);
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
    mailbox.wake();
}

/// Sends `message` to the actor of `context`, at its address `own`, once `sleep` is over, unless
/// the returned timer is cancelled.
pub(crate) fn tell_later<A: Receive>(
    own: &Address<A::Message>,
    message: A::Message,
    sleep: Sleep,
    context: &mut Context<A>,
) -> SpawnHandle {
    let own = own.clone();
    context.spawn(wrap_future(async move {
        sleep.await;
        tell(&own, message);
    }))
}

thread_local! {
    static SENT: Cell<u64> = const { Cell::new(0) };
}

/// The number of messages this thread has put into mailboxes: after it has grown, an actor has
/// something to do.
pub(crate) fn messages_sent() -> u64 {
    SENT.get()
}
