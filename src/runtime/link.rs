//! The way to a task's three actors, for each other and for other tasks.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::trace_span;

use crate::cluster::TaskName;
use crate::sync::Leaving;
use crate::transport::{Inbox, Loss, Messages, Obstacle, PeerId, Transport};

use crate::runtime::access::Access;
use crate::runtime::checkpoint_news::CheckpointNews;
use crate::runtime::mail::{MasterMail, ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::{Address, Panics, Spare, tell};
use crate::runtime::messages::{ParameterServerMessage, PeerMessage};
use crate::runtime::ordered::Ordered;
use crate::runtime::own_values::KnownOwnValues;
use crate::runtime::places::KnownPlaces;
use crate::runtime::remote::RemoteMasters;
use crate::runtime::state::{Served, StateRequest};

/// The way from one of a task's actors to all others, of this task and of the cluster.
///
/// Messages to other tasks wait until [`Link::flush`]: all that an actor sends to one task in one
/// turn travels in one envelope.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) actors: Rc<Actors>,
    transport: Rc<dyn Transport<PeerMessage>>,
    outgoing: Rc<RefCell<Ordered<PeerId, Messages<PeerMessage>>>>,
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
    /// Whether the chief has announced the end of the training.
    pub(crate) training_over: Cell<bool>,
    /// Wakes the programs that wait for the chief's announcement.
    pub(crate) end_of_training: Notify,
    /// Whether this task is to take no more steps, whatever the others do.
    pub(crate) stop_requested: Cell<bool>,
    /// The parameter server that was asked to stop, if one was.
    pub(crate) stopping: Cell<Option<PeerId>>,
    /// Why worker 0 takes no more steps, if it has said so.
    pub(crate) chief_left: Cell<Option<Leaving>>,
    /// The number of times that the task's variables have been cleared.
    pub(crate) resets: Cell<u64>,
    /// Whether the cluster has parameter servers.
    pub(crate) has_servers: Cell<bool>,
    /// The tasks that hold variables: the parameter servers or, if there are none, those
    /// that train.
    pub(crate) holders: RefCell<Vec<PeerId>>,
    /// The training's chief, once it is known.
    pub(crate) chief: Cell<Option<PeerId>>,
    /// By peer, as far as any: whether this task has sent it something for a step.
    partners: RefCell<Vec<bool>>,
    /// What this task has said about the end of the training.
    pub(crate) parting: RefCell<Vec<Parting>>,
    /// Where the chief has the variables that workers share.
    pub(crate) places: KnownPlaces,
    /// The variables that a worker alone has, for checkpoints.
    pub(crate) own_values: KnownOwnValues,
    /// Who is told of checkpoints, and what this task has heard of them.
    pub(crate) news: CheckpointNews,
    /// The masters of other servers that programs of this task have sessions on.
    pub(crate) remotes: RemoteMasters,
    /// The lists that the worker and the parameter server send each other.
    pub(crate) requests: Spare<StateRequest>,
    pub(crate) served: Spare<Served>,
    /// The lists of messages that other tasks have sent, for those that go to them: an answer then
    /// goes into memory that has just been read.
    envelopes: Spare<PeerMessage>,
}

/// A message about the end of the training, kept for the tasks that are lost after it.
pub(crate) struct Parting {
    pub(crate) message: ParameterServerMessage,
    /// The tasks that it is for; none for all.
    pub(crate) to: Option<BTreeSet<PeerId>>,
}

impl Link {
    pub(crate) fn new(actors: Rc<Actors>, transport: Rc<dyn Transport<PeerMessage>>) -> Self {
        Self { actors, transport, outgoing: Rc::default() }
    }

    /// This task.
    pub(crate) fn local(&self) -> PeerId {
        self.transport.local()
    }

    pub(crate) fn resolve(&self, task: &TaskName) -> Option<PeerId> {
        self.transport.resolve(task)
    }

