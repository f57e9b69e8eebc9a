//! The processors of all tasks: a message thread and devices a task, on the cores of hosts.
//!
//! A task's *message thread* does one piece of work after another: it sends and receives envelopes
//! and runs small kernels. Each *device* of the task does one piece of larger kernels after another
//! beside it. What tasks on one host do at the same time shares the host's cores (`cores`); an
//! accelerator, and each way of its links, has all of itself. A frozen task does nothing: its
//! pieces stop, and go on where they stopped. A plain value: it knows no actor and no network; each
//! piece has a `T`, which the owner gets back at the piece's end.

mod cores;
mod idle_polling;
mod interruptions;
mod layout;
mod usage;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::units::Time;

use super::noise::Interruptions;
use cores::{Cores, Number};
use idle_polling::IdlePolling;
pub(super) use idle_polling::WokenBy;
pub(super) use layout::{LINKS, Layout, ProcessorUnit};
pub use usage::{Activity, ProcessorUsage};

/// A piece of work.
pub(super) struct Piece<T> {
    /// The time that it takes on free cores, while neither a fault nor noise slows it.
    pub(super) span: Duration,
    /// The activity that its time counts as; copies over links are not counted.
    pub(super) activity: Option<Activity>,
    /// The part of `span` that the usage counts as [`Activity::Operations`] instead.
    pub(super) operations: Duration,
    /// The number of threads that it runs on; at most the host's cores do.
    pub(super) threads: u32,
    /// What its owner gets back at its end.
    pub(super) then: T,
}

/// A piece of work that has ended: whose it was, where it ran since when, and what follows.
pub(super) struct Ended<T> {
    pub(super) task: usize,
    pub(super) unit: ProcessorUnit,
    pub(super) began: Time,
    /// The time by which faults and noise have slowed it.
    pub(super) slowed: Duration,
    pub(super) then: T,
}

/// The processors of a world. Its owner calls [`Processors::advance`] at each time that
/// [`Processors::next_event`] returns.
pub(super) struct Processors<T> {
    /// The cores of each host, then those of each accelerator and link: one each.
    hosts: Vec<Cores>,
    /// By task.
    layouts: Vec<Layout>,
    /// By task: its first queue.
    first_queue: Vec<usize>,
    /// By task, the message thread, the devices and the links.
    queues: Vec<Queue<T>>,
    /// The next end on each host, mixed with ends that have moved; the first has not.
    ends: BinaryHeap<Reverse<(Time, Number, usize)>>,
    /// By host: the end that was last noted in `ends`.
    noted: Vec<Option<(Time, Number)>>,
    /// The number of pieces that ever began.
    begun: Number,
    /// By task: whether its message thread polls for messages where it has no work.
    polling: Vec<IdlePolling>,
    /// By task.
    usage: Vec<ProcessorUsage>,
    is_frozen: Vec<bool>,
    /// By task: the faults' factor on the time of its work; 1 without a fault.
    slowdown: Vec<f64>,
    /// By task: what else takes the cores that it runs on; empty without noise.
    noise: Vec<Interruptions>,
}

/// A queue of pieces, of which the first runs.
struct Queue<T> {
    task: usize,
    /// The cores that it runs on, in `hosts`.
    cores: usize,
    pieces: VecDeque<Piece<T>>,
    /// When the first piece began.
    began: Time,
    /// The time that the first piece takes on free cores, the slowdowns of its task and its noise
    /// included \[ns\].
    whole: f64,
    /// The rest of the first piece, while the task is frozen \[ns\].
    stopped: Option<f64>,
    /// When the last piece ended.
    idle_since: Time,
}

