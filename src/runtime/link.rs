//! The way to a task's three actors, for each other and for other tasks.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use tracing::trace_span;

use crate::cluster::TaskName;
use crate::transport::{Inbox, Loss, Messages, Obstacle, PeerId, Refused, Transport};

use crate::runtime::access::Access;
use crate::runtime::compression::Encoding;
use crate::runtime::gathered::Gathered;
use crate::runtime::mail::{MasterMail, ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::{Address, tell};
use crate::runtime::messages::{PeerMessage, second_large};
use crate::runtime::panics::Panics;
use crate::runtime::program_state::ProgramState;
use crate::runtime::remote::RemoteMasters;
use crate::runtime::spare::Spare;
use crate::runtime::state::{Served, StateRequest};
use crate::runtime::training_state::TrainingState;

/// What a kept list of requests, or of their answers, has room for at most: one for each variable
/// of most models.
const KEPT_REQUESTS: usize = 256;
/// The same of a list of messages. A simulation has thousands of tasks with some of these.
const KEPT_MESSAGES: usize = 8;

/// The way from one of a task's actors to all others, of this task and of the cluster.
///
/// Messages to other tasks wait until [`Link::flush`]: all that an actor sends to one task in one
/// turn travels in one envelope, but each large message in one of its own.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) actors: Rc<Actors>,
    transport: Rc<dyn Transport<PeerMessage>>,
    encoding: Encoding,
    outgoing: Rc<RefCell<Gathered<PeerId, Messages<PeerMessage>>>>,
}

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
    envelopes: Spare<PeerMessage>,
}

impl Link {
    pub(crate) fn new(
        actors: Rc<Actors>,
        transport: Rc<dyn Transport<PeerMessage>>,
        encoding: Encoding,
    ) -> Self {
        Self { actors, transport, encoding, outgoing: Rc::default() }
    }

    /// This task.
    pub(crate) fn local(&self) -> PeerId {
        self.transport.peers().local()
    }

    pub(crate) fn resolve(&self, task: &TaskName) -> Option<PeerId> {
        self.transport.peers().resolve(task)
    }

    pub(crate) fn name(&self, peer: PeerId) -> TaskName {
        self.transport.peers().name(peer)
    }

    /// The incarnation of `peer` that this task has met last.
    pub(crate) fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.transport.peers().incarnation(peer)
    }

    /// Another task has met `incarnation` of `task`: an earlier one is lost.
    pub(crate) fn has_restarted(&self, task: &TaskName, incarnation: u64) {
        if let Some(peer) = self.resolve(task).filter(|peer| *peer != self.local()) {
            self.transport.peers().has_restarted(peer, incarnation);
        }
    }

    /// How long a connected peer may be silent before it is lost.
    pub(crate) fn silence(&self) -> Duration {
        self.transport.peers().silence()
    }

    /// How long a lost task has to come back.
    pub(crate) fn recovery(&self) -> Duration {
        let Actors { training, access, .. } = &*self.actors;
        training.recovery().unwrap_or_else(|| access.client_limit())
    }

    /// Why messages to `peer` wait, if they do.
    pub(crate) fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.transport.peers().obstacle(peer)
    }

    /// Why one of this task and `peer` refused the other when they last met, if one did. The words
    /// begin with the peer's name.
    pub(crate) fn refusal(&self, peer: PeerId) -> Option<(Refused, String)> {
        let (refused, why) = self.transport.peers().refusal(peer)?;
        Some((refused, format!("{} (refused: {why})", self.name(peer))))
    }

    /// Sends `message` to its actor at `to`; a message to another task goes with the next flush.
    pub(crate) fn send(&self, to: PeerId, message: impl Into<PeerMessage>) {
        let mut message = message.into();
        if to == self.local() {
            self.actors.dispatch(to, message);
        } else {
            self.encoding.encode(&mut message);
            let mut outgoing = self.outgoing.borrow_mut();
            outgoing.of(to, || self.actors.envelopes.take()).push(message);
        }
    }

    /// Hop 7 of a step: sends all messages that have waited since the last flush.
    pub(crate) fn flush(&self) {
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.is_empty() {
            return;
        }
        for (to, mut messages) in outgoing.drain() {
            self.actors.training.note_partner(to, &messages);
            while let Some(second) = second_large(&messages) {
                let later = messages.split_off(second);
                self.send_together(to, mem::replace(&mut messages, later));
            }
            self.send_together(to, messages);
        }
    }

    fn send_together(&self, to: PeerId, messages: Messages<PeerMessage>) {
        let span = trace_span!(
            "transport",
            from = %self.name(self.local()),
            to = %self.name(to),
            messages = messages.len()
        );
        let _in_span = span.entered();
        self.transport.send(to, messages);
    }

    /// Tells `peer`, which was lost, again what it was told about the end of the training.
    pub(crate) fn send_parting(&self, peer: PeerId) {
        for message in self.actors.training.partings.sent_to(peer) {
            self.send(peer, message);
        }
    }
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
    fn dispatch(&self, from: PeerId, message: PeerMessage) {
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
