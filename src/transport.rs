//! How messages get from one task to another. Knows nothing of training.
//!
//! The contract that every transport keeps: a message arrives once, or not at all and then an error
//! says so. Messages to one task may overtake each other, so that a large tensor need not delay a
//! small one; only what travels in one envelope arrives together, in its order. When the way to a
//! peer breaks, [`Inbox::lost`] is that error for all that was under way.
//!
//! | | |
//! |---|---|
//! | [`InMemoryNetwork`] | tasks in one process: messages are handed over as they are |
//! | [`Quic`] | tasks in processes of their own, with [`Authority`] and [`Identity`] to know each other by |
//! | [`wire`] | messages as bytes |

mod certificates;
mod in_memory;
mod quic;
pub mod wire;

use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::TaskName;
use crate::units::Bytes;

pub use certificates::{Authority, CertificateError, Identity};
pub use in_memory::InMemoryNetwork;
pub use quic::{Quic, QuicConfig, QuicError, QuicLimits, RunId, SocketBuffers};

/// A task as a transport knows it: a number that is cheap to look up, good in this process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// What travels between tasks.
pub trait Payload: Serialize + DeserializeOwned + Send + fmt::Debug + 'static {
    /// How long it is on the wire \[bytes\].
    fn wire_size(&self) -> Bytes;

    /// What is wrong with a message that came from another process: ids that nothing has, above
    /// all, which whoever takes it would stumble over.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self) -> Result<(), String>;
}

/// Messages that one task sends another at one moment.
pub type Messages<M> = Vec<M>;

/// Where a task takes what arrives for it.
pub trait Inbox<M> {
    /// Takes messages that arrived together from one task.
    fn deliver(&self, from: PeerId, messages: Messages<M>);

    /// Takes note that the way to `peer` has broken: what either sent the other and the other has
    /// not taken is lost. Messages that are sent from now on go to the peer that may come in its
    /// place.
    fn lost(&self, peer: PeerId, loss: Loss);
}

/// Why a peer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// It has not been heard of for as long as a peer may be silent: dead, frozen or cut off.
    #[error("it has fallen silent")]
    Silent,
    /// It said that it stops.
    #[error("it has stopped")]
    Stopped,
    /// It has come back as another incarnation, which knows nothing of what was sent to the one
    /// before.
    #[error("it has restarted")]
    Restarted,
}

/// One task's way to the others.
pub trait Transport<M: Payload> {
    /// The task that this end belongs to.
    fn local(&self) -> PeerId;

    /// The peer that is task `name`; none where this end does not know it.
    fn resolve(&self, name: &TaskName) -> Option<PeerId>;

    /// The task that is `peer`.
    fn name(&self, peer: PeerId) -> TaskName;

    /// Sends `messages` to `to` in one envelope.
    fn send(&self, to: PeerId, messages: Messages<M>);

    /// Takes what arrives from now on; what arrives before is lost.
    fn listen(&self, inbox: Rc<dyn Inbox<M>>);

    /// Takes nothing any more: the task has stopped.
    fn close(&self);
}

/// The part of an envelope that is no message: lengths, ids and check values \[bytes\].
pub(crate) const ENVELOPE_HEADER: Bytes = Bytes(32);

/// How long an envelope with `messages` is on the wire.
pub(crate) fn envelope_size<M: Payload>(messages: &[M]) -> Bytes {
    Bytes(messages.iter().map(|message| message.wire_size().0).sum::<u64>() + ENVELOPE_HEADER.0)
}
