//! A task's connection to the others: the runtime's messages, counted, and questions about the
//! task's status.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::pace::Pace;
use crate::cluster::ClusterSpec;
use crate::live::TaskActivity;
use crate::runtime::{
    Inquiry, PeerMessage, Server, SessionStatus, TO_LEAVE, Traffic, TrainingProgress,
};
use crate::transport::{
    Inbox, Loss, Messages, Payload, PeerId, Peers, Quic, Transport, envelope_size,
};
use crate::units::Bytes;

/// The time between two checks whether all actors have said what they wait for, and their number.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS: u32 = 200;
/// The size that a status counts for in a peer's queue, however long it is: a peer gets one at a
/// time.
const STATUS: Bytes = Bytes(4096);

/// A message between processes: the wire format of every deployed task.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// A message of the runtime, from task to task.
    Runtime(PeerMessage),
    /// Asks a task for its status. It answers with `Status`.
    Ask,
    /// The status of a task.
    Status(TaskStatus),
}

/// The status of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The task's name.
    pub task: String,
    /// The names of its devices.
    pub devices: Vec<String>,
    /// The tasks that it knows of, each with its address if that is known.
    pub cluster: Vec<(String, Option<String>)>,
    /// The tasks of each replica that has several; the first trains, and the others help it.
    pub replicas: Vec<Vec<String>>,
    /// Whether its training is over.
    pub is_training_over: bool,
    /// The training's global step, if the task has it or has taken a step.
    pub global_step: Option<u64>,
    /// The global steps a second in the last half minute, or as long as is known.
    pub steps_per_second: Option<f64>,
    /// The global step of the last checkpoint that was saved, or that the training went on from, if
    /// the task is the chief.
    pub checkpoint_step: Option<u64>,
    /// The time since then \[s\].
    pub checkpoint_age_seconds: Option<f64>,
    /// The workers that the task knows to be lost, perhaps for a while.
    pub lost_workers: Vec<String>,
    /// The chief, if it is lost or was asked to stop and the training keeps checkpoints: none is
    /// written until it is back.
    pub missing_chief: Option<String>,
    /// The data sent to other tasks \[bytes\].
    pub bytes_sent: u64,
    /// Whether clients may have sessions on it.
    pub serves_sessions: bool,
    /// The sessions on it.
    pub sessions: Vec<SessionStatus>,
    /// The actors that wait, each with the thing it waits for.
    pub waiting: Vec<(String, String)>,
    /// The tasks that it has messages for but can't reach, each with the reason.
    pub unreached: Vec<(String, String)>,
    /// The peers that it refused or that refused it, if they have not connected since.
    pub refused: Vec<PeerRefused>,
}

/// A peer that was refused, or has refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerRefused {
    /// The peer's name, or its address.
    pub who: String,
    /// The reason.
    pub why: String,
    /// The time since the refusal last happened \[s\]; none if a message was refused, and not a
    /// connection.
    pub seconds_ago: Option<f64>,
}

impl TaskStatus {
    /// The actors that wait, each with the thing it waits for, but for those that wait for the
    /// training's end while it goes on.
    pub fn waits(&self) -> impl Iterator<Item = &(String, String)> {
        let is_usual = |what: &str| !self.is_training_over && what.ends_with(TO_LEAVE);
        self.waiting.iter().filter(move |(_, what)| !is_usual(what))
    }
}

impl Payload for Message {
    fn wire_size(&self) -> Bytes {
        match self {
            Self::Runtime(message) => message.wire_size(),
            Self::Ask => Bytes(0),
            Self::Status(_) => STATUS,
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Runtime(message) => message.check(),
            Self::Ask | Self::Status(_) => Ok(()),
        }
    }
}

/// A task's end of the network.
pub(crate) struct Network {
    quic: Rc<Quic<Message>>,
    /// All tasks of the training.
    roster: ClusterSpec,
    /// The tasks whose addresses are known.
    known: ClusterSpec,
    sent: Rc<Cell<Traffic>>,
    /// The data sent and received \[bytes\], by peer, if somebody is to see them.
    by_peer: OnceCell<RefCell<BTreeMap<PeerId, (u64, u64)>>>,
    /// The server that answers questions about the task's status, once it is started.
    server: RefCell<Weak<Server>>,
    /// The peers to which an answer is on its way, one at a time, and
    /// whether they have asked again meanwhile.
    answering: RefCell<BTreeMap<PeerId, bool>>,
    pace: Pace,
}

