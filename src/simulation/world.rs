//! The simulated world: virtual time, and everything in a cluster except its actors.
//!
//! Plain data with one owner (`driver`), who ticks it. A tick moves the clock to the next event and
//! appends the [`Action`]s that follow from it; the owner carries them out.

mod action;
mod books;
mod delivery;
mod envelopes;
mod faulting;
mod freezes;
mod gauging;
mod processing;
mod replaying;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::cluster::{DeviceName, LocalDevice, Role, TaskName};
use crate::runtime::{Error, PeerMessage, Traffic};
use crate::transport::Messages;
use crate::units::{Bytes, Time};

use super::audit::{Audit, EventKind};
use super::chore::{Errand, Kernels};
use super::cluster::{Cluster, Outcome};
use super::connections::Connections;
use super::critical_path::{History, SpanKind, StepEnd};
use super::device::{ComputeSpec, Device, DeviceOf};
use super::events::{Alarm, Envelope, Event, EventQueue, Missed};
use super::fault_injector::FaultInjector;
use super::hosts::{Lanes, MessageThread};
use super::network::{Delivery, Network};
use super::processor::Processors;
use super::replay::Replay;
use super::timeline::Timeline;

pub(super) use action::{Action, RunCommand};
use books::Books;
use freezes::Freezes;

/// A simulated cluster without its actors. Tasks are numbered in the order of the cluster.
pub(super) struct World {
    now: Time,
    tasks: Vec<TaskName>,
    /// The number of the first task of each job.
    first_of_job: Vec<usize>,
    cluster: Cluster,
    events: EventQueue,
    network: Network<Envelope>,
    /// The devices, by task and then by device.
    devices: Vec<Vec<Device>>,
    processors: Processors<Errand>,
    /// What message threads cost, if they are modelled.
    message_thread: Option<MessageThread>,
    /// By task.
    lanes: Vec<Option<Lanes>>,
    /// By task: the number of cores that its kernels spread over, if it is told one.
    num_cores: Vec<Option<NonZeroU32>>,
    /// By task: the number of operations that its message thread has carried out and not paid for.
    unpaid: Vec<u32>,
    connections: Connections,
    /// The driver and the endpoints ask it, too.
    pub(super) faults: FaultInjector,
    /// Envelopes that have arrived and can't be delivered yet.
    held: Vec<Delivery<Envelope>>,
    /// By sender and receiver: when the last of the late small envelopes arrives. Those after it
    /// come no earlier.
    late: BTreeMap<(usize, usize), Time>,
    /// By task: the events that it has missed while it was frozen.
    missed: Vec<Vec<Missed>>,
    freezes: Vec<Freezes>,
    /// What each task has sent to others.
    traffic: Vec<Traffic>,
    /// By sender and receiver: what was sent \[bytes\], if an observer may look.
    sent: BTreeMap<(usize, usize), u64>,
    books: Books,
    /// The number of envelopes that have arrived.
    deliveries: u64,
    audit: Audit,
    history: History,
    /// Is written as time goes on, if it is wanted.
    timeline: Option<Timeline>,
    /// What is replayed, if anything is.
    replay: Option<Replay>,
    /// In a replay, by device: the kernels that run.
    computing: BTreeMap<DeviceOf, VecDeque<Box<Kernels>>>,
}

/// The time by which every run has ended: 200 years. Beyond it, times that could not be told apart
/// from the clock's greatest would be taken for it.
const END_OF_TIME: Time = Time(200 * 365 * 24 * 3600 * 1_000_000_000);

impl World {
    /// The world of `cluster` at the beginning of its clock.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let tasks: Vec<TaskName> = cluster.spec.tasks().collect();
        let is_first = |at: &usize| *at == 0 || tasks[*at - 1].job() != tasks[*at].job();
        let first_of_job = (0..tasks.len()).filter(is_first).collect();
        let host_of = processing::hosts(cluster, &tasks);
        let mut faults = FaultInjector::new(&tasks, &cluster.faults, cluster.seed);
        let slow_pairs = faults.slow_pairs();
        let scheduled = faults.schedule();
        let mut world = Self {
            now: Time::ZERO,
            events: EventQueue::default(),
            network: Network::new(&processing::network(cluster), host_of, &slow_pairs),
            devices: tasks.iter().map(|task| devices_of(task, cluster)).collect(),
            processors: processing::processors(cluster, &tasks),
            message_thread: cluster.hardware.message_thread.clone(),
            lanes: tasks.iter().map(|task| processing::lanes(cluster, task)).collect(),
            num_cores: vec![None; tasks.len()],
            unpaid: vec![0; tasks.len()],
            connections: Connections::new(tasks.len()),
            faults,
            held: Vec::new(),
            late: BTreeMap::new(),
            missed: tasks.iter().map(|_| Vec::new()).collect(),
            freezes: vec![Freezes::default(); tasks.len()],
            traffic: vec![Traffic::default(); tasks.len()],
            sent: BTreeMap::new(),
            books: Books::new(tasks.len()),
            deliveries: 0,
            audit: Audit::default(),
            history: History::new(&tasks, |task| cluster.spec.role(task) == Role::Worker),
            timeline: cluster.timeline.as_ref().map(|spec| Timeline::new(spec, &tasks)),
            replay: cluster.replay.as_ref().map(|tapes| Replay::new(tapes)),
            computing: BTreeMap::new(),
            first_of_job,
            cluster: cluster.clone(),
            tasks,
        };
        for effect in scheduled {
            world.apply(effect, &mut Vec::new());
        }
        world
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    pub(super) fn tasks(&self) -> &[TaskName] {
        &self.tasks
    }

