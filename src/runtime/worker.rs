//! The worker service of a task: keeps registered partitions, runs them, exchanges values.

mod arrivals;
pub(super) mod copied;
mod copies;
pub(super) mod executor;
mod flows;
mod kernels;
mod losses;
pub(super) mod memory;
pub(super) mod plan;
mod read_ahead;
mod receivers;
mod registration;
mod rendezvous;
mod room;
mod state_request;
mod steps;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Context};

use crate::clock::Clock;
use crate::cluster::{DeviceName, LocalDevice};
use crate::partition::CrossingId;
use crate::transport::PeerId;

use crate::runtime::devices::Devices;
use crate::runtime::inquiry::Asked;
use crate::runtime::log_limit::LogLimit;
use crate::runtime::mail::{ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::{Receive, tell};
use crate::runtime::messages::{
    GraphHandle, MasterMessage, Scope, StepId, StepPart, WorkerMessage,
};
use crate::runtime::ordered::Ordered;
use crate::runtime::outbox::Outbox;
use crate::runtime::waiting::Waiting;
use crate::runtime::worker::executor::{Executor, Ready};
use crate::runtime::worker::flows::FlowSessions;
use crate::runtime::worker::memory::DeviceMemory;
use crate::runtime::worker::plan::Plan;
use crate::runtime::worker::read_ahead::Ahead;
use crate::runtime::worker::receivers::{Outgoing, Receivers};
use crate::runtime::worker::registration::PendingPartition;
use crate::runtime::worker::rendezvous::Rendezvous;
use crate::runtime::worker::room::{Room, Rooms};
use crate::runtime::worker::steps::RunningPartition;

/// Runs the partitions that masters give to its task.
pub(crate) struct Worker {
    outbox: Outbox,
    clock: Rc<dyn Clock>,
    devices: Devices,
    /// The memories of the devices that have a limit.
    memories: BTreeMap<LocalDevice, Rc<DeviceMemory>>,
    pending: BTreeMap<GraphHandle, PendingPartition>,
    registered: Ordered<GraphHandle, RegisteredPartition>,
    /// By peer: the registered partitions that send values to it.
    ways: BTreeSet<(PeerId, GraphHandle)>,
    /// What masters have registered.
    rooms: Rooms,
    steps: Ordered<StepPart, RunningPartition>,
    /// The work to carry out for a step; empty between uses.
    ready: Ready,
    outgoing: Outgoing,
    rendezvous: Rendezvous,
    /// Values that nobody waits for.
    dropped: LogLimit,
    /// The sessions that may have variables of their own here, each with its master.
    scopes: BTreeMap<Scope, PeerId>,
    /// Counts the registrations.
    registrations: u64,
}

/// A partition that is ready to run.
struct RegisteredPartition {
    master: PeerId,
    plan: Arc<Plan>,
    receivers: Receivers,
    /// By position of the receive: the sending peer, if it was known.
    senders: Vec<Option<PeerId>>,
    /// The sessions for its conditions and loops that run as steps.
    flow_sessions: FlowSessions,
    /// What it takes of its master's room.
    _room: Room,
    /// The memory of its device, if that is limited.
    memory: Option<Rc<DeviceMemory>>,
    /// Executors whose steps have finished, to be used again.
    idle: Vec<Executor>,
    /// The step for which variables have been read here and elsewhere, unless another is ordered.
    expected: Option<StepId>,
    /// What has been read here for it.
    ahead: Option<Ahead>,
}

impl RegisteredPartition {
    /// Whether the value of `crossing` comes from `peer`.
    fn receives(&self, crossing: CrossingId, peer: PeerId, outbox: &Outbox) -> bool {
        let Some(receive) = self.plan.tables.receive_of(crossing) else { return false };
        match self.senders[receive as usize] {
            Some(sender) => sender == peer,
            // It had no address when the partition was registered, and has connected since.
            None => self.plan.partition.receives[receive as usize].from == outbox.name(peer),
        }
    }
}

impl Worker {
    pub(crate) fn new(outbox: Outbox, clock: Rc<dyn Clock>, devices: Devices) -> Self {
        let task = outbox.name(outbox.local());
        let memory = |device: LocalDevice| {
            let capacity = devices.get(device).memory()?;
            let name = DeviceName::new(task.clone(), device);
            Some((device, Rc::new(DeviceMemory::new(name, capacity))))
        };
        Self {
            memories: devices.own().filter_map(memory).collect(),
            outbox,
            clock,
            devices,
            pending: BTreeMap::new(),
            registered: Ordered::default(),
            ways: BTreeSet::new(),
            rooms: Rooms::default(),
            steps: Ordered::default(),
            ready: Ready::default(),
            outgoing: Outgoing::default(),
            rendezvous: Rendezvous::default(),
            dropped: LogLimit::default(),
            scopes: BTreeMap::new(),
            registrations: 0,
        }
    }

    /// Takes a message whose values are in the memory of the device that they are for.
    fn take(&mut self, from: PeerId, message: WorkerMessage) {
        match message {
            WorkerMessage::RegisterGraph(order) => self.register(from, order),
            WorkerMessage::DeregisterGraphs { graphs, scope } => self.deregister(&graphs, scope),
            WorkerMessage::RunGraph(order) => self.run_graph(from, order),
            WorkerMessage::Tensors { step, devices, arrivals } => {
                if let Some(arrivals) = self.unpack(from, (step, &devices), arrivals) {
                    self.receive(from, step, &devices, &arrivals);
                }
            }
            WorkerMessage::AbortStep(step) => self.abort(step),
            WorkerMessage::AskForMaster { master } => {
                let is_known = self.outbox.actors.access.knows(master, from);
                self.outbox.send(from, MasterMessage::Known { is_known });
            }
            WorkerMessage::AskForWays { step, graph } => self.tell_ways(from, step, graph),
        }
    }

    fn inquire(&self, asked: &Asked<Waiting>) {
        let who = self.outbox.name(self.outbox.local());
        for (StepPart { step, .. }, running) in self.steps.iter() {
            let missing: Vec<String> = running.executor.missing().collect();
            if !missing.is_empty() {
                let what = missing.join(", ");
                asked.answer([Waiting {
                    who: format!("worker of {who}, step {}", step.number),
                    what,
                }]);
            }
        }
        for (step, values) in self.rendezvous.waiting().filter(|(step, _)| !self.is_expected(step))
        {
            let what = format!("its order to run: {values} values are here");
            asked.answer([Waiting { who: format!("worker of {who}, step {}", step.number), what }]);
        }
    }
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Receive for Worker {
    type Message = WorkerMail;
    const ROLE: &'static str = "the worker";

    fn receive(&mut self, message: WorkerMail, context: &mut Context<Self>) {
        match message {
            WorkerMail::FromPeer { from, message } => self.arrived(from, message),
            WorkerMail::Lost { peer, masters, loss } => self.lost(peer, masters, loss),
            WorkerMail::Bound { graph, attempt, outcome, replaced } => {
                self.memories.values().for_each(|memory| memory.drop_shared(&replaced));
                self.bound(graph, attempt, outcome.map_err(|error| *error));
            }
            WorkerMail::Served(served) => self.served(served),
            WorkerMail::ReadAhead { graph, step, served } => self.read_ahead(graph, step, served),
            WorkerMail::Cleared(containers) => self.cleared(&containers),
            WorkerMail::ClientHasCome { client, master } => {
                let come = ParameterServerMail::ClientHasCome { client, master };
                tell(&self.outbox.actors.parameter_server, come);
            }
            WorkerMail::Computed(batch) => self.computed(batch),
            WorkerMail::Copied(copied) => self.copied(*copied),
            WorkerMail::Inquire(asked) => self.inquire(&asked),
            WorkerMail::Stop => self.stop(context),
        }
        self.outbox.flush();
    }
}
