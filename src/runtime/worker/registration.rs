//! The registration of partitions: their variables are looked up, and their plans are made.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::cluster::DeviceName;
use crate::graph::Op;
use crate::partition::Partition;
use crate::transport::PeerId;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{Binding, ParameterServerMail};
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, GraphOrder, MasterMessage, Scope, StepId};
use crate::runtime::state::Bound;
use crate::runtime::worker::flows::FlowSessions;
use crate::runtime::worker::plan::Plan;
use crate::runtime::worker::receivers::Receivers;
use crate::runtime::worker::room::Room;

use super::steps::all_of;
use super::{RegisteredPartition, Worker};

/// A partition that is registered once the parameter server has looked its variables up.
pub(super) struct PendingPartition {
    /// The number of the registration: the lookup of an earlier one of the same name does not
    /// answer it.
    attempt: u64,
    pub(super) master: PeerId,
    partition: Arc<Partition>,
    scope: Option<Scope>,
    flow_sessions: FlowSessions,
    room: Room,
}

/// The handles of the partitions that `master` may have registered.
pub(super) fn graphs_of(master: u64) -> RangeInclusive<GraphHandle> {
    GraphHandle { master, number: 0 }..=GraphHandle { master, number: u64::MAX }
}

/// The entries of `Worker::ways` to `peer`.
pub(super) fn ways_to(peer: PeerId) -> RangeInclusive<(PeerId, GraphHandle)> {
    (peer, *graphs_of(0).start())..=(peer, *graphs_of(u64::MAX).end())
}

impl Worker {
    /// First half of a registration: the parameter server looks up the variables; [`Worker::bound`]
    /// is the second.
    pub(super) fn register(&mut self, from: PeerId, order: GraphOrder) {
        let GraphOrder { graph, partition, scope, is_again, functions, counted_by, training } =
            order;
        let room = self.room(graph, &partition);
        let taken = room.and_then(|room| Ok((room, FlowSessions::new(functions.as_deref())?)));
        let (room, flow_sessions) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let outcome = Err(error.on(&self.outbox.name(self.outbox.local())));
                return self.outbox.send(from, MasterMessage::GraphRegistered { graph, outcome });
            }
        };
        let variables = partition.variables.clone();
        let attempt = self.registrations;
        self.registrations += 1;
        self.rendezvous.regain(graph.master);
        let bind = ParameterServerMail::Bind(Box::new(Binding {
            from,
            graph,
            attempt,
            scope,
            variables,
            replicas: partition.replicas(),
            counts: partition.counts_steps(),
            counted_by,
            is_again,
            training,
        }));
        let pending =
            PendingPartition { attempt, master: from, partition, scope, flow_sessions, room };
        self.pending.insert(graph, pending);
        self.scopes.extend(scope.map(|scope| (scope, from)));
        tell(&self.outbox.actors.parameter_server, bind);
    }

    /// Takes room for `partition`, if there is no other under the same name.
    fn room(&mut self, graph: GraphHandle, partition: &Partition) -> Result<Room> {
        if self.registered.get(&graph).is_some() || self.pending.contains_key(&graph) {
            let message = format!("graph {} of the master is registered already", graph.number);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.rooms.take(graph.master, partition)
    }

    pub(super) fn bound(&mut self, graph: GraphHandle, attempt: u64, outcome: Result<Bound>) {
        let Entry::Occupied(pending) = self.pending.entry(graph) else { return };
        if pending.get().attempt != attempt {
            return;
        }
        let PendingPartition { master, partition, scope, flow_sessions, room, .. } =
            pending.remove();
        let outcome = outcome.and_then(|bound| {
            self.check_device(&partition)?;
            let receivers = Receivers::of(&partition, &self.outbox)?;
            self.refuse_hollow(partition.nodes.iter().filter_map(|node| match &node.op {
                Op::Const(value) => Some(value),
                _ => None,
            }))?;
            let memory = self.memories.get(&partition.device).cloned();
            if let Some(memory) = &memory {
                memory.hold(&partition, &bound.variables, scope)?;
            }
            let senders = partition.receives.iter().map(|one| self.outbox.resolve(&one.from));
            let new = RegisteredPartition {
                master,
                receivers,
                senders: senders.collect(),
                memory,
                plan: Arc::new(Plan::new(partition, bound, scope)),
                idle: Vec::new(),
                flow_sessions,
                _room: room,
                expected: None,
                ahead: None,
            };
            self.ways.extend(new.receivers.peers().into_iter().map(|peer| (peer, graph)));
            self.registered.insert(graph, new);
            Ok(())
        });
        self.outbox.send(master, MasterMessage::GraphRegistered { graph, outcome });
    }

    pub(super) fn deregister(&mut self, graphs: &[GraphHandle], scope: Option<Scope>) {
        // An order to abort a step can still be on its way.
        let masters: BTreeSet<u64> = graphs.iter().map(|graph| graph.master).collect();
        let steps = masters.into_iter().flat_map(|master| self.steps_within(all_of(master)));
        let orphans = steps.filter(|(_, step)| graphs.contains(&step.graph));
        let orphans: Vec<StepId> = orphans.map(|(part, _)| part.step).collect();
        orphans.into_iter().for_each(|step| self.abort(step));
        let mut given_up = Vec::new();
        for graph in graphs {
            given_up.extend(self.pending.remove(graph).map(|_| *graph));
            let expected = self.forget_graph(*graph).and_then(|registered| registered.expected);
            expected.into_iter().for_each(|step| self.rendezvous.abort(step));
        }
        if !given_up.is_empty() {
            tell(&self.outbox.actors.parameter_server, ParameterServerMail::GiveUp(given_up));
        }
        scope.into_iter().for_each(|scope| self.close_scope(scope));
    }

    /// Forgets a registered partition; returns it.
    pub(super) fn forget_graph(&mut self, graph: GraphHandle) -> Option<RegisteredPartition> {
        let forgotten = self.registered.remove(&graph)?;
        for peer in forgotten.receivers.peers() {
            self.ways.remove(&(peer, graph));
        }
        Some(forgotten)
    }

    /// A session has ended: its own variables go with it.
    pub(super) fn close_scope(&mut self, scope: Scope) {
        self.scopes.remove(&scope);
        self.memories.values().for_each(|memory| memory.close(scope));
        tell(&self.outbox.actors.parameter_server, ParameterServerMail::CloseScope(scope));
    }

    fn check_device(&self, partition: &Partition) -> Result<()> {
        if self.devices.has(partition.device) {
            return Ok(());
        }
        let name = |device| DeviceName::new(partition.task.clone(), device).to_string();
        let there = self.devices.own().map(name).collect::<Vec<_>>().join(", ");
        let missing = partition.device_name();
        let message = format!("there is no {missing}; the devices of the task are {there}");
        Err(Error::new(Code::InvalidArgument, message).on(&partition.task))
    }
}
