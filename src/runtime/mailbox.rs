//! The one place that puts a message into an actor's mailbox.
//!
//! Mailboxes are unbounded: what bounds the queue is the protocol, in which a step has a bounded
//! number of messages and a session a bounded number of steps. A message to an actor that has
//! stopped is lost, which happens only while a server shuts down; whoever waits for its answer
//! learns of the loss from the dropped reply.

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
    actor.do_send(message);
}
