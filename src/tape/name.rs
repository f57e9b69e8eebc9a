//! Names of messages that are the same in both worlds.
//!
//! A master's id is another in each world and each life, so a name has the task of the master and
//! counts the masters that the receiver has met there. All other numbers of a message are counted
//! by its sender and the same wherever the same steps are taken.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::runtime::{
    ClientMessage, GraphHandle, MasterMessage, ParameterServerMessage, PeerMessage, ProgramMessage,
    StepId, WorkerMessage,
};

/// The kind of a message. The numbers are in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are the messages of the runtime, with its names")]
pub enum Kind {
    GraphRegistered = 0,
    GraphDone = 1,
    Traced = 2,
    Fetched = 3,
    ResetDone = 4,
    Called = 5,
    WayLost = 6,
    RegisterGraph = 7,
    DeregisterGraphs = 8,
    RunGraph = 9,
    RunInPieces = 10,
    Feed = 11,
    Tensors = 12,
    AbortStep = 13,
    Reset = 14,
    Leave = 15,
    Flush = 16,
    Flushed = 17,
    Install = 18,
    TrainingOver = 19,
    AskForPlaces = 20,
    Places = 21,
    Stopping = 22,
    WatchCheckpoints = 23,
    CheckpointSaved = 24,
    AskForOwnValues = 25,
    AskForRestoredValues = 26,
    OwnValues = 27,
    Answered = 28,
    Known = 29,
    AskForMaster = 30,
    Lost = 31,
    Back = 32,
    BlockedWays = 33,
    AskForWays = 34,
    ChiefFailed = 35,
}

impl Kind {
    /// All of them, by number.
    pub(super) const ALL: [Self; 36] = [
        Self::GraphRegistered,
        Self::GraphDone,
        Self::Traced,
        Self::Fetched,
        Self::ResetDone,
        Self::Called,
        Self::WayLost,
        Self::RegisterGraph,
        Self::DeregisterGraphs,
        Self::RunGraph,
        Self::RunInPieces,
        Self::Feed,
        Self::Tensors,
        Self::AbortStep,
        Self::Reset,
        Self::Leave,
        Self::Flush,
        Self::Flushed,
        Self::Install,
        Self::TrainingOver,
        Self::AskForPlaces,
        Self::Places,
        Self::Stopping,
        Self::WatchCheckpoints,
        Self::CheckpointSaved,
        Self::AskForOwnValues,
        Self::AskForRestoredValues,
        Self::OwnValues,
        Self::Answered,
        Self::Known,
        Self::AskForMaster,
        Self::Lost,
        Self::Back,
        Self::BlockedWays,
        Self::AskForWays,
        Self::ChiefFailed,
    ];

    /// What the number and the items of such a name count.
    pub(super) fn counts(self) -> (&'static str, &'static str) {
        match self {
            Self::GraphDone | Self::Traced | Self::Fetched => ("step", "graph"),
            Self::RunGraph | Self::RunInPieces | Self::Feed => ("step", "graph"),
            Self::BlockedWays | Self::AskForWays => ("step", "graph"),
            Self::Tensors => ("step", "edges"),
            Self::AbortStep => ("step", ""),
            Self::GraphRegistered | Self::RegisterGraph => ("graph", ""),
            Self::DeregisterGraphs => ("of", "graphs"),
            Self::Leave | Self::Lost | Self::Back => ("worker", ""),
            Self::Flush | Self::Flushed | Self::Install => ("view", ""),
            _ => ("number", ""),
        }
    }
}

/// A master, as the receiver of a message knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// The receiver's own, or none.
    Own,
    /// That of another task: the task's number in the cluster, and how many masters of it the
    /// receiver had met before.
    Other(u32, u32),
}

/// The name of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The kind.
    pub kind: Kind,
    /// The master whose step or graph it is about.
    pub author: Author,
    /// The number of the step, or what else messages of this kind are counted by.
    pub number: u64,
    /// What it is about besides: graphs, or the edges whose values it brings.
    pub items: SmallVec<[u32; 2]>,
}