impl Network {
    /// A network of `roster`, of which the tasks `known` have addresses; what the runtime sends is
    /// counted in `sent`.
    pub(crate) fn new(
        quic: Rc<Quic<Message>>,
        roster: ClusterSpec,
        known: ClusterSpec,
        sent: Rc<Cell<Traffic>>,
    ) -> Rc<Self> {
        let (by_peer, server, answering) =
            (OnceCell::new(), RefCell::default(), RefCell::default());
        let pace = Pace::default();
        Rc::new(Self { quic, roster, known, sent, by_peer, server, answering, pace })
    }

    /// Attaches the server that answers questions.
    pub(crate) fn attach(&self, server: &Rc<Server>) {
        self.server.replace(Rc::downgrade(server));
    }

    /// Counts from now on what is sent to each peer and received from it.
    pub(super) fn count_by_peer(&self) {
        self.by_peer.get_or_init(RefCell::default);
    }

    /// What a board shows of `server`, which is this task's.
    pub(super) async fn activity(&self, server: &Server) -> TaskActivity {
        let status = self.status(server).await;
        let mut activity = TaskActivity {
            now: server.clock().now().as_secs_f64(),
            waiting: status.waiting,
            unreached: status.unreached.into_iter().map(|(task, _)| task).collect(),
            sessions: status.sessions.len() as u64,
            running_steps: status.sessions.iter().map(|session| session.running).sum(),
            certificate_end: self.quic.certificate_end().map(since_1970),
            ..TaskActivity::default()
        };
        for (peer, (sent, received)) in
            self.by_peer.get().iter().flat_map(|all| all.borrow().clone())
        {
            let name = self.quic.name(peer).to_string();
            *activity.sent.entry(name.clone()).or_default() += sent;
            *activity.received.entry(name).or_default() += received;
        }
        activity
    }

    /// The transport of the runtime's messages.
    pub(crate) fn transport(self: &Rc<Self>) -> Rc<dyn Transport<PeerMessage>> {
        Rc::new(OfRuntime(Rc::clone(self)))
    }

    /// Answers `peer`, which has asked for the task's status: now or, if an answer to it is on its
    /// way, after that one.
    fn answer_soon(self: &Rc<Self>, peer: PeerId) {
        match self.answering.borrow_mut().entry(peer) {
            Entry::Occupied(mut again) => *again.get_mut() = true,
            Entry::Vacant(new) => {
                new.insert(false);
                actix_rt::spawn(answer(Rc::downgrade(self), peer));
            }
        }
    }

    /// How fast the training goes on.
    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// How far the training of `server` is.
    pub(super) async fn progress(&self, server: &Server) -> TrainingProgress {
        let inquiry = Inquiry::new();
        server.look_at_progress(&inquiry);
        until(|| inquiry.is_over()).await;
        told(&inquiry, server)
    }

    /// The task's status.
    async fn status(&self, server: &Server) -> TaskStatus {
        let (waiting, sessions, progress) = (Inquiry::new(), Inquiry::new(), Inquiry::new());
        server.inquire(&waiting);
        server.list_sessions(&sessions);
        server.look_at_progress(&progress);
        until(|| waiting.is_over() && sessions.is_over() && progress.is_over()).await;
        let (waiting, sessions) = (waiting.take(), sessions.take());
        let cluster = self.roster.tasks().map(|task| {
            let address = self.known.task_address(&task).ok().map(str::to_owned);
            (task.to_string(), address)
        });
        let replicas = self.roster.replicas();
        let replicas = replicas.map(|tasks| tasks.iter().map(ToString::to_string).collect());
        let (progress, now) = (told(&progress, server), server.clock().now());
        let pace = progress.global_step.and_then(|step| self.pace.steps_per_second(now, step));
        let lost = progress.lost.iter().filter_map(|worker| self.roster.worker(*worker));
        let is_missing = server.training().waits_for_checkpoints();
        let chief = self.roster.chief().filter(|_| is_missing);
        let of_messages = server.refusals().into_iter();
        let of_messages = of_messages.map(|(who, why)| PeerRefused {
            who: who.to_string(),
            why,
            seconds_ago: None,
        });
        let refused = self
            .quic
            .standing_refusals()
            .into_iter()
            .map(|(who, why, ago)| PeerRefused { who, why, seconds_ago: Some(ago.as_secs_f64()) });
        TaskStatus {
            task: server.task().to_string(),
            devices: server.devices().map(|device| device.to_string()).collect(),
            cluster: cluster.collect(),
            replicas: replicas.collect(),
            is_training_over: server.training().is_over(),
            global_step: progress.global_step,
            steps_per_second: pace,
            checkpoint_step: progress.saved.map(|(step, _)| step),
            checkpoint_age_seconds: progress.saved.map(|(_, at)| now.since(at).as_secs_f64()),
            lost_workers: lost.map(|task| task.to_string()).collect(),
            missing_chief: chief.map(|chief| chief.to_string()),
            bytes_sent: self.sent.get().total,
            serves_sessions: server.serves_sessions(),
            sessions,
            waiting: waiting.into_iter().map(|waiting| (waiting.who, waiting.what)).collect(),
            unreached: self
                .quic
                .waiting_for()
                .into_iter()
                .map(|(task, obstacle)| (task.to_string(), obstacle.why))
                .collect(),
            refused: refused.chain(of_messages).collect(),
        }
    }
}

