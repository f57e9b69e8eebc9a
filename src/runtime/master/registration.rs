//! The registration of a plan: a request's partitions, made ready by their workers, and forgotten
//! again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::{DeviceName, DeviceSpec, TaskName};
use crate::operations::Flow;
use crate::partition::{Partition, Request};
use crate::transport::PeerId;

use super::{Master, refuse};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::master::step_plan::{
    Accepted, Part, Ready, Registered, StepPlan, log_placement, plan,
};
use crate::runtime::messages::{
    GraphHandle, GraphOrder, Life, Placing, Scope, SessionId, WorkerMessage,
};

/// A partition that a task is making ready, by the session and request that it is for.
pub(super) struct Registration {
    at: PeerId,
    session: SessionId,
    request: Arc<Request>,
}

/// The partitions of a request, each with the task that runs it, and the fetches that are feeds:
/// positions of fetch and feed.
type PlacedPlan = (Vec<(Partition, PeerId)>, Vec<(u32, u32)>);

impl Master {
    /// Plans a request, and has its partitions registered.
    pub(super) fn register(&mut self, accepted: Accepted) {
        let id = accepted.run.session;
        let request = Arc::clone(&accepted.run.request);
        let (partitions, fed_fetches) = match self.plan(id, &request) {
            Ok(planned) => planned,
            Err(error) => return refuse(accepted, error),
        };
        let (scope, placing) = (self.scope_of(id), self.placing_of(id));
        let is_again = accepted.run.origin.is_some_and(|origin| origin.is_again);
        let counted_by = self.counted_by(&partitions);
        let is_own = self.sessions[&id].client.is_none();
        let training = if is_own { self.outbox.actors.training.number() } else { 0 };
        let mut ready = Ready { parts: Vec::new(), fed_fetches };
        for (partition, peer) in partitions {
            let graph = GraphHandle { master: self.id, number: self.next_graph };
            self.next_graph += 1;
            let registration =
                Registration { at: peer, session: id, request: Arc::clone(&request) };
            self.registering.insert(graph, registration);
            let senders = partition.receives.iter().map(|receive| &receive.from);
            let senders = senders.filter_map(|task| self.outbox.resolve(task)).collect();
            ready.parts.push(Part::new(peer, graph, &partition, senders));
            let has_functions = partition.nodes.iter().any(|node| Flow::of(&node.op).is_some());
            let functions = has_functions.then(|| Box::new(placing.clone()));
            let (partition, counted_by) = (Arc::new(partition), counted_by.clone());
            self.outbox.send(
                peer,
                WorkerMessage::RegisterGraph(GraphOrder {
                    graph,
                    partition,
                    scope,
                    is_again,
                    functions,
                    counted_by,
                    training,
                }),
            );
        }
        let session = self.sessions.get_mut(&id).expect("it was just there");
        if scope.is_some() {
            session.holders.extend(ready.parts.iter().map(|part| part.peer));
        }
        let plans = &mut session.plans;
        if ready.parts.is_empty() {
            // Nothing is to be run: every fetch is also fed.
            let ready = Arc::new(ready);
            plans.insert(request, StepPlan::Ready(Arc::clone(&ready)));
            return self.start(accepted, ready);
        }
        let outstanding = ready.parts.iter().map(|part| part.graph).collect();
        plans
            .insert(request, StepPlan::Registering { ready, outstanding, waiting: vec![accepted] });
    }

    /// The task that counts the steps of `partitions`, if they train, and its incarnation.
    fn counted_by(&self, partitions: &[(Partition, PeerId)]) -> Option<Box<Life>> {
        let (counts, peer) = partitions.iter().find(|(partition, _)| partition.counts_steps())?;
        Some(Box::new((counts.task.clone(), self.outbox.incarnation(*peer)?)))
    }

