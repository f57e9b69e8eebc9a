//! What each message is about: the step, the graph or the number that it names.

use super::{
    ClientMessage, GraphHandle, MasterMessage, ParameterServerMessage, PeerMessage, ProgramMessage,
    StepId, WorkerMessage,
};

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A step, or the part of it that one partition is.
    Step(StepId, Option<GraphHandle>),
    /// A partition.
    Graph(GraphHandle),
    /// What else messages of its kind are counted by: a call, a reset, a worker, a view, a step.
    Number(u64),
    /// None of these, or several of them.
    Nothing,
}

impl PeerMessage {
    /// What the message is about.
    pub(crate) fn about(&self) -> About {
        match self {
            Self::Master(message) => message.about(),
            Self::Worker(message) => message.about(),
            Self::ParameterServer(message) => message.about(),
            Self::Client(ClientMessage { number, .. }) => About::Number(*number),
            Self::Program(message) => message.about(),
        }
    }
}

impl MasterMessage {
    fn about(&self) -> About {
        match self {
            Self::GraphRegistered { graph, .. } => About::Graph(*graph),
            Self::GraphDone { step, graph, .. }
            | Self::Traced { step, graph, .. }
            | Self::BlockedWays { step, graph, .. } => About::Step(*step, Some(*graph)),
            Self::ResetDone { number, .. } => About::Number(*number),
            Self::Called(call) => About::Number(call.number),
            Self::WayLost { .. } | Self::Known { .. } => About::Nothing,
        }
    }
}

impl WorkerMessage {
    /// What the message is about.
    pub(crate) fn about(&self) -> About {
        match self {
            Self::RegisterGraph(order) => About::Graph(order.graph),
            Self::RunGraph(order) => About::Step(order.step, Some(order.graph)),
            Self::AskForWays { step, graph } => About::Step(*step, Some(*graph)),
            Self::Tensors { step, .. } | Self::AbortStep(step) => About::Step(*step, None),
            Self::DeregisterGraphs { .. } | Self::AskForMaster { .. } => About::Nothing,
        }
    }
}

impl ParameterServerMessage {
    fn about(&self) -> About {
        match self {
            Self::Reset { number, .. } => About::Number(*number),
            Self::Leave { worker, .. }
            | Self::Lost { worker }
            | Self::Back { worker }
            | Self::Found { worker }
            | Self::LetIn { worker, .. } => About::Number(u64::from(*worker)),
            Self::Flush { number, .. } | Self::Flushed { number, .. } => {
                About::Number(u64::from(*number))
            }
            Self::Install(view) => About::Number(u64::from(view.number)),
            Self::TrainingOver { .. } | Self::ChiefFailed { .. } | Self::Stopping => About::Nothing,
        }
    }
}

impl ProgramMessage {
    fn about(&self) -> About {
        match self {
            Self::AskForOwnValues { count } => About::Number(*count),
            Self::AskForPlaces
            | Self::Places(_)
            | Self::WatchCheckpoints
            | Self::CheckpointSaved
            | Self::AskForRestoredValues
            | Self::OwnValues(_) => About::Nothing,
        }
    }
}