    /// The number of a task: they are in the order of their names, and most jobs have no holes.
    pub(super) fn number_of(&self, task: &TaskName) -> Option<usize> {
        let is_of_job = |first: &&usize| self.tasks[**first].job() == task.job();
        let likely = self.first_of_job.iter().find(is_of_job)? + task.index() as usize;
        match self.tasks.get(likely) {
            Some(found) if found == task => Some(likely),
            _ => self.tasks.binary_search(task).ok(),
        }
    }

    /// Whether `incarnation` of `task` is its running one.
    pub(super) fn is_alive(&self, task: usize, incarnation: u32) -> bool {
        self.connections.is_alive(task, incarnation)
    }

    /// Lets the next event happen; of several at the same time, the queue's first, then the
    /// processors', then the network's.
    pub(super) fn tick(&mut self, actions: &mut Vec<Action>) {
        let due = self.faults.due_after_events(self.audit.events());
        if !due.is_empty() {
            for event in due {
                self.apply_fault(event, actions);
            }
            return;
        }
        if self.end_a_leaver(actions) {
            return;
        }
        let (queued, processed) = (self.events.next_time(), self.processors.next_event());
        let played = self.replay.as_ref().and_then(|replay| replay.next_event(self.now));
        let others = processed.into_iter().chain(self.network.next_event()).chain(played);
        let next = queued.into_iter().chain(others).min();
        if self.has_departed(next) {
            return actions.push(Action::Command(RunCommand::EndDeparted));
        }
        let Some(next) = next else { return actions.push(Action::Command(RunCommand::EndStalled)) };
        if next > END_OF_TIME {
            return actions.push(Action::Command(RunCommand::EndOfTime));
        }
        assert!(self.now <= next, "the clock is not set back, from {} to {next}", self.now);
        self.now = next;
        if queued == Some(next) {
            self.happen(actions);
        } else if processed == Some(next) {
            self.advance_processors(actions);
        } else if played == Some(next) {
            self.advance_replay(actions);
        } else {
            self.advance_network(actions);
        }
    }

    /// Lets the next event of the queue happen.
    fn happen(&mut self, actions: &mut Vec<Action>) {
        let (seq, event) = self.events.pop().expect("its time was just asked for");
        match event {
            Event::Wake { task, frozen, .. } | Event::Silence { observer: task, frozen, .. }
                if self.is_behind(task, frozen) =>
            {
                self.postpone(task, event);
            }
            Event::Wake { task, alarm, cause, .. } => {
                self.audit.record(self.now, EventKind::Wake, [seq, 0]);
                self.history.end(cause, self.now, task, SpanKind::Sleep);
                alarm.has_rung.set(true);
                actions.extend(alarm.waker.take().map(Action::Wake));
            }
            Event::Fault(event) | Event::Silence { event, .. } => {
                self.audit.record(self.now, EventKind::Fault, [seq, 0]);
                self.apply_fault(event, actions);
            }
            Event::SlowArrival(delivery) => {
                self.audit.record(self.now, EventKind::Fault, [seq, 0]);
                self.history.end(delivery.payload.cause, self.now, delivery.to, SpanKind::Fault);
                self.take_in(*delivery, actions);
            }
            Event::FirstBytes { from, to, size, cause } => {
                let route = (from as u64) << 32 | to as u64;
                self.audit.record(self.now, EventKind::FirstBytes, [route, size.0]);
                self.history.end(cause, self.now, to, SpanKind::Latency);
                self.take_in_bytes(from, to, size);
            }
        }
    }

    /// Begins a sleep of `task` until `time`, or until now if that has passed.
    pub(super) fn sleep_until(&mut self, task: usize, time: Time) -> Rc<Alarm> {
        let alarm = Rc::new(Alarm::default());
        let (own, frozen) = (Rc::clone(&alarm), self.frozen_for(task));
        let (at, cause) = (time.max(self.now), self.history.current());
        self.events.push(at, Event::Wake { task, alarm: own, frozen, cause });
        alarm
    }