impl<T> Processors<T> {
    /// Idle processors, on hosts with so many `cores`.
    pub(super) fn new(layouts: Vec<Layout>, cores: &[u32]) -> Self {
        let mut hosts: Vec<Cores> = cores.iter().map(|cores| Cores::new(*cores)).collect();
        let (mut queues, mut first_queue) = (Vec::new(), Vec::new());
        for (task, layout) in layouts.iter().enumerate() {
            first_queue.push(queues.len());
            for queue in 0..layout.queues() {
                let is_on_host = layout.is_on_host(queue);
                queues.push(Queue::new(task, if is_on_host { layout.host } else { hosts.len() }));
                if !is_on_host {
                    hosts.push(Cores::new(1));
                }
            }
        }
        Self {
            noted: vec![None; hosts.len()],
            hosts,
            queues,
            first_queue,
            ends: BinaryHeap::new(),
            begun: 0,
            polling: vec![IdlePolling::new(Duration::ZERO); layouts.len()],
            usage: vec![ProcessorUsage::default(); layouts.len()],
            is_frozen: vec![false; layouts.len()],
            slowdown: vec![1.0; layouts.len()],
            noise: Vec::new(),
            layouts,
        }
    }

    /// The same; a message thread that has nothing to do polls for `patience`, as a deployed one
    /// does, which takes `share` of what a thread that works takes of the cores.
    pub(super) fn that_poll(mut self, patience: Duration, share: f64) -> Self {
        self.polling.fill(IdlePolling::new(patience));
        self.hosts.iter_mut().for_each(|host| host.set_polling(share));
        self
    }

    /// The same, on cores that have `share` of their speed while more threads run than there are
    /// cores.
    pub(super) fn with_crowding(mut self, share: f64) -> Self {
        self.hosts.iter_mut().for_each(|host| host.set_crowded(share));
        self
    }

    /// The same, on cores that the noise of each task takes away now and then.
    pub(super) fn with_noise(mut self, noise: Vec<Interruptions>) -> Self {
        self.noise = noise;
        self
    }

    /// The time at which the next piece ends.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Ends, at `now`, the first piece of work that is due; the next one in its queue begins.
    pub(super) fn advance(&mut self, now: Time) -> Ended<T> {
        let Some(Reverse((at, _, host))) = self.ends.pop() else {
            unreachable!("processors are advanced only to an end");
        };
        assert_eq!(at, now, "processors are advanced by one end at a time");
        let id = self.hosts[host].end(now);
        let queue = &mut self.queues[id];
        let ended = queue.pieces.pop_front().expect("a queue that runs has a piece");
        if queue.pieces.is_empty() {
            queue.pieces.clear(); // the next one is put at the beginning of the memory
        }
        let (task, unit) = self.place(id);
        let Queue { began, whole, .. } = self.queues[id];
        let whole = nanoseconds(whole);
        self.usage[task].add(Activity::Queueing, now.since(began).saturating_sub(whole));
        self.count(task, &ended, whole);
        self.queues[id].idle_since = now;
        self.begin_next(now, id);
        if unit == ProcessorUnit::MessageThread && self.is_idle(task, unit) && !self.computes(task)
        {
            self.begin_polling(now, task);
        }
        self.reschedule(host);
        let slowed = whole.saturating_sub(ended.span);
        Ended { task, unit, began, slowed, then: ended.then }
    }

    /// Gives a unit of a task's processor a piece of work, to be done after all that it has.
    pub(super) fn give(&mut self, now: Time, task: usize, unit: ProcessorUnit, piece: Piece<T>) {
        let id = self.queue(task, unit);
        if unit != ProcessorUnit::Lanes {
            self.end_polling(now, task);
        }
        self.queues[id].pieces.push_back(piece);
        if self.queues[id].pieces.len() == 1 {
            self.begin_next(now, id);
        }
        self.reschedule(self.queues[id].cores);
    }