impl Name {
    /// Whether its items are the edges of values, each of which may travel by itself.
    pub(crate) fn is_of_values(&self) -> bool {
        self.kind == Kind::Tensors
    }
}

/// The masters that a task has met, by their ids.
#[derive(Clone, Debug, Default)]
pub struct Masters {
    met: BTreeMap<u64, (u32, u32)>,
}

impl Masters {
    /// The name of `message`, which comes from the task of the number `from`.
    pub fn name(&self, from: u32, message: &PeerMessage) -> Name {
        match message {
            PeerMessage::Master(message) => self.of_master(message),
            PeerMessage::Worker(message) => self.of_worker(from, message),
            PeerMessage::ParameterServer(message) => of_parameter_server(message),
            PeerMessage::Client(ClientMessage { number, .. }) => plain(Kind::Answered, *number),
            PeerMessage::Program(message) => of_program(message),
        }
    }

    /// Meets the master of the task `from`, if `message` is the first that tells its id.
    pub fn meet(&mut self, from: u32, message: &PeerMessage) {
        if let PeerMessage::Worker(WorkerMessage::RegisterGraph { graph, .. }) = message
            && !self.met.contains_key(&graph.master)
        {
            self.met.insert(graph.master, (from, self.count(from)));
        }
    }

    fn count(&self, task: u32) -> u32 {
        self.met.values().filter(|(of, _)| *of == task).count() as u32
    }

    fn author(&self, master: u64) -> Author {
        self.met.get(&master).map_or(Author::Own, |(task, life)| Author::Other(*task, *life))
    }

    fn step(&self, kind: Kind, step: StepId, items: SmallVec<[u32; 2]>) -> Name {
        Name { kind, author: self.author(step.master), number: step.number, items }
    }

    fn part(&self, kind: Kind, step: StepId, graph: GraphHandle) -> Name {
        self.step(kind, step, smallvec![graph.number as u32])
    }

    fn of_master(&self, message: &MasterMessage) -> Name {
        match message {
            MasterMessage::GraphRegistered { graph, .. } => {
                let author = self.author(graph.master);
                Name { author, ..plain(Kind::GraphRegistered, graph.number) }
            }
            MasterMessage::GraphDone { step, graph, .. } => {
                self.part(Kind::GraphDone, *step, *graph)
            }
            MasterMessage::Traced { step, graph, .. } => self.part(Kind::Traced, *step, *graph),
            MasterMessage::Fetched { step, graph, .. } => self.part(Kind::Fetched, *step, *graph),
            MasterMessage::ResetDone { number, .. } => plain(Kind::ResetDone, *number),
            MasterMessage::Called(call) => plain(Kind::Called, call.number),
            MasterMessage::WayLost { .. } => plain(Kind::WayLost, 0),
            MasterMessage::Known { .. } => plain(Kind::Known, 0),
            MasterMessage::BlockedWays { step, graph, .. } => {
                self.part(Kind::BlockedWays, *step, *graph)
            }
        }
    }

