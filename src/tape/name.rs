//! Names of messages that are the same in both worlds.
//!
//! A master's id is another in each world and each life, so a name has the task of the master and
//! counts the masters that the receiver has met there. All other numbers of a message are counted
//! by its sender and the same wherever the same steps are taken.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::{SmallVec, smallvec};

use crate::runtime::{
    About, MasterMessage, ParameterServerMessage, PeerMessage, ProgramMessage, WorkerMessage,
};

listed! {
    /// The kind of a message. The numbers are in files; each is the variant's place.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[repr(u8)]
    #[expect(missing_docs, reason = "they are the messages of the runtime, with its names")]
    pub enum Kind {
        GraphRegistered = 0,
        GraphDone = 1,
        Traced = 2,
        ResetDone = 3,
        Called = 4,
        WayLost = 5,
        RegisterGraph = 6,
        DeregisterGraphs = 7,
        RunGraph = 8,
        Tensors = 9,
        AbortStep = 10,
        Reset = 11,
        Leave = 12,
        Flush = 13,
        Flushed = 14,
        Install = 15,
        TrainingOver = 16,
        AskForPlaces = 17,
        Places = 18,
        Stopping = 19,
        WatchCheckpoints = 20,
        CheckpointSaved = 21,
        AskForOwnValues = 22,
        AskForRestoredValues = 23,
        OwnValues = 24,
        Answered = 25,
        Known = 26,
        AskForMaster = 27,
        Lost = 28,
        Back = 29,
        BlockedWays = 30,
        AskForWays = 31,
        ChiefFailed = 32,
        LetIn = 33,
    }
    pub const ALL;
}

impl Kind {
    /// What the number and the items of such a name count.
    pub(super) fn counts(self) -> (&'static str, &'static str) {
        match self {
            Self::GraphDone | Self::Traced | Self::RunGraph => ("step", "graph"),
            Self::BlockedWays | Self::AskForWays => ("step", "graph"),
            Self::Tensors => ("step", "edges"),
            Self::AbortStep => ("step", ""),
            Self::GraphRegistered | Self::RegisterGraph => ("graph", ""),
            Self::DeregisterGraphs => ("of", "graphs"),
            Self::Leave | Self::Lost | Self::Back | Self::LetIn => ("worker", ""),
            Self::Flush | Self::Flushed | Self::Install => ("view", ""),
            _ => ("number", ""),
        }
    }
}

/// A master, as the receiver of a message knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Author {
    /// The receiver's own, or none.
    Own,
    /// A master of another task: the task's number in the cluster, and the number of its masters
    /// that the receiver had met before.
    Other(u32, u32),
}

/// The name of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The kind.
    pub kind: Kind,
    /// The master whose step or graph it is about.
    pub author: Author,
    /// The number of the step, or what else messages of this kind are counted by.
    pub number: u64,
    /// The further numbers in it: of graphs, or of the edges whose values it brings.
    #[serde(deserialize_with = "items")]
    pub items: SmallVec<[u32; 2]>,
}

