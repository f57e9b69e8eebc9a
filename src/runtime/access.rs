//! Access: which messages of a peer a task takes, by what the peer is and by what it began here.
//!
//! | peer | may |
//! |---|---|
//! | a task of the cluster | order graphs of its own master, send values, reset; leave as the worker that it is |
//! | a client | call for sessions, and give the same orders and values, where the server serves sessions |
//! | any other, such as who only asks for the status | nothing |
//!
//! A master's id belongs to the peer that first registered a graph under it, until that peer is
//! lost. Worker 0's task may report that other workers have left. It and the parameter servers may
//! report a worker as lost; they and the task of the global step, that it is back. Only a
//! parameter server says that it stops. Who takes part in rounds is said by the task of the global
//! step, which an evaluator is not, nor a worker where there are parameter servers; and only tasks
//! that hold variables answer it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::cluster::{ClusterSpec, Role as JobRole, TaskName};
use crate::transport::{CLIENT, PeerId, Transport};

use crate::runtime::error::{Code, Error};
use crate::runtime::messages::{
    About, ClientMessage, MasterMessage, ParameterServerMessage, PeerMessage, Scope, StepId,
    WorkerMessage,
};
use crate::runtime::patience::Patience;

/// The most masters of one peer: its server has one at a time.
const MASTERS: usize = 8;

/// The rights of a task's peers.
pub(crate) struct Access {
    cluster: ClusterSpec,
    /// The number of tasks that train.
    workers: u32,
    /// Names the peers; weak, since the transport holds the actors.
    transport: Option<Weak<dyn Transport<PeerMessage>>>,
    /// How long sessions outlive the connection of their client, if clients may have any.
    serves_sessions: Cell<Option<Duration>>,
    /// The peers that have sent something: `peers[n]` is the one of id `n`.
    peers: RefCell<Vec<Option<Peer>>>,
    masters: RefCell<Masters>,
    /// By peer: the id of the last master under which it has registered a graph, in this life of
    /// the task, even if it was lost since.
    last: RefCell<BTreeMap<PeerId, u64>>,
    /// The refusals, each once.
    refused: RefCell<BTreeSet<(TaskName, Refusal)>>,
}

/// The masters whose peers are known.
#[derive(Default)]
struct Masters {
    /// By master's id: its peer.
    peers: BTreeMap<u64, PeerId>,
    /// The same pairs by peer: one peer's are found without a walk over all.
    by_peer: BTreeSet<(PeerId, u64)>,
}

/// A peer, as the cluster knows it.
#[derive(Clone, Debug)]
struct Peer {
    name: TaskName,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A task of the cluster; its index among those that train, if it does.
    Task(Option<u32>),
    Client,
    Stranger,
}

/// The reason why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it is no task of this cluster")]
    Stranger,
    #[error(
        "a client may only ask for the status here; sessions are served by a server without a \
         training of its own"
    )]
    Client,
    #[error("it gives orders as the master of another task")]
    Master,
    #[error("it has given orders as too many masters")]
    Masters,
    #[error("it speaks for a worker that it is not")]
    Worker,
    #[error("it is no parameter server, and says that the training's variables go with it")]
    NoServer,
    #[error("it has no global step, and says who takes part in rounds")]
    NoRounds,
    #[error("it holds no variables, and says how far they have come")]
    NoHolder,
}

impl Access {
    /// The rights of the peers that `transport` brings to a task of `cluster`.
    pub(crate) fn new(cluster: &ClusterSpec, transport: &Rc<dyn Transport<PeerMessage>>) -> Self {
        Self { transport: Some(Rc::downgrade(transport)), ..Self::of(cluster.clone()) }
    }

    /// The rights of nobody: for actors that do not run.
    #[cfg(test)]
    pub(crate) fn nobody() -> Self {
        Self::of(ClusterSpec::default())
    }

    fn of(cluster: ClusterSpec) -> Self {
        Self {
            workers: cluster.num_workers(),
            cluster,
            transport: None,
            serves_sessions: Cell::new(None),
            peers: RefCell::default(),
            masters: RefCell::default(),
            last: RefCell::default(),
            refused: RefCell::default(),
        }
    }

    /// Lets clients run graphs from now on; their sessions outlive their connections by `limit`.
    pub(crate) fn serve_sessions(&self, limit: Duration) {
        self.serves_sessions.set(Some(limit));
    }

    /// Whether clients may run graphs.
    pub(crate) fn serves_sessions(&self) -> bool {
        self.serves_sessions.get().is_some()
    }

    /// How long sessions outlive the connection of their client.
    pub(crate) fn client_limit(&self) -> Duration {
        self.serves_sessions.get().unwrap_or(Patience::default().recovery)
    }

