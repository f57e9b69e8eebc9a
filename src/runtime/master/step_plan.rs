//! A master's plan for each set of feeds, fetches and targets: the partitions, and their places.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::{DeviceName, TaskName};
use crate::graph::{Edge, GraphDef, Op, prune};
use crate::partition::{Partition, Request, split};
use crate::placement::place;
use crate::tensor::Tensor;
use crate::transport::PeerId;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::RunStep;
use crate::runtime::messages::{GraphHandle, StepId};

/// A step that a session has asked for and that has not begun.
pub(super) struct Accepted {
    pub(super) step: StepId,
    pub(super) run: RunStep,
}

/// The plan for a request.
pub(super) enum StepPlan {
    /// Workers are making the partitions ready.
    Registering {
        ready: Ready,
        /// The partitions whose workers have not answered.
        outstanding: Vec<GraphHandle>,
        /// The steps that wait for the plan.
        waiting: Vec<Accepted>,
    },
    /// Steps can run.
    Ready(Arc<Ready>),
}

/// What the parts of a plan are: where each runs, and what it is fed and gives.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) parts: Vec<Part>,
    /// Fetches of fed edges: the position of the fetch, then that of the feed.
    pub(super) fed_fetches: Vec<(u32, u32)>,
}

/// One device's part of a step.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) peer: PeerId,
    pub(super) graph: GraphHandle,
    /// The tasks that send it values or signals.
    pub(super) senders: Vec<PeerId>,
    /// The positions of the feeds that it takes, among the step's feeds, in its order.
    pub(super) feeds: Vec<u32>,
    /// The positions of the fetches that it gives, among the step's fetches, in its order.
    pub(super) fetches: Vec<u32>,
}

/// The partitions of a request, and its fetches that are feeds: positions of fetch and feed.
pub(super) type Planned = (Vec<Partition>, Vec<(u32, u32)>);

/// The state of a registration after an answer.
pub(super) enum Registered {
    Waiting,
    Ready(Arc<Ready>, Vec<Accepted>),
    Failed(Error, Vec<Accepted>),
}

impl StepPlan {
    /// Notes that one more partition is registered, or could not be.
    pub(super) fn registered(&mut self, graph: GraphHandle, outcome: Result<()>) -> Registered {
        let Self::Registering { ready, outstanding, waiting } = self else {
            return Registered::Waiting;
        };
        if let Err(error) = outcome {
            return Registered::Failed(error, std::mem::take(waiting));
        }
        outstanding.retain(|awaited| *awaited != graph);
        if !outstanding.is_empty() {
            return Registered::Waiting;
        }
        let ready = Ready {
            parts: std::mem::take(&mut ready.parts),
            fed_fetches: std::mem::take(&mut ready.fed_fetches),
        };
        let (ready, waiting) = (Arc::new(ready), std::mem::take(waiting));
        *self = Self::Ready(Arc::clone(&ready));
        Registered::Ready(ready, waiting)
    }

    /// Whether `step` waits for the registration.
    pub(super) fn is_awaited_by(&self, step: StepId) -> bool {
        match self {
            Self::Registering { waiting, .. } => {
                waiting.iter().any(|accepted| accepted.step == step)
            }
            _ => false,
        }
    }

    /// Whether `peer` has, or is to have, a part of the plan.
    pub(super) fn has_part_at(&self, peer: PeerId) -> bool {
        let parts = match self {
            Self::Registering { ready, .. } => &ready.parts,
            Self::Ready(ready) => &ready.parts,
        };
        parts.iter().any(|part| part.peer == peer)
    }

    /// The steps that wait for the registration, and the peers that have not answered.
    pub(super) fn awaiting(&self) -> Option<(&[Accepted], Vec<PeerId>)> {
        let Self::Registering { ready, outstanding, waiting } = self else { return None };
        Some((waiting, ready.peers(outstanding)))
    }

    /// Whether nobody waits any more for a registration that is under way.
    pub(super) fn is_awaited_by_none(&self) -> bool {
        matches!(self, Self::Registering { waiting, .. } if waiting.is_empty())
    }

    /// Takes out all steps that wait for the registration.
    pub(super) fn withdraw_all(&mut self) -> Vec<Accepted> {
        let Self::Registering { waiting, .. } = self else { return Vec::new() };
        std::mem::take(waiting)
    }

    /// Takes out `step`, which waits no longer; also returns the peers that had not answered.
    pub(super) fn withdraw(&mut self, step: StepId) -> Option<(Accepted, Vec<PeerId>)> {
        let Self::Registering { ready, outstanding, waiting } = self else { return None };
        let position = waiting.iter().position(|accepted| accepted.step == step)?;
        Some((waiting.remove(position), ready.peers(outstanding)))
    }