    /// Gives the message thread of `task` a piece of work, to be done ahead of the last pieces that
    /// it has, as far as these `can_wait` and have not begun.
    pub(super) fn give_ahead(
        &mut self,
        now: Time,
        task: usize,
        piece: Piece<T>,
        can_wait: impl Fn(&T) -> bool,
    ) {
        let id = self.queue(task, ProcessorUnit::MessageThread);
        let queue = &self.queues[id];
        let open = queue.pieces.range(queue.begun(now)..).rev();
        let behind = open.take_while(|open| can_wait(&open.then)).count();
        let place = queue.pieces.len() - behind;
        if behind == 0 {
            return self.give(now, task, ProcessorUnit::MessageThread, piece);
        }
        let is_first = place == 0;
        if is_first && !self.is_frozen[task] {
            self.hosts[queue.cores].stop(now, id);
        }
        self.queues[id].pieces.insert(place, piece);
        if is_first {
            self.begin_next(now, id);
        }
        self.reschedule(self.queues[id].cores);
    }

    /// The errands after the pieces of the message thread of `task` that have not begun, the last
    /// first.
    pub(super) fn open(&mut self, now: Time, task: usize) -> impl Iterator<Item = &mut T> {
        let id = self.queue(task, ProcessorUnit::MessageThread);
        let queue = &mut self.queues[id];
        let begun = queue.begun(now);
        queue.pieces.range_mut(begun..).rev().map(|piece| &mut piece.then)
    }

    /// Whether a unit of a task's processor has nothing to do.
    pub(super) fn is_idle(&self, task: usize, unit: ProcessorUnit) -> bool {
        self.queues[self.queue(task, unit)].pieces.is_empty()
    }

    /// Whether a device of `task` has work on the cores of its host.
    fn computes(&self, task: usize) -> bool {
        (0..self.layouts[task].cpus)
            .any(|device| !self.is_idle(task, ProcessorUnit::Device(device)))
    }

    /// The message thread of `task` gets an envelope, or hears that kernels have ended. Returns
    /// whether that wakes it: it has nothing to do, and does not look for messages. While a device
    /// of the task computes it leaves that its core.
    pub(super) fn wakes(&mut self, now: Time, task: usize, by: WokenBy) -> bool {
        let thread = &self.queues[self.queue(task, ProcessorUnit::MessageThread)];
        if !thread.pieces.is_empty() {
            return false;
        }
        let wait = now.since(thread.idle_since);
        let computes = by == WokenBy::Kernels || self.computes(task);
        self.polling[task].wakes(wait, by, computes)
    }

    fn begin_polling(&mut self, now: Time, task: usize) {
        if let Some(patience) = self.polling[task].patience() {
            let (queue, until) =
                (self.queue(task, ProcessorUnit::MessageThread), now.after(patience));
            self.hosts[self.layouts[task].host].begin_polling(now, queue, until);
        }
    }

    /// The message thread of `task` no longer polls, if it did: what runs on its host may end
    /// earlier.
    fn end_polling(&mut self, now: Time, task: usize) {
        let queue = self.queue(task, ProcessorUnit::MessageThread);
        let host = self.layouts[task].host;
        if self.hosts[host].end_polling(now, queue) {
            self.reschedule(host);
        }
    }

    /// Counts the time that `piece` of `task` was `worked` on; its operations have their share.
    fn count(&mut self, task: usize, piece: &Piece<T>, worked: Duration) {
        let Some(activity) = piece.activity.filter(|_| !worked.is_zero()) else { return };
        let operations = if piece.operations.is_zero() {
            Duration::ZERO
        } else {
            worked.mul_f64(piece.operations.div_duration_f64(piece.span))
        };
        self.usage[task].add(Activity::Operations, operations);
        self.usage[task].add(activity, worked.saturating_sub(operations));
    }

    /// What the processor of `task` has done.
    pub(super) fn usage(&self, task: usize) -> &ProcessorUsage {
        &self.usage[task]
    }

    fn queue(&self, task: usize, unit: ProcessorUnit) -> usize {
        self.first_queue[task] + self.layouts[task].queue(unit)
    }

