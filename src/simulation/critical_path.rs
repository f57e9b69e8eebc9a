//! Critical paths: of each worker's laps, the chain of causes that ended last.
//!
//! An event of a simulation begins all that begins before the next event: actors run because of it
//! and take no time. So each piece of work, each envelope's way and each sleep has one cause, the
//! end of another. Followed backwards from the end of a lap, the causes leave no gap: their spans
//! add up to the lap's time, and each tells who the worker waited for then. A worker's laps leave
//! no gap either: together they say what decided the time of its training.

mod laps;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::VecDeque;

use crate::cluster::TaskName;
use crate::units::Time;

use self::laps::{Lap, Laps};
use self::waits::Waits;
use super::network::{Limit, MessageTimes};

pub(crate) use self::laps::StepEnd;
pub(super) use self::waits::Waited;
pub use self::waits::{CriticalPathShares, SpanKind};

/// The number of something that has ended, which is the cause of what began then.
pub(super) type CauseId = u64;

/// The cause of what nothing in the simulation has begun: the start of a program, a fault.
const NOTHING: CauseId = CauseId::MAX;

/// The most records that are kept; a path that goes back further ends with the oldest.
const MOST: usize = 1 << 20;

/// Something that has ended.
#[derive(Clone, Copy)]
struct Record {
    ended: Time,
    cause: CauseId,
    task: u32,
    part: SpanKind,
}

/// The records of what ended lately, and the sum of the critical paths so far.
pub(super) struct History {
    records: VecDeque<Record>,
    /// The number of the first record that is kept.
    first: CauseId,
    /// The one whose effects happen now.
    current: CauseId,
    /// The laps of the tasks that take steps.
    laps: Laps,
    /// The number of records at which old ones are dropped.
    full: usize,
    /// What the laps that were followed waited for.
    waits: Waits,
    /// By task: when faults had it stand still, from when until when, in order.
    frozen: Vec<Vec<(Time, Time)>>,
    /// The path that was followed last, from its end to its beginning.
    path: Vec<Waited>,
}