    pub(crate) fn name(&self, peer: PeerId) -> TaskName {
        self.transport.name(peer)
    }

    /// The incarnation of `peer` that this task has met last.
    pub(crate) fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.transport.incarnation(peer)
    }

    /// Another task has met `incarnation` of `task`: an earlier one is lost.
    pub(crate) fn has_restarted(&self, task: &TaskName, incarnation: u64) {
        if let Some(peer) = self.resolve(task).filter(|peer| *peer != self.local()) {
            self.transport.has_restarted(peer, incarnation);
        }
    }

    /// How long a connected peer may be silent before it is lost.
    pub(crate) fn silence(&self) -> Duration {
        self.transport.silence()
    }

    /// Why messages to `peer` wait, if they do.
    pub(crate) fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.transport.obstacle(peer)
    }

    /// Sends `message` to its actor at `to`; a message to another task goes with the next flush.
    pub(crate) fn send(&self, to: PeerId, message: impl Into<PeerMessage>) {
        let message = message.into();
        if to == self.local() {
            self.actors.dispatch(to, message);
        } else {
            let mut outgoing = self.outgoing.borrow_mut();
            outgoing.get_or_insert_with(to, || self.actors.envelopes.take()).push(message);
        }
    }

    /// Hop 7 of a step: sends all messages that have waited since the last flush.
    pub(crate) fn flush(&self) {
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.is_empty() {
            return;
        }
        for (to, messages) in outgoing.drain() {
            self.note_partner(to, &messages);
            let span = trace_span!(
                "transport",
                from = %self.name(self.local()),
                to = %self.name(to),
                messages = messages.len()
            );
            let _in_span = span.entered();
            self.transport.send(to, messages);
        }
    }
}

impl Link {
    /// Tells `to` where this task's graph has the shared variables, now or once that is known.
    pub(crate) fn tell_places(&self, to: PeerId) {
        if let Some(places) = self.actors.places.own_for(to) {
            self.send(to, ParameterServerMessage::Places(places));
        }
    }

    /// The tasks that miss a worker which leaves, beside the helpers, where there are parameter
    /// servers. These wait for it, as does a task that this one has sent something for a step; and
    /// the chief would look for it at the end. Telling all would take a connection between any two
    /// workers.
    pub(crate) fn who_misses_a_worker(&self) -> BTreeSet<PeerId> {
        let partners = self.actors.partners.borrow();
        let partners = (0..).zip(&*partners).filter(|(_, is_partner)| **is_partner);
        let partners = partners.map(|(peer, _)| PeerId(peer));
        let holders = self.actors.holders.borrow();
        let always = [self.local()].into_iter().chain(self.actors.chief.get());
        always.chain(holders.iter().copied()).chain(partners).collect()
    }

    /// Tells `peer`, which was lost, again what it was told about the end of the training.
    pub(crate) fn send_parting(&self, peer: PeerId) {
        for Parting { message, to } in &*self.actors.parting.borrow() {
            if to.as_ref().is_none_or(|to| to.contains(&peer)) {
                self.send(peer, message.clone());
            }
        }
    }

    /// Notes that this task sends `to` something for a step, unless `messages` are only about the
    /// end of the training.
    fn note_partner(&self, to: PeerId, messages: &[PeerMessage]) {
        use ParameterServerMessage::{Back, Leave, Lost, Stopping, TrainingOver};
        if let [
            PeerMessage::ParameterServer(
                Leave { .. } | Lost { .. } | Back { .. } | TrainingOver | Stopping,
            ),
        ] = messages
        {
            return;
        }
        let mut partners = self.actors.partners.borrow_mut();
        let index = to.0 as usize;
        if partners.len() <= index {
            partners.resize(index + 1, false);
        }
        partners[index] = true;
    }
}