    /// Sends messages of an incarnation of a task; a dead incarnation sends nothing.
    pub(super) fn send(
        &mut self,
        from: usize,
        incarnation: u32,
        to: usize,
        messages: Messages<PeerMessage>,
    ) {
        if !self.is_alive(from, incarnation) {
            return;
        }
        let size = self.traffic[from].count(&messages);
        self.gauge(from, to, size);
        if let Some(replay) = &mut self.replay {
            return replay.send(from, to, messages);
        }
        self.connections.note_dialer(from, to);
        let stamp = self.connections.stamp(from, to);
        self.post(from, to, size, Envelope { stamp, cause: self.history.current(), messages });
    }

    /// Whether a device takes the kernels of a training step as one piece of work.
    pub(super) fn takes_steps_whole(&self, DeviceOf { task, device }: DeviceOf) -> bool {
        self.replay.is_none() && self.devices[task][device].takes_steps_whole()
    }

    /// Whether a device of a task is an accelerator: these come after its processors.
    fn is_gpu(&self, device: usize) -> bool {
        device >= self.cluster.hardware.devices.get() as usize
    }

    /// The memory of a device, if it is limited.
    pub(super) fn memory(&self, DeviceOf { task, device }: DeviceOf) -> Option<Bytes> {
        let gpus = &self.cluster.hardware.gpus;
        let gpus = gpus.get(&self.tasks[task]).filter(|_| self.is_gpu(device));
        gpus.and_then(|gpus| gpus.capacity)
    }

    /// The incarnation of `peer` that `observer` is connected to.
    pub(super) fn met(&self, observer: usize, peer: usize) -> Option<u64> {
        match &self.replay {
            Some(replay) => replay.met(observer, peer),
            None => self.connections.met(observer, peer),
        }
    }

    /// The program of a task has returned.
    pub(super) fn program_returned(&mut self, task: usize) {
        self.history.retire(task);
        self.faults.program_returned(task);
    }

    /// A task that has died is about to start again: its devices are new. Returns its incarnation.
    pub(super) fn begin_incarnation(&mut self, task: usize) -> u32 {
        self.faults.program_begins(task);
        self.devices[task] = devices_of(&self.tasks[task], &self.cluster);
        self.connections.begin_incarnation(task)
    }

    /// `task` ends a training step now, which made `global_step` and began at `started`.
    pub(super) fn end_step(
        &mut self,
        task: &TaskName,
        global_step: u64,
        started: Time,
        how: StepEnd,
    ) {
        if let Some(task) = self.number_of(task) {
            if let Some(timeline) = &mut self.timeline {
                let path = self.history.path_of_step(task, started, self.now);
                timeline.step(task, global_step, started, self.now, path);
            }
            self.history.end_step(task, started, self.now, how);
            self.write_gauges(false);
        }
    }

    /// Takes out the events to come, those missed and the work to be done. They hold references to
    /// actors, so their owner drops them.
    pub(super) fn take_unfinished(&mut self) -> (EventQueue, Vec<Vec<Missed>>, Vec<Errand>) {
        let mut work = self.processors.clear_all(self.now);
        self.check_books(&self.events, &work);
        let computing = std::mem::take(&mut self.computing).into_values().flatten();
        work.extend(computing.map(|kernels| self.undone(kernels)));
        (std::mem::take(&mut self.events), std::mem::take(&mut self.missed), work)
    }

    /// What came of a run whose programs have ended with `result`.
    pub(super) fn outcome<T>(
        &mut self,
        result: Result<BTreeMap<TaskName, T>, Error>,
    ) -> Outcome<T> {
        self.write_gauges(true);
        let path = self.history.paths(&self.tasks, true);
        let of_each = self.tasks.iter().cloned();
        let cards = (0..self.tasks.len()).map(|task| self.network.card_traffic(task));
        Outcome {
            result,
            ended: self.now,
            events: self.audit.events(),
            deliveries: self.deliveries,
            digest: self.audit.digest(),
            sent: of_each.clone().zip(self.traffic.iter().copied()).collect(),
            usage: of_each.clone().zip((0..).map(|task| self.usage(task))).collect(),
            cards: of_each.zip(cards).collect(),
            path,
            skipped_faults: self.faults.skipped(),
        }
    }
}

/// The devices of `task`; each draws its own straggler times.
fn devices_of(task: &TaskName, cluster: &Cluster) -> Vec<Device> {
    let hardware = &cluster.hardware;
    let slow = hardware.slow.get(task).copied().unwrap_or(1.0);
    let spec = match hardware.own_compute.get(task) {
        Some(own) => own.clone(),
        // The laws of all are of worker steps, which parameter servers don't take.
        None if task.is_parameter_server() => {
            ComputeSpec { straggler: None, step_time: None, ..hardware.compute.clone() }
        }
        None => hardware.compute.clone(),
    };
    let speed = |device: LocalDevice| match hardware.gpus.get(task) {
        Some(gpus) if device.is_gpu() => &gpus.compute,
        _ => &spec,
    };
    let name = |device| DeviceName::new(task.clone(), device);
    let device = |device| Device::new(name(device), speed(device), slow, cluster.seed);
    hardware.devices_of(task).map(device).collect()
}
