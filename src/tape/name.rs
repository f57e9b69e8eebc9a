//! Names of messages that are the same in both worlds.
//!
//! A master's id is another in each world and each life, so a name has the task of the master and
//! counts the masters that the receiver has met there. All other numbers of a message are counted
//! by its sender and the same wherever the same steps are taken.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::{SmallVec, smallvec};

use crate::runtime::{
    About, MasterMessage as Master, ParameterServerMessage as ParameterServer, PeerMessage,
    ProgramMessage as Program, WorkerMessage as Worker,
};

/// The kinds of messages. A row has the number of the kind in files, the receiver, and what the
/// number and the items in a name of this kind count; without the latter it is just a number.
macro_rules! kinds {
    ($($kind:ident = $number:literal $(to $receiver:ident)?
        $(by $counted:literal $($items:literal)?)?,)+) => {
        listed! {
            /// The kind of a message. The numbers are in files; each is the variant's place.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            #[repr(u8)]
            #[expect(missing_docs, reason = "they are the messages of the runtime, with its names")]
            pub enum Kind {
                $($kind = $number,)+
            }
            pub const ALL;
        }

        impl Kind {
            fn of(message: &PeerMessage) -> Self {
                match message {
                    $($(PeerMessage::$receiver($receiver::$kind { .. }) => Self::$kind,)?)+
                    PeerMessage::Client(_) => Self::Answered,
                }
            }

            /// What the number and the items of such a name count.
            pub(super) fn counts(self) -> (&'static str, &'static str) {
                match self {
                    $($(Self::$kind => ($counted, concat!($($items)?)),)?)+
                    _ => ("number", ""),
                }
            }
        }
    };
}

kinds! {
    GraphRegistered = 0 to Master by "graph",
    GraphDone = 1 to Master by "step" "graph",
    Traced = 2 to Master by "step" "graph",
    ResetDone = 3 to Master,
    Called = 4 to Master,
    WayLost = 5 to Master,
    RegisterGraph = 6 to Worker by "graph",
    DeregisterGraphs = 7 to Worker by "of" "graphs",
    RunGraph = 8 to Worker by "step" "graph",
    Tensors = 9 to Worker by "step" "edges",
    AbortStep = 10 to Worker by "step",
    Reset = 11 to ParameterServer,
    Leave = 12 to ParameterServer by "worker",
    Flush = 13 to ParameterServer by "view",
    Flushed = 14 to ParameterServer by "view",
    Install = 15 to ParameterServer by "view",
    TrainingOver = 16 to ParameterServer,
    AskForPlaces = 17 to Program,
    Places = 18 to Program,
    Stopping = 19 to ParameterServer,
    WatchCheckpoints = 20 to Program,
    CheckpointSaved = 21 to Program,
    AskForOwnValues = 22 to Program,
    AskForRestoredValues = 23 to Program,
    OwnValues = 24 to Program,
    Answered = 25,
    Known = 26 to Master,
    AskForMaster = 27 to Worker,
    Lost = 28 to ParameterServer by "worker",
    Back = 29 to ParameterServer by "worker",
    BlockedWays = 30 to Master by "step" "graph",
    AskForWays = 31 to Worker by "step" "graph",
    ChiefFailed = 32 to ParameterServer,
    LetIn = 33 to ParameterServer by "worker",
    Found = 34 to ParameterServer by "worker",
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
        let name = Name { kind: Kind::of(message), author, number, items };
        let PeerMessage::Worker(message) = message else { return name };
        match message {
            Worker::RegisterGraph(_) if author == Author::Own => {
                Name { author: Author::Other(from, self.count(from)), ..name }
            }
            Worker::DeregisterGraphs { graphs, .. } => {
                let first = graphs.first().map(|graph| graph.master);
                let author = first.map_or(Author::Own, |master| self.author(master));
                let items = graphs.iter().map(|graph| graph.number as u32).collect();
                Name { author, items, ..name }
            }
            Worker::Tensors { arrivals, .. } => {
                let items = arrivals.iter().map(|(crossing, _)| crossing.0).collect();
                Name { items, ..name }
            }
            _ => name,
        }
    }

    /// Meets the master of the task `from`, if `message` is the first that tells its id.
    pub fn meet(&mut self, from: u32, message: &PeerMessage) {
        if let PeerMessage::Worker(Worker::RegisterGraph(order)) = message
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

/// The parts of a message that may travel by themselves: each value of a step. How many travel
/// together depends on how long kernels take.
pub(crate) fn parts(message: PeerMessage) -> SmallVec<[PeerMessage; 1]> {
    use Worker::Tensors;
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
                PeerMessage::Worker(Worker::Tensors { arrivals, .. }),
                PeerMessage::Worker(Worker::Tensors { arrivals: more, .. }),
            ) => arrivals.extend(more),
            (whole, part) => unreachable!("{part:?} is no part of {whole:?}"),
        }
    }
    Some(whole)
}