impl Actors {
    /// Addresses of actors that do not run yet.
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            master: Address::new(),
            worker: Address::new(),
            parameter_server: Address::new(),
            panics: Rc::default(),
            training_over: Cell::new(false),
            end_of_training: Notify::new(),
            stop_requested: Cell::new(false),
            stopping: Cell::new(None),
            chief_left: Cell::new(None),
            resets: Cell::new(0),
            has_servers: Cell::new(false),
            holders: RefCell::default(),
            chief: Cell::new(None),
            partners: RefCell::default(),
            parting: RefCell::default(),
            places: KnownPlaces::default(),
            own_values: KnownOwnValues::default(),
            news: CheckpointNews::default(),
            remotes: RemoteMasters::default(),
            requests: Spare::default(),
            served: Spare::default(),
            envelopes: Spare::default(),
        }
    }

    /// Whether `peer` holds variables.
    pub(crate) fn is_holder(&self, peer: PeerId) -> bool {
        self.holders.borrow().contains(&peer)
    }

    /// Hands a message to its actor.
    fn dispatch(&self, from: PeerId, message: PeerMessage) {
        match message {
            PeerMessage::Master(message) => {
                tell(&self.master, MasterMail::FromPeer { from, message });
            }
            PeerMessage::Worker(message) => {
                tell(&self.worker, WorkerMail::FromPeer { from, message });
            }
            PeerMessage::ParameterServer(message) => {
                self.note(from, &message);
                tell(&self.parameter_server, ParameterServerMail::FromPeer { from, message });
            }
            PeerMessage::Client(message) => self.remotes.deliver(from, message),
        }
    }

    /// Notes what the task's program asks about its training.
    fn note(&self, from: PeerId, message: &ParameterServerMessage) {
        match message {
            ParameterServerMessage::TrainingOver => {
                self.training_over.set(true);
                self.end_of_training.notify_waiters();
            }
            ParameterServerMessage::Reset { .. } => self.resets.set(self.resets.get() + 1),
            ParameterServerMessage::Leave { worker: 0, why } => {
                self.chief_left.set(Some(*why));
                self.news.come();
            }
            ParameterServerMessage::Back { worker: 0 } => self.chief_left.set(None),
            ParameterServerMessage::Stopping => {
                self.stopping.set(Some(from));
                self.news.come();
            }
            ParameterServerMessage::CheckpointSaved => self.news.is_answered(from),
            ParameterServerMessage::Leave { .. }
            | ParameterServerMessage::Lost { .. }
            | ParameterServerMessage::Back { .. }
            | ParameterServerMessage::Flush { .. }
            | ParameterServerMessage::Flushed { .. }
            | ParameterServerMessage::Install(_)
            | ParameterServerMessage::AskForPlaces
            | ParameterServerMessage::WatchCheckpoints
            | ParameterServerMessage::Places(_)
            | ParameterServerMessage::AskForOwnValues { .. }
            | ParameterServerMessage::AskForRestoredValues
            | ParameterServerMessage::OwnValues(_) => {}
        }
    }
}

impl Inbox<PeerMessage> for Actors {
    fn deliver(&self, from: PeerId, mut messages: Messages<PeerMessage>) {
        for message in messages.drain(..).filter(|one| self.access.admits(from, one)) {
            self.dispatch(from, message);
        }
        self.envelopes.give_if_few(messages);
    }

    fn is_idle(&self) -> bool {
        self.master.is_empty() && self.worker.is_empty() && self.parameter_server.is_empty()
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        self.panics.note("the transport", panic);
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        tracing::debug!(peer = peer.0, %loss, "lost a peer");
        self.news.lose(peer);
        self.own_values.lose(peer);
        self.remotes.lost(peer, loss);
        tell(&self.master, MasterMail::Lost { peer, loss });
        // The worker tells the parameter server, after the steps that it fails.
        let masters = self.access.lose(peer);
        tell(&self.worker, WorkerMail::Lost { peer, masters, loss });
    }
}