    /// Whether `peer` has sent something, and is a client.
    pub(crate) fn is_client(&self, peer: PeerId) -> bool {
        let peers = self.peers.borrow();
        let peer = peers.get(peer.0 as usize).and_then(Option::as_ref);
        peer.is_some_and(|peer| peer.role == Role::Client)
    }

    /// The index of `task` among those that train, if it does.
    pub(crate) fn worker_at(&self, task: &TaskName) -> Option<u32> {
        self.cluster.worker_index(task)
    }

    /// Whether `peer` has sent anything in this life of the task.
    pub(crate) fn has_heard(&self, peer: PeerId) -> bool {
        self.peers.borrow().get(peer.0 as usize).is_some_and(Option::is_some)
    }

    /// The incarnation of `peer` that this task has met last.
    pub(crate) fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.transport.as_ref()?.upgrade()?.peers().incarnation(peer)
    }

    /// Notes that `master` is `peer`'s.
    pub(crate) fn own(&self, master: u64, peer: PeerId) {
        self.masters.borrow_mut().insert(master, peer);
    }

    /// Whether `master` is the last under which `peer` has registered a graph in this life of the
    /// task.
    pub(crate) fn knows(&self, master: u64, peer: PeerId) -> bool {
        self.last.borrow().get(&peer) == Some(&master)
    }

    /// Forgets the masters of `peer`, which is lost; returns them.
    pub(crate) fn lose(&self, peer: PeerId) -> Vec<u64> {
        self.masters.borrow_mut().forget(peer)
    }

    /// The refusals so far: the peer, and the reason.
    pub(crate) fn refusals(&self) -> Vec<(TaskName, String)> {
        let refused = self.refused.borrow();
        refused.iter().map(|(who, why)| (who.clone(), why.to_string())).collect()
    }

    /// Whether `message` is taken from `from`; if not, that is logged once.
    pub(crate) fn admits(&self, from: PeerId, message: &PeerMessage) -> bool {
        if !self.meet(from) {
            return false; // the transport is gone, and with it the task
        }
        let peers = self.peers.borrow();
        let peer = peers[from.0 as usize].as_ref().expect("it has just been met");
        let checked = self.check_role(peer.role, message);
        let checked = checked.and_then(|()| self.check_master(from, message));
        let Err(refusal) = checked.and_then(|()| self.check_worker(peer, message)) else {
            return true;
        };
        if self.refused.borrow_mut().insert((peer.name.clone(), refusal)) {
            tracing::warn!(from = %peer.name, why = %refusal, "a message is refused");
        }
        drop(peers);
        self.answer_refused(from, message, refusal);
        false
    }

    /// Tells a client that its call is refused, or a master its registration; nothing else waits
    /// for an answer.
    fn answer_refused(&self, from: PeerId, message: &PeerMessage, refusal: Refusal) {
        let Some(transport) = self.transport.as_ref().and_then(Weak::upgrade) else { return };
        let here = transport.peers().name(transport.peers().local());
        let error = Error::new(Code::Unauthenticated, refusal.to_string()).on(&here);
        let answer: PeerMessage = match message {
            PeerMessage::Master(MasterMessage::Called(call)) => {
                ClientMessage { number: call.number, outcome: Err(error) }.into()
            }
            PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) => {
                MasterMessage::GraphRegistered { graph: order.graph, outcome: Err(error) }.into()
            }
            _ => return,
        };
        transport.send(from, vec![answer]);
    }

    /// Finds out what `peer` is, unless that is known. Returns whether it is known now.
    fn meet(&self, peer: PeerId) -> bool {
        let (mut peers, number) = (self.peers.borrow_mut(), peer.0 as usize);
        if peers.len() <= number {
            peers.resize(number + 1, None);
        }
        if peers[number].is_none() {
            peers[number] = self.identify(peer);
        }
        peers[number].is_some()
    }

    fn identify(&self, from: PeerId) -> Option<Peer> {
        let name = self.transport.as_ref()?.upgrade()?.peers().name(from);
        let role = match name.job() {
            _ if self.cluster.contains(&name) => Role::Task(self.cluster.worker_index(&name)),
            CLIENT => Role::Client,
            _ => Role::Stranger,
        };
        Some(Peer { name, role })
    }

    fn check_role(&self, role: Role, message: &PeerMessage) -> Result<(), Refusal> {
        use ParameterServerMessage::Reset;
        let is_of_session = match message {
            PeerMessage::Master(_) | PeerMessage::Worker(_) => true,
            PeerMessage::Client(_) | PeerMessage::Program(_) => false,
            PeerMessage::ParameterServer(message) => matches!(message, Reset { .. }),
        };
        match role {
            Role::Task(_) => Ok(()),
            Role::Client if is_of_session && self.serves_sessions() => Ok(()),
            Role::Client => Err(Refusal::Client),
            Role::Stranger => Err(Refusal::Stranger),
        }
    }

    /// Checks that the masters which the message names are the sender's, or nobody's yet.
    fn check_master(&self, from: PeerId, message: &PeerMessage) -> Result<(), Refusal> {
        let PeerMessage::Worker(message) = message else { return Ok(()) };
        let of = |scope: &Option<Scope>| scope.map(|(master, _)| master);
        let is_own =
            |master: u64| self.masters.borrow().peers.get(&master).is_none_or(|of| *of == from);
        let are_own = match message {
            WorkerMessage::RegisterGraph(order) => {
                let master = order.graph.master;
                let is_one = of(&order.scope).is_none_or(|of| of == master);
                if !is_one || !is_own(master) {
                    return Err(Refusal::Master);
                }
                return self.claim(master, from);
            }
            WorkerMessage::DeregisterGraphs { graphs, scope } => {
                graphs.iter().map(|graph| graph.master).chain(of(scope)).all(is_own)
            }
            WorkerMessage::AskForMaster { master } => is_own(*master),
            // Whose values a step waits for is in its partition.
            WorkerMessage::Tensors { .. } => true,
            WorkerMessage::RunGraph(_)
            | WorkerMessage::AskForWays { .. }
            | WorkerMessage::AbortStep(_) => matches!(
                message.about(),
                About::Step(StepId { master, .. }, graph)
                    if graph.is_none_or(|graph| graph.master == master) && is_own(master)
            ),
        };
        if are_own { Ok(()) } else { Err(Refusal::Master) }
    }

    fn claim(&self, master: u64, from: PeerId) -> Result<(), Refusal> {
        let masters = &mut *self.masters.borrow_mut();
        if masters.peers.contains_key(&master) {
            return Ok(());
        }
        if masters.of(from).count() >= MASTERS {
            return Err(Refusal::Masters);
        }
        masters.insert(master, from);
        self.last.borrow_mut().insert(from, master);
        Ok(())
    }

    fn check_worker(&self, peer: &Peer, message: &PeerMessage) -> Result<(), Refusal> {
        use ParameterServerMessage::{
            Back, ChiefFailed, Flush, Flushed, Found, Install, Leave, LetIn, Lost, Stopping,
        };
        let PeerMessage::ParameterServer(message) = message else { return Ok(()) };
        // Servers say of a worker that it is lost or found, they and the task of the global step
        // that it is back, and the worker itself that it leaves.
        let (worker, is_of_servers) = match message {
            Stopping if !peer.name.is_parameter_server() => return Err(Refusal::NoServer),
            Flush { .. } | Install(_) if !self.may_count_steps(peer) => {
                return Err(Refusal::NoRounds);
            }
            Flushed { .. } | LetIn { .. } if !self.cluster.holds_variables(&peer.name) => {
                return Err(Refusal::NoHolder);
            }
            LetIn { worker, .. } if *worker < self.workers => return Ok(()),
            Leave { worker, .. } => (*worker, false),
            ChiefFailed { .. } => (0, false),
            Back { worker } if self.may_count_steps(peer) && *worker < self.workers => {
                return Ok(());
            }
            Lost { worker } | Found { worker } | Back { worker } | LetIn { worker, .. } => {
                (*worker, true)
            }
            _ => return Ok(()),
        };
        let may_say = match peer.role {
            Role::Task(Some(0)) => worker < self.workers,
            Role::Task(Some(own)) => own == worker && !is_of_servers,
            Role::Task(None) => {
                worker < self.workers && is_of_servers && peer.name.is_parameter_server()
            }
            Role::Client | Role::Stranger => false,
        };
        if may_say { Ok(()) } else { Err(Refusal::Worker) }
    }

    /// Whether `peer` may have the global step: it holds variables, or is a helper, on which a
    /// program can place it.
    fn may_count_steps(&self, peer: &Peer) -> bool {
        self.cluster.holds_variables(&peer.name) || self.cluster.role(&peer.name) == JobRole::Helper
    }
}

impl Masters {
    /// Notes that `master` is `peer`'s.
    fn insert(&mut self, master: u64, peer: PeerId) {
        if let Some(before) = self.peers.insert(master, peer) {
            self.by_peer.remove(&(before, master));
        }
        self.by_peer.insert((peer, master));
    }

    /// Forgets the masters of `peer`; returns them.
    fn forget(&mut self, peer: PeerId) -> Vec<u64> {
        let forgotten: Vec<u64> = self.of(peer).collect();
        for master in &forgotten {
            self.peers.remove(master);
            self.by_peer.remove(&(peer, *master));
        }
        forgotten
    }

    /// The masters of `peer`.
    fn of(&self, peer: PeerId) -> impl Iterator<Item = u64> {
        self.by_peer.range((peer, 0)..=(peer, u64::MAX)).map(|(_, master)| *master)
    }
}

#[cfg(test)]
mod tests;
