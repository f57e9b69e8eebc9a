//! The tasks' processors in the world: what their message threads and devices are given to do, and
//! what follows.
//!
//! Without a modelled message thread, kernels go straight to the devices, and envelopes straight to
//! the network and to the actors.

use std::num::NonZeroU32;
use std::time::Duration;

use smallvec::SmallVec;

use crate::cluster::{LocalDevice, TaskName};
use crate::kernels::{self, Cost, Costs};
use crate::random;
use crate::runtime::{WorkerStep, leaves_message_thread};
use crate::simulation::audit::EventKind;
use crate::simulation::chore::{Chore, Errand, Kernels};
use crate::simulation::cluster::Cluster;
use crate::simulation::critical_path::SpanKind;
use crate::simulation::device::{DeviceOf, Span};
use crate::simulation::gpus::Hop;
use crate::simulation::hosts::Lanes;
use crate::simulation::network::NetworkSpec;
use crate::simulation::noise::Interruptions;
use crate::simulation::processor::{
    Activity, Ended, Layout, Piece, ProcessorUnit, ProcessorUsage, Processors, WokenBy,
};
use crate::units::Bytes;

use super::{Action, World};

/// The processors of a cluster's tasks.
pub(super) fn processors(cluster: &Cluster, tasks: &[TaskName]) -> Processors<Errand> {
    let host_of = hosts(cluster, tasks);
    let count = host_of.iter().map(|host| host + 1).max().unwrap_or(0);
    // Without hosts to share, cores are never scarce.
    let cores = cluster.hardware.hosts.as_ref().map_or(u32::MAX, |hosts| hosts.cores.get());
    let layout = |(host, task): (&usize, &TaskName)| {
        let gpus = cluster.hardware.gpus_of(task) as usize;
        let has_lanes = lanes(cluster, task).is_some();
        Layout { host: *host, cpus: cluster.hardware.devices.get() as usize, gpus, has_lanes }
    };
    let layouts = host_of.iter().zip(tasks).map(layout).collect();
    let processors =
        Processors::new(layouts, &vec![cores; count]).with_noise(noise(cluster, tasks));
    match &cluster.hardware.message_thread {
        Some(thread) => {
            processors.that_poll(thread.patience, thread.polling).with_crowding(thread.crowded)
        }
        None => processors,
    }
}

/// The lanes of a task.
pub(super) fn lanes(cluster: &Cluster, task: &TaskName) -> Option<Lanes> {
    let lanes = cluster.hardware.message_thread.as_ref()?.lanes?;
    match &cluster.hardware.hosts {
        Some(hosts) => lanes.of_threads(hosts.share_of(task)),
        None => Some(lanes),
    }
}

/// By task: what takes the cores that it runs on.
fn noise(cluster: &Cluster, tasks: &[TaskName]) -> Vec<Interruptions> {
    if cluster.hardware.noise.is_empty() {
        return Vec::new();
    }
    let of = |task: &TaskName| {
        let draws = random::stream(cluster.seed, &[&task.to_string(), "noise"]);
        Interruptions::new(&cluster.hardware.noise, draws)
    };
    tasks.iter().map(of).collect()
}

/// By task: its host.
pub(super) fn hosts(cluster: &Cluster, tasks: &[TaskName]) -> Vec<usize> {
    match &cluster.hardware.hosts {
        Some(hosts) => hosts.numbered(tasks),
        None => (0..tasks.len()).collect(),
    }
}

/// The network of a cluster.
pub(super) fn network(cluster: &Cluster) -> NetworkSpec {
    NetworkSpec { message_cost: message_cost(cluster), ..cluster.hardware.network.clone() }
}

/// The cost of a message to its sender in the network: nothing if message threads are modelled,
/// which bear it.
pub(super) fn message_cost(cluster: &Cluster) -> Duration {
    match cluster.hardware.message_thread {
        Some(_) => Duration::ZERO,
        None => cluster.hardware.network.message_cost,
    }
}

