//! Critical paths: of each training step, the chain of causes that ended last.
//!
//! An event of a simulation begins all that begins before the next event: actors run because of it
//! and take no time. So each piece of work, each envelope's way and each sleep has one cause, the
//! end of another. Followed backwards from the end of a step, the causes leave no gap: their spans
//! add up to the step's time, and each tells who the step waited for then.

#[cfg(test)]
mod tests;
mod waits;

use std::collections::VecDeque;

use crate::cluster::TaskName;
use crate::units::Time;

use self::waits::Waits;
use super::network::{Limit, MessageTimes};

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
    /// By task: the time since when a step of it can be under way; none if it takes no steps.
    since: Vec<Option<Time>>,
    /// The number of records at which old ones are dropped.
    full: usize,
    /// What the steps that counted waited for.
    waits: Waits,
    /// By task: when faults had it stand still, from when until when, in order.
    frozen: Vec<Vec<(Time, Time)>>,
    /// The path of the step that ended last, from its end to its beginning.
    path: Vec<Waited>,
}

impl History {
    /// The history of `tasks`, of which some take steps, at the beginning of the clock.
    pub(super) fn new(tasks: &[TaskName], trains: impl Fn(&TaskName) -> bool) -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            current: NOTHING,
            since: tasks.iter().map(|task| trains(task).then_some(Time::ZERO)).collect(),
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
            self.drop_old(); // no step has ended for long, or none is recorded
        }
        self.current = self.first + self.records.len() as CauseId;
        self.records.push_back(Record { ended, cause, task: task as u32, part });
    }

    /// A fault happens to `task`, or one that it noticed only now: nothing in the simulation has
    /// caused it.
    pub(super) fn interfere(&mut self, now: Time, task: usize) {
        self.end(NOTHING, now, task, SpanKind::Fault);
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

    /// A training step of `task` ends now, which began at `started`. It counts if its gradient was
    /// applied. Returns its path, from its end to its beginning.
    pub(super) fn end_step(
        &mut self,
        task: usize,
        started: Time,
        now: Time,
        counts: bool,
    ) -> &[Waited] {
        self.follow(started, now);
        if counts && now > started {
            self.waits.add(task, now.since(started), &self.path);
        }
        self.since[task] = Some(now);
        if self.records.len() >= self.full {
            self.drop_old();
        }
        &self.path
    }

    /// `task` has stood still `since` then, and goes on now.
    pub(super) fn thaw(&mut self, task: usize, since: Time, now: Time) {
        self.frozen[task].push((since, now));
    }

    /// `task` takes no more steps.
    pub(super) fn retire(&mut self, task: usize) {
        self.since[task] = None;
    }

    /// Follows the path from `started` to `now` that has led to what happens now.
    fn follow(&mut self, started: Time, now: Time) {
        self.path.clear();
        let mut until = now;
        let oldest = Record { ended: started, cause: NOTHING, task: 0, part: SpanKind::Sleep };
        let mut record = self.get(self.current).unwrap_or(oldest);
        while until > started {
            let cause = self.get(record.cause);
            let began = cause.map_or(started, |cause| cause.ended.clamp(started, until));
            if until > began {
                let (task, part) = (record.task as usize, record.part);
                self.wait(Waited { from: began, until, task, part });
            }
            until = began;
            record = cause.unwrap_or(oldest);
        }
    }

    /// Adds a span to the path. While its task stood still, nothing but the fault was waited for.
    fn wait(&mut self, waited: Waited) {
        let mut until = waited.until;
        let frozen = self.frozen[waited.task].iter().rev();
        for (since, thawed) in frozen.filter(|_| waited.part != SpanKind::Fault) {
            let (from, to) = ((*since).max(waited.from), (*thawed).min(until));
            if from < to {
                self.path.extend((to < until).then_some(Waited { from: to, until, ..waited }));
                self.path.push(Waited { from, until: to, part: SpanKind::Fault, ..waited });
                until = from;
            }
        }
        let rest = (waited.from < until).then_some(Waited { until, ..waited });
        self.path.extend(rest);
    }

    fn get(&self, cause: CauseId) -> Option<Record> {
        let index = cause.checked_sub(self.first)?;
        self.records.get(usize::try_from(index).ok()?).copied()
    }

    /// Drops what ended before any step that can be under way began.
    fn drop_old(&mut self) {
        let since = self.since.iter().flatten().min().copied().unwrap_or(Time::ZERO);
        let is_old = |record: &Record| record.ended < since;
        let old = self.records.iter().take_while(|record| is_old(record)).count();
        let surplus = self.records.len().saturating_sub(MOST / 2);
        let drop = old.max(if self.records.len() >= MOST { surplus } else { 0 });
        self.records.drain(..drop);
        self.first += drop as CauseId;
        self.full = (2 * self.records.len()).clamp(1 << 12, MOST);
    }

    /// The critical paths of the steps so far; `tasks` are the cluster's.
    pub(super) fn paths(&self, tasks: &[TaskName]) -> CriticalPathShares {
        self.waits.shares(tasks)
    }
}
