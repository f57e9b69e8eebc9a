//! The steps that run here in pieces: what has come for each, and what has been told of it.

use crate::partition::Partition;
use crate::tensor::Tensor;
use crate::transport::PeerId;

use crate::runtime::error::{Code, Error};
use crate::runtime::messages::{GraphHandle, StepId, StepPart};

use super::Worker;
use super::steps::RunningPartition;

/// The feeds that have come, and the fetches whose values have been sent, by their positions.
pub(super) struct Pieces {
    fed: Vec<bool>,
    pub(super) told: Vec<bool>,
}

impl Pieces {
    pub(super) fn new(partition: &Partition) -> Self {
        let Partition { feeds, fetches, .. } = partition;
        Self { fed: vec![false; feeds.len()], told: vec![false; fetches.len()] }
    }
}

impl Worker {
    /// Takes values for a step in pieces, each with its position among the feeds.
    pub(super) fn feed(
        &mut self,
        from: PeerId,
        step: StepId,
        graph: GraphHandle,
        feeds: Vec<(u32, Tensor)>,
    ) {
        let Some(device) = self.graphs.get(&graph).map(|graph| graph.plan.partition.device) else {
            return tracing::debug!(step = step.number, "values for no graph; dropped");
        };
        let part = StepPart { step, device };
        let hollow = self.refuse_hollow(feeds.iter().map(|(_, value)| value)).err();
        let is_its =
            |running: &&mut RunningPartition| running.graph == graph && running.master == from;
        let Some(running) = self.steps.get_mut(&part).filter(is_its) else {
            return tracing::debug!(step = step.number, "values for no step; dropped");
        };
        let Some(pieces) = &mut running.pieces else { return };
        let mut refused = hollow;
        for (position, value) in feeds {
            let position = position as usize;
            match pieces.fed.get_mut(position) {
                Some(fed) if !*fed && refused.is_none() => {
                    *fed = true;
                    running.executor.feed_one(position, value);
                }
                _ => {
                    let message = format!("feed {position} comes twice, or is none");
                    refused.get_or_insert(Error::new(Code::InvalidArgument, message));
                }
            }
        }
        match refused {
            Some(error) => self.fail(part, error),
            None => self.run_ready(part),
        }
    }
}