    fn of_worker(&self, from: u32, message: &WorkerMessage) -> Name {
        match message {
            WorkerMessage::RegisterGraph { graph, .. } => {
                let author = match self.author(graph.master) {
                    Author::Own => Author::Other(from, self.count(from)),
                    known @ Author::Other(..) => known,
                };
                Name { author, ..plain(Kind::RegisterGraph, graph.number) }
            }
            WorkerMessage::DeregisterGraphs { graphs, .. } => {
                let first = graphs.first().map(|graph| graph.master);
                let author = first.map_or(Author::Own, |master| self.author(master));
                let items = graphs.iter().map(|graph| graph.number as u32).collect();
                Name { author, items, ..plain(Kind::DeregisterGraphs, 0) }
            }
            WorkerMessage::RunGraph(order) => self.part(Kind::RunGraph, order.step, order.graph),
            WorkerMessage::RunInPieces { step, graph } => {
                self.part(Kind::RunInPieces, *step, *graph)
            }
            WorkerMessage::Feed { step, graph, .. } => self.part(Kind::Feed, *step, *graph),
            WorkerMessage::Tensors { step, arrivals, .. } => {
                let edges = arrivals.iter().map(|(crossing, _)| crossing.0).collect();
                self.step(Kind::Tensors, *step, edges)
            }
            WorkerMessage::AbortStep(step) => self.step(Kind::AbortStep, *step, smallvec![]),
            WorkerMessage::AskForMaster { .. } => plain(Kind::AskForMaster, 0),
            WorkerMessage::AskForWays { step, graph } => self.part(Kind::AskForWays, *step, *graph),
        }
    }
}

fn plain(kind: Kind, number: u64) -> Name {
    Name { kind, author: Author::Own, number, items: smallvec![] }
}

fn of_parameter_server(message: &ParameterServerMessage) -> Name {
    use ParameterServerMessage as Message;
    let (kind, number) = match message {
        Message::Reset { number, .. } => (Kind::Reset, *number),
        Message::Leave { worker, .. } => (Kind::Leave, u64::from(*worker)),
        Message::Lost { worker } => (Kind::Lost, u64::from(*worker)),
        Message::Back { worker } => (Kind::Back, u64::from(*worker)),
        Message::Flush { number, .. } => (Kind::Flush, u64::from(*number)),
        Message::Flushed { number, .. } => (Kind::Flushed, u64::from(*number)),
        Message::Install(view) => (Kind::Install, u64::from(view.number)),
        Message::TrainingOver => (Kind::TrainingOver, 0),
        Message::ChiefFailed(_) => (Kind::ChiefFailed, 0),
        Message::Stopping => (Kind::Stopping, 0),
    };
    plain(kind, number)
}

fn of_program(message: &ProgramMessage) -> Name {
    use ProgramMessage as Message;
    let (kind, number) = match message {
        Message::AskForPlaces => (Kind::AskForPlaces, 0),
        Message::Places(_) => (Kind::Places, 0),
        Message::WatchCheckpoints => (Kind::WatchCheckpoints, 0),
        Message::CheckpointSaved => (Kind::CheckpointSaved, 0),
        Message::AskForOwnValues { count } => (Kind::AskForOwnValues, *count),
        Message::AskForRestoredValues => (Kind::AskForRestoredValues, 0),
        Message::OwnValues(_) => (Kind::OwnValues, 0),
    };
    plain(kind, number)
}

/// The parts of a message that may travel by themselves: each value of a step. How many travel
/// together depends on how long kernels take.
pub(crate) fn parts(message: PeerMessage) -> SmallVec<[PeerMessage; 1]> {
    use WorkerMessage::Tensors;
    match message {
        PeerMessage::Worker(Tensors { step, devices, arrivals }) if arrivals.len() > 1 => {
            let one =
                |arrival| Tensors { step, devices: devices.clone(), arrivals: smallvec![arrival] };
            arrivals.into_iter().map(|arrival| one(arrival).into()).collect()
        }
        whole => smallvec![whole],
    }
}

/// The message that has these parts; none if there is no part.
pub(crate) fn joined(parts: impl IntoIterator<Item = PeerMessage>) -> Option<PeerMessage> {
    let mut parts = parts.into_iter();
    let mut whole = parts.next()?;
    for part in parts {
        match (&mut whole, part) {
            (
                PeerMessage::Worker(WorkerMessage::Tensors { arrivals, .. }),
                PeerMessage::Worker(WorkerMessage::Tensors { arrivals: more, .. }),
            ) => arrivals.extend(more),
            (whole, part) => unreachable!("{part:?} is no part of {whole:?}"),
        }
    }
    Some(whole)
}
