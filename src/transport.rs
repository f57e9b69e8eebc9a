//! Transports carry messages from task to task. They know nothing of training.
//!
//! The contract of every transport: a message arrives once, or its loss is reported. Messages to
//! one task may overtake each other, so that a large tensor does not delay a small one; only the
//! messages of one envelope arrive together and in order. When the connection to a peer breaks,
//! [`Inbox::lost`] reports the loss of all that was under way.
//!
//! | | |
//! |---|---|
//! | [`InMemoryNetwork`] | tasks in one process: messages are handed over as they are |
//! | [`Quic`] | tasks in processes of their own, which prove their [`Identity`] |
//! | [`wire`] | messages as bytes |

mod certificates;
mod in_memory;
mod polling;
mod quic;
pub mod wire;

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::units::Bytes;

pub use certificates::{Authority, CertificateError, Identity};
pub use in_memory::InMemoryNetwork;
pub(crate) use polling::Polling;
pub(crate) use quic::{LARGE_ENVELOPE, SPREAD_ENVELOPE, envelopes_delivered, lanes_of};
pub use quic::{Quic, QuicConfig, QuicError, QuicLimits, RunId, SocketBuffers};

/// A task's number in a transport: cheap to look up, and valid in this process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// The job of those who are no task of a cluster and connect to one.
pub(crate) const CLIENT: &str = "client";
/// The job of those who only ask a task how it is. Asker N proves its name with the certificate of
/// client N, and is not that client: its coming and going ends no session.
pub(crate) const ASKER: &str = "asker";

/// A message that travels between tasks.
pub trait Payload: Serialize + DeserializeOwned + Send + fmt::Debug + 'static {
    /// Its length on the wire \[bytes\].
    fn wire_size(&self) -> Bytes;

    /// Checks a message from another process, above all that its ids are in range.
    ///
    /// # Errors
    /// The problem with the message.
    fn check(&self) -> Result<(), String>;
}

/// Messages that travel together from one task to another.
pub type Messages<M> = Vec<M>;

/// The receiver of a task's messages.
///
/// Why no method has a body here: a receiver before another would silently lose what it does not
/// pass on.
pub trait Inbox<M> {
    /// Receives messages that arrived together from one task.
    fn deliver(&self, from: PeerId, messages: Messages<M>);

    /// Reports that the connection to `peer` has broken: all undelivered messages between the two
    /// are lost. Messages sent from now on go to the peer's next incarnation.
    fn lost(&self, peer: PeerId, loss: Loss);

    /// Reports that the transport, or a receiver that it called, has panicked: a defect, after
    /// which messages may be missing without a word.
    fn broken(&self, panic: &(dyn Any + Send));
}

/// The cause of a peer's loss. Tapes have them by their places: a new one comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// It was silent for longer than the limit: it is dead, frozen or cut off.
    #[error("it has fallen silent")]
    Silent,
    /// It announced that it stops.
    #[error("it has stopped")]
    Stopped,
    /// It knows nothing of the messages to it: it runs as a new incarnation or, over QUIC, may have
    /// given the connection up while this task stood still.
    #[error("it has restarted")]
    Restarted,
    /// It has met a later incarnation of this task, and lets this one not connect again.
    #[error(
        "a later incarnation of this task has connected to it (if this is the later one, this \
         machine's clock is behind: set it, and start the task again)"
    )]
    Outlived,
    /// One of the two has given the connection up: an envelope could not be sent, queued or read,
    /// or was not answered in time.
    #[error("the connection to it has broken, as the log of one of the two says")]
    Broken,
    /// It has heard nothing of this task for longer than the limit, and has said so: the way there
    /// is cut in this direction alone, or this task stood still.
    #[error(
        "it has heard nothing from this task for too long: packets to it are lost, or this task \
         stood still"
    )]
    Unheard,
}

/// What is said where another process has connected with the certificate of `client`.
pub(crate) fn taken_by_another(client: &TaskName) -> String {
    format!(
        "another process has connected as {client} since; a certificate is for one process at a \
         time: take another, such as that of `{CLIENT}:{}`",
        client.index().wrapping_add(1)
    )
}

/// The reason why messages to a peer have not been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason, as a part of a sentence.
    pub why: String,
    /// Why waiting does not help, if it does not.
    pub refused: Option<Refused>,
}

/// Why two tasks can't connect until one of them is started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// One of the two refuses the other's certificate.
    Certificate,
    /// They are of two trainings, or have different settings, or speak different versions of the
    /// protocol.
    Run,
    /// The other has met a later incarnation of this task, which takes its place.
    Outlived,
}

/// A task's connection to the others.
pub trait Transport<M: Payload> {
    /// The other tasks, as this one knows them. A transport around another returns the inner one's.
    fn peers(&self) -> &dyn Peers;

    /// Sends `messages` to `to` in one envelope.
    fn send(&self, to: PeerId, messages: Messages<M>);

    /// Hands `inbox` all messages from now on; earlier ones are lost.
    fn listen(&self, inbox: Rc<dyn Inbox<M>>);

    /// Stops receiving: the task has stopped.
    fn close(&self);
}

/// The tasks that a transport connects, as one of them knows them.
///
/// The methods with a body answer for a network that never breaks and whose tasks never restart.
/// Unlike with [`Inbox`], that is safe: a transport around another returns the inner one's
/// [`peers`](Transport::peers), and so there is none before another that could hide its answers.
pub trait Peers {
    /// This task.
    fn local(&self) -> PeerId;

    /// The peer of that name; `None` if this task does not know it.
    fn resolve(&self, name: &TaskName) -> Option<PeerId>;

    /// The name of a peer.
    fn name(&self, peer: PeerId) -> TaskName;

    /// The incarnation of `peer` that this task is connected to, or was last; `None` if it has met
    /// none, or if its tasks never restart.
    fn incarnation(&self, peer: PeerId) -> Option<u64> {
        let _ = peer;
        None
    }

    /// Another task has met `incarnation` of `peer`: if this one is still connected to an earlier
    /// incarnation, that one is lost now, before any message about the later one.
    fn has_restarted(&self, peer: PeerId, incarnation: u64) {
        let _ = (peer, incarnation);
    }

    /// How long a connected peer may be silent before it is lost; nothing if none ever is.
    fn silence(&self) -> Duration {
        Duration::ZERO
    }

    /// Why messages to `peer` wait; `None` if none do, or if the transport never has any wait.
    fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        let _ = peer;
        None
    }

    /// Why one of this task and `peer` refused the other when they last met, if one did: whichever
    /// of them had dialed, and whether or not messages wait.
    fn refusal(&self, peer: PeerId) -> Option<(Refused, String)> {
        let _ = peer;
        None
    }
}

/// A peer gives a sign of life in each of so many parts of the limit of silence, and is lost if it
/// gives none in all of them.
pub(crate) const BEATS: u32 = 5;

/// The length of an envelope without its messages: lengths, ids and check values \[bytes\].
pub(crate) const ENVELOPE_HEADER: Bytes = Bytes(32);

/// The length of an envelope with `messages` on the wire.
pub(crate) fn envelope_size<M: Payload>(messages: &[M]) -> Bytes {
    Bytes(messages.iter().map(|message| message.wire_size().0).sum::<u64>() + ENVELOPE_HEADER.0)
}
