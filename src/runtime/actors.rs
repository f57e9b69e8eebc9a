//! A task's three actors, as messages find them.

use std::any::Any;
use std::rc::Rc;

use crate::runtime::access::Access;
use crate::runtime::mail::{MasterMail, ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::{Address, tell};
use crate::runtime::messages::PeerMessage;
use crate::runtime::panics::Panics;
use crate::runtime::program_state::ProgramState;
use crate::runtime::remote::RemoteMasters;
use crate::runtime::spare::Spare;
use crate::runtime::state::{Served, StateRequest};
use crate::runtime::training_state::TrainingState;
use crate::transport::{Inbox, Loss, Messages, PeerId};

/// What a kept list of requests, or of their answers, has room for at most: one for each variable
/// of most models.
const KEPT_REQUESTS: usize = 256;
/// The same of a list of messages. A simulation has thousands of tasks with some of these.
const KEPT_MESSAGES: usize = 8;

/// The addresses of a task's actors, and the state that these share.
pub(crate) struct Actors {
    pub(crate) master: Address<MasterMail>,
    pub(crate) worker: Address<WorkerMail>,
    pub(crate) parameter_server: Address<ParameterServerMail>,
    /// Which messages of other tasks are taken.
    pub(crate) access: Access,
    /// Whether one of them has panicked.
    pub(crate) panics: Rc<Panics>,
    /// What the task knows of its training.
    pub(crate) training: TrainingState,
    /// What the task's program has asked and told those of other tasks.
    pub(crate) program: ProgramState,
    /// The masters of other servers that programs of this task have sessions on.
    pub(crate) remotes: RemoteMasters,
    /// The lists that the worker and the parameter server send each other.
    pub(crate) requests: Spare<StateRequest>,
    pub(crate) served: Spare<Served>,
    /// The lists of messages that other tasks have sent, for those that go to them: an answer then
    /// goes into memory that has just been read.
    pub(crate) envelopes: Spare<PeerMessage>,
}

impl Actors {
    /// Addresses of actors that do not run yet.
    pub(crate) fn new(access: Access, training: TrainingState) -> Self {
        Self {
            access,
            program: ProgramState::new(&training.news),
            training,
            master: Address::new(),
            worker: Address::new(),
            parameter_server: Address::new(),
            panics: Rc::default(),
            remotes: RemoteMasters::default(),
            requests: Spare::of_at_most(KEPT_REQUESTS),
            served: Spare::of_at_most(KEPT_REQUESTS),
            envelopes: Spare::of_at_most(KEPT_MESSAGES),
        }
    }

    /// Actors that do not run, and whom nobody may send anything.
    #[cfg(test)]
    pub(crate) fn nobody() -> Self {
        Self::new(Access::nobody(), TrainingState::default())
    }

    /// Whether they have dealt with all that they were sent.
    pub(crate) fn are_idle(&self) -> bool {
        self.master.is_empty() && self.worker.is_empty() && self.parameter_server.is_empty()
    }

    /// Hands a message to its actor; one for the program, to the actor in whose turns it is heard.
    pub(crate) fn dispatch(&self, from: PeerId, message: PeerMessage) {
        match message {
            PeerMessage::Master(message) => {
                tell(&self.master, MasterMail::FromPeer { from, message });
            }
            PeerMessage::Worker(message) => {
                tell(&self.worker, WorkerMail::FromPeer { from, message });
            }
            PeerMessage::ParameterServer(message) => {
                self.training.note(from, self.access.incarnation(from), &message);
                tell(&self.parameter_server, ParameterServerMail::FromPeer { from, message });
            }
            PeerMessage::Client(message) => self.remotes.deliver(from, message),
            PeerMessage::Program(message) => {
                self.program.note_arrival(from, &message);
                tell(&self.parameter_server, ParameterServerMail::FromProgram { from, message });
            }
        }
    }
}

impl Inbox<PeerMessage> for Actors {
    fn deliver(&self, from: PeerId, mut messages: Messages<PeerMessage>) {
        for message in messages.drain(..).filter(|one| self.access.admits(from, one)) {
            self.dispatch(from, message);
        }
        self.envelopes.give(messages);
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        self.panics.note("the transport", panic);
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        tracing::debug!(peer = peer.0, %loss, "lost a peer");
        self.program.lose(peer);
        self.remotes.lost(peer, loss);
        tell(&self.master, MasterMail::Lost { peer, loss });
        // The worker tells the parameter server, after the steps that it fails.
        let masters = self.access.lose(peer);
        tell(&self.worker, WorkerMail::Lost { peer, masters, loss });
    }
}
