//! Counts what a task sends to others.

use serde::{Deserialize, Serialize};

use super::{MasterMessage, PeerMessage, StepId, WorkerMessage};
use crate::transport::{ENVELOPE_HEADER, Payload, envelope_size};

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
    /// Counts `messages`, which are sent together.
    pub(crate) fn count(&mut self, messages: &[PeerMessage]) {
        self.total += envelope_size(messages).0;
        let of_steps = messages.iter().filter(|message| message.is_of_training());
        let sizes: u64 = of_steps.map(|message| message.wire_size().0).sum();
        if sizes > 0 {
            self.steps += sizes + ENVELOPE_HEADER.0;
        }
    }
}

impl PeerMessage {
    fn is_of_training(&self) -> bool {
        self.step().is_some_and(|step| step.trains)
    }

    /// The step that it is a part of, if it is of one.
    fn step(&self) -> Option<StepId> {
        match self {
            Self::Master(MasterMessage::GraphDone { step, .. })
            | Self::Worker(
                WorkerMessage::RunGraph { step, .. }
                | WorkerMessage::Tensors { step, .. }
                | WorkerMessage::PackedTensors { step, .. }
                | WorkerMessage::AbortStep(step),
            ) => Some(*step),
            Self::Master(
                MasterMessage::GraphRegistered { .. } | MasterMessage::ResetDone { .. },
            )
            | Self::Worker(
                WorkerMessage::RegisterGraph { .. } | WorkerMessage::DeregisterGraphs { .. },
            )
            | Self::ParameterServer(_) => None,
        }
    }
}