/// Reads a list by way of a `Vec`, since a `SmallVec` reserves as much as the bytes claim to have.
fn items<'de, D: Deserializer<'de>>(from: D) -> Result<SmallVec<[u32; 2]>, D::Error> {
    Ok(Vec::<u32>::deserialize(from)?.into())
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
        let (author, number, graph) = match message.about() {
            About::Step(step, graph) => (self.author(step.master), step.number, graph),
            About::Graph(graph) => (self.author(graph.master), graph.number, None),
            About::Number(number) => (Author::Own, number, None),
            About::Nothing => (Author::Own, 0, None),
        };
        let items = graph.iter().map(|graph| graph.number as u32).collect();
        let name = Name { kind: kind(message), author, number, items };
        let PeerMessage::Worker(message) = message else { return name };
        match message {
            WorkerMessage::RegisterGraph(_) if author == Author::Own => {
                Name { author: Author::Other(from, self.count(from)), ..name }
            }
            WorkerMessage::DeregisterGraphs { graphs, .. } => {
                let first = graphs.first().map(|graph| graph.master);
                let author = first.map_or(Author::Own, |master| self.author(master));
                let items = graphs.iter().map(|graph| graph.number as u32).collect();
                Name { author, items, ..name }
            }
            WorkerMessage::Tensors { arrivals, .. } => {
                let items = arrivals.iter().map(|(crossing, _)| crossing.0).collect();
                Name { items, ..name }
            }
            _ => name,
        }
    }

    /// Meets the master of the task `from`, if `message` is the first that tells its id.
    pub fn meet(&mut self, from: u32, message: &PeerMessage) {
        if let PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) = message
            && !self.met.contains_key(&order.graph.master)
        {
            self.met.insert(order.graph.master, (from, self.count(from)));
        }
    }

    fn count(&self, task: u32) -> u32 {
        self.met.values().filter(|(of, _)| *of == task).count() as u32
    }

    fn author(&self, master: u64) -> Author {
        self.met.get(&master).map_or(Author::Own, |(task, life)| Author::Other(*task, *life))
    }
}

fn kind(message: &PeerMessage) -> Kind {
    match message {
        PeerMessage::Master(message) => kind_for_master(message),
        PeerMessage::Worker(message) => kind_for_worker(message),
        PeerMessage::ParameterServer(message) => kind_for_parameter_server(message),
        PeerMessage::Client(_) => Kind::Answered,
        PeerMessage::Program(message) => kind_for_program(message),
    }
}

fn kind_for_master(message: &MasterMessage) -> Kind {
    use MasterMessage as Message;
    match message {
        Message::GraphRegistered { .. } => Kind::GraphRegistered,
        Message::GraphDone { .. } => Kind::GraphDone,
        Message::Traced { .. } => Kind::Traced,
        Message::ResetDone { .. } => Kind::ResetDone,
        Message::Called(_) => Kind::Called,
        Message::WayLost { .. } => Kind::WayLost,
        Message::Known { .. } => Kind::Known,
        Message::BlockedWays { .. } => Kind::BlockedWays,
    }
}

fn kind_for_worker(message: &WorkerMessage) -> Kind {
    use WorkerMessage as Message;
    match message {
        Message::RegisterGraph(_) => Kind::RegisterGraph,
        Message::DeregisterGraphs { .. } => Kind::DeregisterGraphs,
        Message::RunGraph(_) => Kind::RunGraph,
        Message::Tensors { .. } => Kind::Tensors,
        Message::AbortStep(_) => Kind::AbortStep,
        Message::AskForMaster { .. } => Kind::AskForMaster,
        Message::AskForWays { .. } => Kind::AskForWays,
    }
}

fn kind_for_parameter_server(message: &ParameterServerMessage) -> Kind {
    use ParameterServerMessage as Message;
    match message {
        Message::Reset { .. } => Kind::Reset,
        Message::Leave { .. } => Kind::Leave,
        Message::Lost { .. } => Kind::Lost,
        Message::Back { .. } => Kind::Back,
        Message::Flush { .. } => Kind::Flush,
        Message::Flushed { .. } => Kind::Flushed,
        Message::Install(_) => Kind::Install,
        Message::LetIn { .. } => Kind::LetIn,
        Message::TrainingOver { .. } => Kind::TrainingOver,
        Message::ChiefFailed { .. } => Kind::ChiefFailed,
        Message::Stopping => Kind::Stopping,
    }
}

fn kind_for_program(message: &ProgramMessage) -> Kind {
    use ProgramMessage as Message;
    match message {
        Message::AskForPlaces => Kind::AskForPlaces,
        Message::Places(_) => Kind::Places,
        Message::WatchCheckpoints => Kind::WatchCheckpoints,
        Message::CheckpointSaved => Kind::CheckpointSaved,
        Message::AskForOwnValues { .. } => Kind::AskForOwnValues,
        Message::AskForRestoredValues => Kind::AskForRestoredValues,
        Message::OwnValues(_) => Kind::OwnValues,
    }
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