impl History {
    /// The history of `tasks`, of which some take steps, at the beginning of the clock.
    pub(super) fn new(tasks: &[TaskName], trains: impl Fn(&TaskName) -> bool) -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            current: NOTHING,
            laps: Laps::new(tasks.iter().map(trains)),
            full: 1 << 12,
            waits: Waits::new(tasks),
            frozen: vec![Vec::new(); tasks.len()],
            path: Vec::new(),
        }
    }

    /// The cause of whatever begins now.
    pub(super) fn current(&self) -> CauseId {
        self.current
    }

    /// Something that `cause` began ends at `ended`, and is the cause of what follows.
    pub(super) fn end(&mut self, cause: CauseId, ended: Time, task: usize, part: SpanKind) {
        if self.records.len() == MOST {
            self.drop_old(); // no lap has ended for long, or none is recorded
        }
        self.current = self.first + self.records.len() as CauseId;
        self.records.push_back(Record { ended, cause, task: task as u32, part });
    }

    /// A fault happens to `task`, or one that it noticed only now. Nothing in the simulation has
    /// caused it; what the task had begun since its last step is in vain.
    pub(super) fn interfere(&mut self, now: Time, task: usize) {
        self.end(self.laps.last_end(task), now, task, SpanKind::Fault);
    }

    /// Kernels of `task` end, which straggled for the last `straggling` \[ns\].
    pub(super) fn end_kernels(&mut self, cause: CauseId, now: Time, task: usize, straggling: u64) {
        if straggling == 0 {
            return self.end(cause, now, task, SpanKind::Kernels);
        }
        self.end(cause, Time(now.0.saturating_sub(straggling)), task, SpanKind::Kernels);
        self.end(self.current, now, task, SpanKind::Straggling);
    }

    /// An envelope arrives from another task, or from `to` itself.
    pub(super) fn arrive(
        &mut self,
        cause: CauseId,
        now: Time,
        from: usize,
        to: usize,
        times: &MessageTimes,
        has_numbers: bool,
    ) {
        let latency = if has_numbers { SpanKind::Latency } else { SpanKind::Coordination };
        self.end(cause, times.paid, from, SpanKind::MessageThread);
        if times.began > times.paid {
            self.end(self.current, times.began, to, latency);
        }
        if times.left > times.began {
            self.leave(from, to, times);
        }
        if now > times.left {
            self.end(self.current, now, to, latency);
        }
    }

    /// An envelope leaves. What held it back by turns is put one after the other.
    fn leave(&mut self, from: usize, to: usize, times: &MessageTimes) {
        // Faster cards of workers are both ends' among workers, and so are those of servers.
        let is_of_one_job = self.waits.is_server[from] == self.waits.is_server[to];
        let mut until = times.began;
        for (limit, span) in times.held.spans() {
            let (task, part) = match limit {
                Limit::SendingCard => (from, SpanKind::CardOut),
                Limit::ReceivingCard => (to, SpanKind::CardIn),
                Limit::Between => (to, SpanKind::Link),
                Limit::BothCards if is_of_one_job => (from, SpanKind::CardOut),
                Limit::BothCards | Limit::CardAndLink => (to, SpanKind::CardsAndLinks),
            };
            until = Time(until.0 + span).min(times.left);
            self.end(self.current, until, task, part);
        }
    }

    /// A training step of `task` ends now, which began at `started`.
    pub(super) fn end_step(&mut self, task: usize, started: Time, now: Time, how: StepEnd) {
        self.laps.end_step(task, (started, now), how, self.current);
        if self.records.len() >= self.full {
            self.drop_old();
        }
    }

    /// The path of a step of `task` that ends now and began at `started`, from its end to its
    /// beginning.
    pub(super) fn path_of_step(&mut self, task: usize, started: Time, now: Time) -> &[Waited] {
        self.follow(Lap { task, from: started, until: now, end: self.current });
        &self.path
    }

    /// `task` has stood still `since` then, and goes on now.
    pub(super) fn thaw(&mut self, task: usize, since: Time, now: Time) {
        self.frozen[task].push((since, now));
    }

    /// `task` takes no more steps.
    pub(super) fn retire(&mut self, task: usize) {
        self.laps.retire(task);
    }

    /// Follows the path that has led to the end of `lap`, back to its beginning or to the oldest
    /// record.
    fn follow(&mut self, lap: Lap) {
        self.path.clear();
        let Lap { task: mut worker, from, mut until, end } = lap;
        let unknown = Record { ended: until, cause: NOTHING, task: 0, part: SpanKind::Sleep };
        let mut next = Some(self.get(end).unwrap_or(unknown));
        while let Some(record) = next.filter(|_| until > from) {
            next = self.get(record.cause);
            let lost = || match record.part {
                SpanKind::Fault => from, // it began with the task's last end, before all records
                _ => self.oldest(record.cause),
            };
            let began = next.map_or_else(lost, |cause| cause.ended).clamp(from, until);
            let (task, part) = (record.task as usize, record.part);
            if self.laps.pauses(task).is_some() {
                worker = task; // until another takes over, the rest of the way is this worker's
            }
            if until > began {
                self.wait(Waited { from: began, until, task, part }, worker);
            }
            until = began;
        }
    }

    /// When what `cause` began can have begun, where no record has it any more.
    fn oldest(&self, cause: CauseId) -> Time {
        let oldest = self.records.front().filter(|_| cause != NOTHING);
        oldest.map_or(Time::ZERO, |record| record.ended)
    }

    /// Adds a span to the path. While its task stood still, nothing but the fault was waited for;
    /// while `worker`, on whose behalf it was, was between two steps, nothing but that.
    fn wait(&mut self, waited: Waited, worker: usize) {
        if waited.part == SpanKind::Fault {
            return self.path.push(waited);
        }
        let pauses = self.laps.pauses(worker).unwrap_or_default();
        waited.divide(&self.frozen[waited.task], |piece, was_frozen| {
            if was_frozen {
                return self.path.push(Waited { part: SpanKind::Fault, ..piece });
            }
            piece.divide(pauses, |piece, is_pause| {
                let part = if is_pause { SpanKind::Pause } else { piece.part };
                self.path.push(Waited { part, ..piece });
            });
        });
    }

    fn get(&self, cause: CauseId) -> Option<Record> {
        let index = cause.checked_sub(self.first)?;
        self.records.get(usize::try_from(index).ok()?).copied()
    }

    /// Drops what ended before any lap began that is under way or not yet followed.
    fn drop_old(&mut self) {
        let is_over_full = self.records.len() >= MOST;
        self.settle(if is_over_full { Time(u64::MAX) } else { self.laps.known_until() });
        let since = self.laps.first_began();
        self.laps.forget_pauses(since);
        let is_old = |record: &Record| record.ended < since;
        let old = self.records.iter().take_while(|record| is_old(record)).count();
        let surplus = self.records.len().saturating_sub(MOST / 2);
        let drop = old.max(if is_over_full { surplus } else { 0 });
        self.records.drain(..drop);
        self.first += drop as CauseId;
        self.full = (2 * self.records.len()).clamp(1 << 12, MOST);
    }

    /// Follows the laps that have ended by `until`.
    fn settle(&mut self, until: Time) {
        while let Some(lap) = self.laps.take(until) {
            self.follow(lap);
            self.waits.add(lap.task, &self.path);
        }
    }

    /// The critical paths of the laps whose pauses are known or, if the run `is_over`, of all;
    /// `tasks` are the cluster's.
    pub(super) fn paths(&mut self, tasks: &[TaskName], is_over: bool) -> CriticalPathShares {
        self.settle(if is_over { Time(u64::MAX) } else { self.laps.known_until() });
        self.waits.shares(tasks)
    }
}