    /// The parts that workers may hold, and the steps that wait for the plan.
    pub(super) fn into_parts(self) -> (Vec<Part>, Vec<Accepted>) {
        match self {
            Self::Registering { ready, waiting, .. } => (ready.parts, waiting),
            Self::Ready(ready) => match Arc::try_unwrap(ready) {
                Ok(ready) => (ready.parts, Vec::new()),
                Err(shared) => panic!("steps still run on a closed session's plan: {shared:?}"),
            },
        }
    }
}

impl Ready {
    /// The tasks of the parts named by `graphs`, each task once.
    pub(super) fn peers(&self, graphs: &[GraphHandle]) -> Vec<PeerId> {
        let parts = self.parts.iter().filter(|part| graphs.contains(&part.graph));
        let mut peers: Vec<PeerId> = parts.map(|part| part.peer).collect();
        peers.dedup();
        peers
    }
}

impl Part {
    /// The part at `peer` of a step, with a partition that gets values of `senders`.
    pub(super) fn new(
        peer: PeerId,
        graph: GraphHandle,
        partition: &Partition,
        senders: BTreeSet<PeerId>,
    ) -> Self {
        let senders = senders.into_iter().collect();
        let feeds = partition.feeds.iter().map(|(feed, _)| *feed).collect();
        let fetches = partition.fetches.iter().map(|(fetch, _)| *fetch).collect();
        Self { peer, graph, senders, feeds, fetches }
    }
}

/// Prunes, places and cuts `graph` for `request`; also returns the fetches that are fed.
///
/// # Errors
/// If a value is fed twice, an operation can't be placed, or a placeholder that is needed is not
/// fed.
pub(super) fn plan(
    graph: &GraphDef,
    request: &Request,
    devices: &[DeviceName],
    home: &TaskName,
    is_soft: bool,
) -> Result<Planned> {
    let mut fed = BTreeSet::new();
    if let Some(twice) = request.feeds.iter().find(|edge| !fed.insert(**edge)) {
        let name = graph.operation(twice.op).name.to_string();
        return Err(
            Error::new(Code::InvalidArgument, "it is fed twice in one step").in_operation(name)
        );
    }
    let pruned = prune(graph, &fed, &request.fetches, &request.targets);
    for id in &pruned {
        let operation = graph.operation(*id);
        if matches!(operation.op, Op::Placeholder { .. }) {
            let message =
                format!("you must feed a value for the placeholder, {}", operation.outputs[0]);
            return Err(
                Error::new(Code::InvalidArgument, message).in_operation(operation.name.to_string())
            );
        }
    }
    let placement = place(graph, &pruned, devices, home, is_soft)?;
    let partitions = split(graph, &pruned, |id| placement.device(id), request);
    let feed_of = |edge: &Edge| request.feeds.iter().position(|feed| feed == edge);
    let fed_fetches =
        request.fetches.iter().zip(0..).filter_map(|(edge, i)| Some((i, feed_of(edge)? as u32)));
    Ok((partitions, fed_fetches.collect()))
}

/// Writes the device of each operation to the log, as TensorFlow does.
pub(super) fn log_placement(partitions: &[Partition]) {
    for partition in partitions {
        let device = partition.device_name();
        for node in partition.nodes.iter() {
            let (name, kind) = (&node.name, node.op.kind());
            tracing::info!(target: "trainyard::placement", "{name}: ({kind}): {device}");
        }
    }
}

/// The partitions that the master of `master` would make for a step, were `tasks` the cluster, each
/// with one device.
///
/// # Errors
/// If the master would refuse the step.
pub(crate) fn partitions(
    graph: &GraphDef,
    request: &Request,
    tasks: &[TaskName],
    master: &TaskName,
) -> Result<Vec<Partition>> {
    let device = |task: &TaskName| DeviceName::cpu(task.clone(), 0);
    let mut devices: Vec<DeviceName> = tasks.iter().map(device).collect();
    devices.sort();
    Ok(plan(graph, request, &devices, master, true)?.0)
}

/// Checks that `values` fit the feeds of `request`.
///
/// # Errors
/// The first value that does not fit, with both types.
pub(super) fn check_feeds(graph: &GraphDef, request: &Request, values: &[Tensor]) -> Result<()> {
    for (edge, value) in request.feeds.iter().zip(values) {
        let wanted = graph.edge_type(*edge);
        if value.dtype() != wanted.dtype || !wanted.shape.admits(value.shape()) {
            let message =
                format!("cannot feed {}{} where {wanted} is needed", value.dtype(), value.shape());
            let name = graph.operation(edge.op).name.to_string();
            return Err(Error::new(Code::InvalidArgument, message).in_operation(name));
        }
    }
    Ok(())
}
