//! The times of a step's operations on one device, for a step whose client asks for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::partition::Partition;
use crate::units::Time;

use crate::runtime::messages::OperationTime;
use crate::runtime::worker::executor::Ready;

/// When the nodes of a partition ran.
#[derive(Default)]
pub(super) struct Trace {
    /// Those that run.
    begun: BTreeMap<u32, Time>,
    /// Those that have run: node, begin and end.
    ended: Vec<(u32, Time, Time)>,
}

impl Trace {
    /// All of `ready` begins.
    pub(super) fn begin(&mut self, ready: &Ready, now: Time) {
        let kernels = ready.kernels.iter().flat_map(|batch| batch.nodes.iter().copied());
        let requests = ready.state_requests.iter().map(|request| request.ticket.node);
        let flows = ready.flows.iter().map(|(node, _)| *node);
        for node in kernels.chain(requests).chain(flows) {
            self.begun.insert(node, now);
        }
    }

    /// `nodes` have run.
    pub(super) fn end(&mut self, nodes: &[u32], now: Time) {
        for node in nodes {
            if let Some(began) = self.begun.remove(node) {
                self.ended.push((*node, began, now));
            }
        }
    }

    /// The times of all, which are nodes of `partition`.
    pub(super) fn times(&self, partition: &Partition) -> Vec<OperationTime> {
        let device: Arc<str> = partition.device_name().to_string().into();
        let time = |(node, began, ended): &(u32, Time, Time)| OperationTime {
            operation: Arc::clone(&partition.nodes[*node as usize].name),
            device: Arc::clone(&device),
            began: *began,
            ended: *ended,
        };
        self.ended.iter().map(time).collect()
    }
}
