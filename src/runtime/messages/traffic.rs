//! Counts what a task sends to others.

use serde::{Deserialize, Serialize};

use super::{About, MasterMessage, PeerMessage, WorkerMessage};
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
        let looks_for_ways = matches!(
            self,
            Self::Master(MasterMessage::BlockedWays { .. })
                | Self::Worker(WorkerMessage::AskForWays { .. })
        );
        // To look for the ways of a step that does not end is no part of the step.
        matches!(self.about(), About::Step(step, _) if step.trains) && !looks_for_ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::messages::{GraphHandle, StepId, StepOrder, Values};

    #[test]
    fn an_order_of_a_training_step_is_of_the_step_and_a_search_for_its_blocked_ways_is_not() {
        let (step, graph) =
            (StepId { master: 1, number: 2, trains: true }, GraphHandle { master: 1, number: 3 });
        let of_steps = |message: PeerMessage| {
            let mut traffic = Traffic::default();
            traffic.count(&[message]);
            traffic.steps > 0
        };
        let order = |step| {
            let (feeds, origin, is_traced, next) = (Values::new(), None, false, None);
            WorkerMessage::RunGraph(StepOrder { step, graph, feeds, origin, is_traced, next })
        };
        assert!(of_steps(order(step).into()));
        let evaluates = StepId { trains: false, ..step };
        assert!(!of_steps(order(evaluates).into()));
        assert!(!of_steps(WorkerMessage::AskForWays { step, graph }.into()));
        let (to, absent) = (Vec::new(), Vec::new());
        let blocked = MasterMessage::BlockedWays { step, graph, to, absent };
        assert!(!of_steps(blocked.into()));
    }
}