impl World {
    /// Gives kernels of worker step `step` to a device of a task, or, if they are small and for a
    /// processor, to its message thread. Returns them if they are done at once.
    pub(in crate::simulation) fn compute(
        &mut self,
        on: DeviceOf,
        step: Option<WorkerStep>,
        costs: &Costs,
        mut kernels: Box<Kernels>,
    ) -> Option<Box<Kernels>> {
        if self.replay.is_some() {
            return self.compute_as_recorded(on, costs, kernels);
        }
        let DeviceOf { task, device } = on;
        let model = &mut self.devices[task][device];
        let Span { whole: span, straggling } = model.time(step, costs);
        let is_drawn = model.draws_times() && !span.is_zero();
        let cost = costs.total();
        let is_gpu = self.is_gpu(device);
        let (threads, stretch) = if is_gpu { (1, None) } else { self.threads_of(task, cost) };
        let stretched = |span: Duration| match stretch {
            Some(factor) if !is_drawn => span.mul_f64(factor),
            _ => span,
        };
        let span = stretched(span);
        kernels.straggling = stretched(straggling);
        let Some(thread) = &self.message_thread else {
            if span.is_zero() && self.processors.is_idle(task, ProcessorUnit::Device(device)) {
                return Some(kernels);
            }
            self.run(on, kernels, span, threads);
            return None;
        };
        if leaves_message_thread(cost) || is_drawn || is_gpu {
            let half = thread.hand_over / 2;
            let chore = Chore::HandOver { device, kernels, span, threads };
            self.do_on_thread(task, Activity::HandingOver, half, chore);
        } else {
            self.do_on_thread(task, Activity::SmallKernels, span, Chore::Finish(kernels));
        }
        None
    }

    /// Copies `size` from the memory of one device of a task to that of another; what follows is
    /// in `kernels`.
    pub(in crate::simulation) fn copy(
        &mut self,
        task: usize,
        between: (LocalDevice, LocalDevice),
        size: Bytes,
        kernels: Box<Kernels>,
    ) {
        let gpus = &self.cluster.hardware.gpus[&self.tasks[task]];
        let way = gpus.route(between, size);
        self.carry(task, way, kernels);
    }

    /// Brings a value over the first link of its way.
    fn carry(&mut self, task: usize, mut way: SmallVec<[Hop; 2]>, kernels: Box<Kernels>) {
        let (link, span) = way.remove(0);
        let then = self.errand(SpanKind::Link, Chore::Copied { left: way, kernels });
        let piece = Piece { span, activity: None, operations: Duration::ZERO, threads: 1, then };
        self.processors.give(self.now, task, ProcessorUnit::Link(link), piece);
    }

    /// Stops the kernels of `step`, which is given up: the device is free after the cost of that.
    pub(in crate::simulation) fn stop_step(&mut self, on: DeviceOf, step: WorkerStep) {
        let DeviceOf { task, device } = on;
        let cost = self.devices[task][device].stop_cost();
        let is_its = |errand: &Errand| errand.chore.computes(step);
        let (cause, part) = (self.history.current(), SpanKind::Kernels);
        let nothing = || Errand { cause, part, chore: Chore::Nothing };
        self.processors.cut_short(self.now, task, cost, is_its, nothing);
    }

    /// Has the message thread of `task` carry out `count` operations, before what it does next.
    pub(in crate::simulation) fn operate(&mut self, task: usize, count: usize) {
        if self.message_thread.is_some() {
            self.unpaid[task] += count as u32;
        }
    }

    /// Lets the next piece of a processor's work end.
    pub(super) fn advance_processors(&mut self, actions: &mut Vec<Action>) {
        let Ended { task, unit, began, slowed, then: errand } = self.processors.advance(self.now);
        if let Some(timeline) = self.timeline.as_mut().filter(|timeline| timeline.is_on()) {
            timeline.piece(task, unit, errand.chore.name(), began, self.now);
        }
        self.history_of(task, &errand, slowed);
        let (kind, unit) = match unit {
            ProcessorUnit::MessageThread => (EventKind::ChoreDone, 0),
            ProcessorUnit::Device(device) => (EventKind::WorkDone, device as u64),
            ProcessorUnit::Link(link) => (EventKind::CopyDone, link as u64),
            ProcessorUnit::Lanes => (EventKind::LanesDone, 0),
        };
        self.audit.record(self.now, kind, [task as u64, unit]);
        match errand.chore {
            Chore::Send { to, size, envelope } => match self.lanes_for(task, to, size) {
                Some(lanes) => self.send_over(task, lanes, to, size, envelope),
                None => self.send_now(task, to, size, envelope),
            },
            Chore::Spread { to, size, envelope } => self.send_now(task, to, size, envelope),
            Chore::Decoded(delivery) => self.receive(*delivery),
            Chore::Receive(delivery) => self.hand_over(*delivery, actions),
            Chore::HandOver { device, kernels, span, threads } => {
                self.run(DeviceOf { task, device }, kernels, span, threads);
            }
            Chore::Copied { left, kernels } if left.is_empty() => {
                actions.push(Action::Finish(kernels));
            }
            Chore::Copied { left, kernels } => self.carry(task, left, kernels),
            Chore::Computed(kernels) => self.hear_of(task, kernels, actions),
            Chore::Finish(kernels) => actions.push(Action::Finish(kernels)),
            Chore::Prepare | Chore::SendBytes | Chore::Nothing => {}
        }
    }