/// How far the training of `server` is, as was told; or as it knows, if nothing was told in time.
fn told(inquiry: &Inquiry<TrainingProgress>, server: &Server) -> TrainingProgress {
    inquiry.take().pop().unwrap_or_else(|| server.training().progress())
}

/// Looks now and then until `is_over`, but not for ever.
async fn until(is_over: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if is_over() {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The network as the runtime sees it.
struct OfRuntime(Rc<Network>);

impl Transport<PeerMessage> for OfRuntime {
    fn peers(&self) -> &dyn Peers {
        &*self.0.quic
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        let Network { quic, sent, by_peer, .. } = &*self.0;
        let mut traffic = sent.get();
        let Bytes(size) = traffic.count(&messages);
        sent.set(traffic);
        if let Some(by_peer) = by_peer.get() {
            by_peer.borrow_mut().entry(to).or_default().0 += size;
        }
        quic.send(to, messages.into_iter().map(Message::Runtime).collect());
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.0.quic.listen(Rc::new(Sorter { inbox, network: Rc::downgrade(&self.0) }));
    }

    fn close(&self) {
        self.0.quic.close();
    }
}

/// Separates the runtime's messages from the questions.
struct Sorter {
    inbox: Rc<dyn Inbox<PeerMessage>>,
    network: Weak<Network>,
}

impl Inbox<Message> for Sorter {
    fn deliver(&self, from: PeerId, messages: Messages<Message>) {
        let mut asks = false;
        let of_runtime = |message| match message {
            Message::Runtime(message) => Some(message),
            Message::Ask => {
                asks = true;
                None
            }
            Message::Status(_) => None, // nobody here has asked
        };
        let messages: Messages<PeerMessage> = messages.into_iter().filter_map(of_runtime).collect();
        if !messages.is_empty() {
            if let Some(network) = self.network.upgrade()
                && let Some(by_peer) = network.by_peer.get()
            {
                let Bytes(size) = envelope_size(&messages);
                by_peer.borrow_mut().entry(from).or_default().1 += size;
            }
            self.inbox.deliver(from, messages);
        }
        if asks && let Some(network) = self.network.upgrade() {
            network.answer_soon(from);
        }
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        self.inbox.lost(peer, loss);
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        self.inbox.broken(panic);
    }
}

/// Tells `to` the task's status, and waits until that is written, which takes long if `to` does not
/// read. If `to` has asked once more or several times by then, it is told once more.
async fn answer(network: Weak<Network>, to: PeerId) {
    while let Some(asked) = network.upgrade() {
        let server = asked.server.borrow().upgrade();
        if let Some(server) = server {
            let status = asked.status(&server).await;
            // One that has gone meanwhile has no address: the next of its name would be told this.
            if asked.quic.is_connected(to) {
                asked.quic.send(to, vec![Message::Status(status)]);
            }
        }
        drop(asked);
        while network.upgrade().is_some_and(|network| network.quic.has_unwritten(to)) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let Some(network) = network.upgrade() else { return };
        let mut answering = network.answering.borrow_mut();
        if answering.insert(to, false) != Some(true) {
            answering.remove(&to);
            return;
        }
    }
}

/// The seconds from 1970 to `time`.
fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
