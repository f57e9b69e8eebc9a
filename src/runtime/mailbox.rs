//! The one place that puts a message into an actor's mailbox.
//!
//! Mailboxes are unbounded: what bounds the queue is the protocol, in which a step has a bounded
//! number of messages and a session a bounded number of steps. A message to an actor that has
//! stopped is lost, which happens only while a server shuts down; whoever waits for its answer
//! learns of the loss from the dropped reply.

use std::cell::Cell;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};

/// Sends `message` to `actor`.
pub(crate) fn tell<A, M>(actor: &Addr<A>, message: M)
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    if actor.connected() {
        TOLD.set(TOLD.get() + 1);
        actor.do_send(message);
    }
}

thread_local! {
    static TOLD: Cell<u64> = const { Cell::new(0) };
}

/// How many messages this thread has put into mailboxes: where it has grown, an actor has something to do.
pub(crate) fn told() -> u64 {
    TOLD.get()
}