    fn place(&self, queue: usize) -> (usize, ProcessorUnit) {
        let task = self.queues[queue].task;
        (task, self.layouts[task].unit(queue - self.first_queue[task]))
    }

    fn queues_of(&self, task: usize) -> std::ops::Range<usize> {
        let first = self.first_queue[task];
        first..first + self.layouts[task].queues()
    }

    /// Begins the first piece of a queue, if it has one and its task is not frozen.
    fn begin_next(&mut self, now: Time, id: usize) {
        let queue = &mut self.queues[id];
        let Some(first) = queue.pieces.front() else { return };
        if self.is_frozen[queue.task] {
            return;
        }
        let (span, threads) = (first.span.as_nanos() as f64, f64::from(first.threads));
        queue.began = now;
        // An interruption of one of its threads holds up the whole piece.
        let interrupted = self.interrupted(id, span * threads);
        let whole = (span + interrupted) * self.slowdown_of(id);
        self.queues[id].whole = whole;
        self.run(now, id, whole);
    }

    /// The factor on the time of what a queue does.
    fn slowdown_of(&self, id: usize) -> f64 {
        match self.place(id) {
            (_, ProcessorUnit::Link(_)) => 1.0,
            (task, _) => self.slowdown[task],
        }
    }

    /// The time that noise adds to so much `work` of a queue \[ns\]. An accelerator and its links
    /// have no noise.
    fn interrupted(&mut self, id: usize, work: f64) -> f64 {
        let Queue { task, cores, .. } = self.queues[id];
        let noise = self.noise.get_mut(task).filter(|_| cores == self.layouts[task].host);
        noise.map_or(0.0, |noise| noise.during(work))
    }

    /// Stops the first piece of a queue, if it has begun. Returns what is left of it \[ns\].
    fn stop(&mut self, now: Time, id: usize) -> Option<f64> {
        let queue = &mut self.queues[id];
        if self.is_frozen[queue.task] {
            return queue.stopped.take();
        }
        (!queue.pieces.is_empty()).then(|| self.hosts[queue.cores].stop(now, id))
    }

    /// Runs what is left of the first piece of a queue.
    fn run(&mut self, now: Time, id: usize, left: f64) {
        let queue = &self.queues[id];
        let threads = queue.pieces[0].threads;
        self.hosts[queue.cores].begin(now, (id, self.begun), left, threads);
        self.begun += 1;
    }

    /// Notes the next ends on all that `task` runs on.
    fn reschedule_all(&mut self, task: usize) {
        let Layout { host, cpus, .. } = self.layouts[task];
        self.reschedule(host);
        for id in self.queues_of(task).skip(1 + cpus) {
            self.reschedule(self.queues[id].cores);
        }
    }

    /// Notes the next end on a host, and forgets those that have moved.
    fn reschedule(&mut self, host: usize) {
        let next = self.hosts[host].next();
        if let Some((at, number)) = next.filter(|_| next != self.noted[host]) {
            self.ends.push(Reverse((at, number, host)));
        }
        self.noted[host] = next;
        while let Some(Reverse((at, number, host))) = self.ends.peek() {
            if self.hosts[*host].next() == Some((*at, *number)) {
                break;
            }
            self.ends.pop();
        }
    }
}

impl<T> Queue<T> {
    /// An idle queue of `task`.
    fn new(task: usize, cores: usize) -> Self {
        let (pieces, began, stopped, idle_since) = (VecDeque::new(), Time::ZERO, None, Time::ZERO);
        Self { task, cores, pieces, began, whole: 0.0, stopped, idle_since }
    }

    /// The number of pieces that time has been spent on: 0 or 1.
    fn begun(&self, now: Time) -> usize {
        usize::from(!self.pieces.is_empty() && (self.began < now || self.stopped.is_some()))
    }
}

fn nanoseconds(span: f64) -> Duration {
    Duration::from_nanos(span.round() as u64)
}

#[cfg(test)]
mod tests;