    /// Kernels have run on a device: their task hears of it.
    fn hear_of(&mut self, task: usize, kernels: Box<Kernels>, actions: &mut Vec<Action>) {
        let Some(thread) = &self.message_thread else {
            return actions.push(Action::Finish(kernels));
        };
        let half = thread.hand_over / 2;
        self.wake_thread(task, WokenBy::Kernels);
        self.do_on_thread(task, Activity::HandingOver, half, Chore::Finish(kernels));
    }

    /// Runs kernels for `span` on so many threads of a device.
    fn run(&mut self, on: DeviceOf, kernels: Box<Kernels>, span: Duration, threads: u32) {
        let then = self.errand(SpanKind::Kernels, Chore::Computed(kernels));
        let (activity, operations) = (Some(Activity::Kernels), Duration::ZERO);
        let piece = Piece { span, activity, operations, threads, then };
        self.processors.give(self.now, on.task, ProcessorUnit::Device(on.device), piece);
    }

    /// What the processor of `task` has been busy with. Without a modelled message thread, the
    /// network knows what its messages have cost.
    pub(super) fn usage(&self, task: usize) -> ProcessorUsage {
        let mut usage = *self.processors.usage(task);
        usage.add(Activity::Sending, self.network.time_paid(task, self.now));
        usage
    }

    /// Wakes the message thread of `task`, if it sleeps.
    pub(super) fn wake_thread(&mut self, task: usize, by: WokenBy) {
        let wake = self.message_thread.as_ref().map_or(Duration::ZERO, |thread| thread.wake);
        if self.processors.wakes(self.now, task, by) && !wake.is_zero() {
            self.do_on_thread(task, Activity::Waking, wake, Chore::Nothing);
        }
    }

    /// Gives the message thread of `task` a chore, after the operations that it has yet to pay for.
    /// If the thread gathers envelopes, chores of its actors run before pending sends.
    pub(super) fn do_on_thread(
        &mut self,
        task: usize,
        activity: Activity,
        span: Duration,
        then: Chore,
    ) {
        let operation = self.message_thread.as_ref().map_or(Duration::ZERO, |it| it.operation);
        let operations = operation * std::mem::take(&mut self.unpaid[task]);
        let part = match activity {
            Activity::SmallKernels => SpanKind::Kernels,
            _ => SpanKind::MessageThread,
        };
        let then = self.errand(part, then);
        let (span, activity) = (operations + span, Some(activity));
        let piece = Piece { span, activity, operations, threads: 1, then };
        let gathers = self.message_thread.as_ref().is_some_and(|thread| thread.gathers);
        if gathers && piece.then.chore.is_of_actors() {
            let can_wait = |errand: &Errand| errand.chore.is_of_sending();
            self.processors.give_ahead(self.now, task, piece, can_wait);
        } else {
            self.processors.give(self.now, task, ProcessorUnit::MessageThread, piece);
        }
    }

    /// A chore that begins because of what happens now.
    pub(super) fn errand(&self, part: SpanKind, chore: Chore) -> Errand {
        Errand { cause: self.history.current(), part, chore }
    }

    /// Notes the end of an errand of `task`, which faults and noise have slowed by `slowed`.
    fn history_of(&mut self, task: usize, errand: &Errand, slowed: Duration) {
        let Errand { cause, part, chore } = errand;
        match (part, chore) {
            (SpanKind::Kernels, Chore::Computed(kernels) | Chore::Finish(kernels)) => {
                let straggling = (kernels.straggling + slowed).as_nanos() as u64;
                self.history.end_kernels(*cause, self.now, task, straggling);
            }
            _ => self.history.end(*cause, self.now, task, *part),
        }
    }

    /// Spreads kernels of `task` over so many cores; without a number, over its share of the
    /// host's.
    pub(in crate::simulation) fn use_cores(&mut self, task: usize, cores: Option<NonZeroU32>) {
        self.num_cores[task] = cores;
    }

    /// The number of threads that kernels of `task` run on: tasks that share a host share out its
    /// cores, as those of a launch do. It only matters where they share cores. A device's rate is
    /// that of a share; on another number of threads kernels take that many times as long.
    fn threads_of(&self, task: usize, cost: Cost) -> (u32, Option<f64>) {
        let Some(hosts) =
            self.cluster.hardware.hosts.as_ref().filter(|_| kernels::may_spread(cost))
        else {
            return (1, None);
        };
        let name = &self.tasks[task];
        let share = hosts.share_of(name);
        let told = self.num_cores[task].map(|told| told.get().min(hosts.cores.get()));
        let threads = told.unwrap_or(share);
        (threads, told.map(|_| f64::from(share) / f64::from(threads)))
    }
}
