//! What a task has said about the end of its training, to say it again to a peer that was lost
//! since.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::runtime::messages::{ParameterServerMessage, PeerMessage};
use crate::sync::Leaving;
use crate::transport::PeerId;

/// A message about the end of the training.
pub(crate) struct Parting {
    pub(crate) message: ParameterServerMessage,
    /// The tasks that it is for; none for all.
    pub(crate) to: Option<BTreeSet<PeerId>>,
}

/// The messages about the end of the training that a task has sent.
#[derive(Default)]
pub(crate) struct Partings {
    sent: RefCell<Vec<Parting>>,
}

impl Partings {
    /// Keeps what the task has said.
    pub(crate) fn keep(&self, parting: Parting) {
        self.sent.borrow_mut().push(parting);
    }

    /// Another training begins.
    pub(super) fn forget(&self) {
        self.sent.borrow_mut().clear();
    }

    /// What `peer` was sent.
    pub(crate) fn sent_to(&self, peer: PeerId) -> Vec<ParameterServerMessage> {
        let sent = self.sent.borrow();
        let is_for = |one: &&Parting| one.to.as_ref().is_none_or(|to| to.contains(&peer));
        sent.iter().filter(is_for).map(|one| one.message.clone()).collect()
    }

    /// Whether all others were told that the training is over.
    pub(crate) fn have_announced_the_end(&self) -> bool {
        let is_end = |message: &_| matches!(message, ParameterServerMessage::TrainingOver { .. });
        self.has(|one| one.to.is_none() && is_end(&one.message))
    }

    /// Whether the others were told that `worker`, which this task is, takes no more steps.
    pub(crate) fn have_left(&self, worker: u32) -> bool {
        use ParameterServerMessage::Leave;
        self.has(|one| matches!(one.message, Leave { worker: left, .. } if left == worker))
    }

    /// Whether the others were told that the task's training has ended in good order.
    pub(super) fn have_left_done(&self) -> bool {
        use ParameterServerMessage::Leave;
        self.has(|one| matches!(one.message, Leave { why: Leaving::Done, .. }))
    }

    fn has(&self, is: impl FnMut(&Parting) -> bool) -> bool {
        self.sent.borrow().iter().any(is)
    }
}

/// Whether `message` is about who takes part and when the training ends, and of no step.
pub(super) fn is_about_the_end(message: &PeerMessage) -> bool {
    use ParameterServerMessage::{Back, ChiefFailed, Found, Leave, Lost, Stopping, TrainingOver};
    let PeerMessage::ParameterServer(message) = message else { return false };
    matches!(
        message,
        Leave { .. }
            | Lost { .. }
            | Back { .. }
            | Found { .. }
            | TrainingOver { .. }
            | ChiefFailed { .. }
            | Stopping
    )
}
