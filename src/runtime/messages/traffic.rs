//! Counts what a task sends to others.

use serde::{Deserialize, Serialize};

use super::{MasterMessage, PeerMessage, StepId, WorkerMessage};
use crate::transport::{ENVELOPE_HEADER, Payload};
use crate::units::Bytes;

/// What a task has sent to others \[bytes\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// All of it.
    pub total: u64,
    /// The part of trainings' steps: without evaluations, checkpoints and the setting up of
    /// sessions.
    pub steps: u64,
}

impl Traffic {
    /// Counts `messages`, which are sent together. Returns the length of their envelope.
    pub(crate) fn count(&mut self, messages: &[PeerMessage]) -> Bytes {
        let (mut all, mut of_steps) = (0, 0);
        for message in messages {
            let Bytes(size) = message.wire_size();
            all += size;
            if message.is_of_training() {
                of_steps += size;
            }
        }
        let envelope = ENVELOPE_HEADER.0 + all;
        self.total += envelope;
        if of_steps > 0 {
            self.steps += ENVELOPE_HEADER.0 + of_steps;
        }
        Bytes(envelope)
    }
}

impl PeerMessage {
    fn is_of_training(&self) -> bool {
        self.step().is_some_and(|step| step.trains)
    }

    /// The step that it is a part of, if it is of one.
    fn step(&self) -> Option<StepId> {
        match self {
            Self::Master(
                MasterMessage::GraphDone { step, .. }
                | MasterMessage::Traced { step, .. }
                | MasterMessage::Fetched { step, .. },
            )
            | Self::Worker(
                WorkerMessage::RunInPieces { step, .. }
                | WorkerMessage::Feed { step, .. }
                | WorkerMessage::Tensors { step, .. }
                | WorkerMessage::AbortStep(step),
            ) => Some(*step),
            Self::Worker(WorkerMessage::RunGraph(order)) => Some(order.step),
            Self::Master(
                MasterMessage::GraphRegistered { .. }
                | MasterMessage::ResetDone { .. }
                | MasterMessage::WayLost { .. }
                | MasterMessage::Known { .. }
                | MasterMessage::BlockedWays { .. }
                | MasterMessage::Called(_),
            )
            | Self::Worker(
                WorkerMessage::RegisterGraph { .. }
                | WorkerMessage::DeregisterGraphs { .. }
                | WorkerMessage::AskForMaster { .. }
                | WorkerMessage::AskForWays { .. },
            )
            | Self::ParameterServer(_)
            | Self::Client(_)
            | Self::Program(_) => None,
        }
    }
}