    /// Prunes, places and partitions a session's graph for `request`.
    ///
    /// # Errors
    /// If the request can't be planned, or a task of the plan can't be reached.
    fn plan(&self, id: SessionId, request: &Request) -> Result<PlacedPlan> {
        let session = &self.sessions[&id];
        let options = &session.options;
        let devices = self.visible_devices(&options.device_filters);
        let is_soft = options.allow_soft_placement;
        let (partitions, fed_fetches) =
            plan(&session.graph, request, &devices, &self.home, is_soft)?;
        let peers = partitions.iter().map(|partition| self.peer_of(&partition.task));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        self.check_reachable(id, peers.iter().copied())?;
        let checked = partitions.iter().try_for_each(|partition| match session.client {
            // What goes to another task is checked there, too; what stays here is not.
            Some(_) => partition.check(),
            None => partition.check_counts(),
        });
        checked.map_err(|why| Error::new(Code::InvalidArgument, why))?;
        if options.log_device_placement {
            log_placement(&partitions);
        }
        Ok((partitions.into_iter().zip(peers).collect(), fed_fetches))
    }

    fn peer_of(&self, task: &TaskName) -> Result<PeerId> {
        let unknown =
            || Error::new(Code::Unavailable, format!("the task {task} can't be reached from here"));
        self.outbox.resolve(task).ok_or_else(unknown)
    }

    /// The devices of the cluster that `filters` admit, and this task's own.
    pub(super) fn visible_devices(&self, filters: &[DeviceSpec]) -> Cow<'_, [DeviceName]> {
        if filters.is_empty() {
            return Cow::Borrowed(&self.devices);
        }
        let is_visible = |device: &&DeviceName| {
            *device.task() == self.home || filters.iter().any(|filter| filter.matches(device))
        };
        self.devices.iter().filter(is_visible).cloned().collect()
    }

    /// The placing of the functions of a session's conditions and loops. Their steps are those of
    /// other masters, on the devices that the session sees, this task's among them.
    fn placing_of(&self, session: SessionId) -> Placing {
        let mut placing = self.sessions[&session].options.placing();
        if !placing.device_filters.is_empty() {
            placing.device_filters.push(DeviceSpec::of_task(&self.home).to_string());
        }
        placing
    }

    pub(super) fn scope_of(&self, session: SessionId) -> Option<Scope> {
        self.sessions[&session].options.isolate_session_state.then_some((self.id, session))
    }

    /// A worker has made a partition ready, or has failed to; the last one starts the waiting
    /// steps.
    pub(super) fn registered(&mut self, from: PeerId, graph: GraphHandle, outcome: Result<()>) {
        let is_asked = |registration: &mut Registration| registration.at == from;
        let asked = self.registering.get_mut(&graph).is_some_and(is_asked);
        let Some(Registration { session: session_id, request, .. }) =
            asked.then(|| self.registering.remove(&graph)).flatten()
        else {
            let from = self.outbox.name(from);
            return tracing::debug!(?graph, %from, "an answer that nobody waits for; dropped");
        };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(plan) = session.plans.get_mut(&request) else { return };
        match plan.registered(graph, outcome) {
            Registered::Waiting => {}
            Registered::Ready(ready, waiting) => {
                for accepted in waiting {
                    self.start(accepted, Arc::clone(&ready));
                }
            }
            Registered::Failed(error, waiting) => {
                self.forget_plan(session_id, &request);
                waiting.into_iter().for_each(|accepted| refuse(accepted, error.clone()));
            }
        }
    }

    /// Drops a plan that could not be registered, with the partitions that workers may hold of it.
    pub(super) fn forget_plan(&mut self, session: SessionId, request: &Arc<Request>) {
        let plans = &mut self.sessions.get_mut(&session).expect("a plan is of a session").plans;
        let (parts, waiting) =
            plans.remove(request).expect("a plan is forgotten once").into_parts();
        assert!(waiting.is_empty(), "no step waits for a plan that is given up");
        self.deregister(parts, None);
    }

    /// Makes workers forget partitions and, if a session ends that has variables of its own, those
    /// at their holders. These include tasks that have no partition any more: a plan that was never
    /// ready can have left variables there.
    pub(super) fn deregister(&mut self, parts: Vec<Part>, held: Option<(Scope, BTreeSet<PeerId>)>) {
        let (scope, holders) = held.unzip();
        let new = |holder| (holder, Vec::new());
        let mut graphs: BTreeMap<PeerId, Vec<GraphHandle>> =
            holders.unwrap_or_default().into_iter().map(new).collect();
        for part in parts {
            self.registering.remove(&part.graph);
            graphs.entry(part.peer).or_default().push(part.graph);
        }
        for (peer, graphs) in graphs {
            self.outbox.send(peer, WorkerMessage::DeregisterGraphs { graphs, scope });
        }
    }
}
