//! Laps of workers, and their pauses between steps: what critical paths are followed over.

use std::collections::VecDeque;

use super::{CauseId, NOTHING};
use crate::units::Time;

/// How a training step ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// Its gradient was applied.
    Applied,
    /// It changed only the worker's own copy, which a later step exchanges.
    Local,
    /// Its gradient came too late, or it was stopped as that would have.
    Dropped,
    /// A task was lost: the worker takes it again.
    GivenUp,
}

/// A stretch of a worker's time: from the end of a step that others could wait for to the end of
/// its next one, with its pauses and the steps of its own copy between the two.
#[derive(Clone, Copy)]
pub(super) struct Lap {
    pub(super) task: usize,
    pub(super) from: Time,
    pub(super) until: Time,
    /// What ended as the lap did.
    pub(super) end: CauseId,
}

/// The steps of one task.
#[derive(Clone)]
struct Steps {
    /// Whether one can be under way.
    go_on: bool,
    /// The end of the last one, and what ended then; none before it.
    last: Option<(Time, CauseId)>,
    /// When the lap under way began; none before the first step has ended.
    lap: Option<Time>,
    /// The times between two steps, in order.
    pauses: Vec<(Time, Time)>,
}

/// The laps of all tasks.
pub(super) struct Laps {
    /// By task; none of one that takes no steps.
    steps: Vec<Option<Steps>>,
    /// The laps that have ended, in this order, and are not yet followed.
    ended: VecDeque<Lap>,
}

impl Laps {
    /// No lap has ended yet; by task, whether it `trains`.
    pub(super) fn new(trains: impl Iterator<Item = bool>) -> Self {
        let steps = Steps { go_on: true, last: None, lap: None, pauses: Vec::new() };
        let steps = trains.map(|trains| trains.then(|| steps.clone())).collect();
        Self { steps, ended: VecDeque::new() }
    }

    /// A step of `task`, begun at `started`, ends `now`, with `cause`.
    pub(super) fn end_step(
        &mut self,
        task: usize,
        (started, now): (Time, Time),
        how: StepEnd,
        cause: CauseId,
    ) {
        let Some(steps) = &mut self.steps[task] else { return };
        steps.go_on = true;
        if how == StepEnd::GivenUp {
            return;
        }
        let pause = steps.last.map(|(ended, _)| (ended, started));
        steps.pauses.extend(pause.filter(|(ended, started)| ended < started));
        steps.last = Some((now, cause));
        let from = *steps.lap.get_or_insert(started);
        if how == StepEnd::Applied && from < now {
            self.ended.push_back(Lap { task, from, until: now, end: cause });
        }
        if how != StepEnd::Local {
            steps.lap = Some(now);
        }
    }

    /// `task` takes no more steps, unless it is started again.
    pub(super) fn retire(&mut self, task: usize) {
        if let Some(steps) = &mut self.steps[task] {
            steps.go_on = false;
        }
    }

    /// What ended with the last step of `task`.
    pub(super) fn last_end(&self, task: usize) -> CauseId {
        let last = self.steps[task].as_ref().and_then(|steps| steps.last);
        last.map_or(NOTHING, |(_, cause)| cause)
    }

    /// The pauses of `task`; none if it takes no steps.
    pub(super) fn pauses(&self, task: usize) -> Option<&[(Time, Time)]> {
        self.steps[task].as_ref().map(|steps| steps.pauses.as_slice())
    }

    /// Takes the first lap that has ended by `until`.
    pub(super) fn take(&mut self, until: Time) -> Option<Lap> {
        let is_due = self.ended.front().is_some_and(|lap| lap.until <= until);
        if is_due { self.ended.pop_front() } else { None }
    }

    /// The time until which the pauses of all tasks are known: each has ended a step since.
    pub(super) fn known_until(&self) -> Time {
        let ends = self.going_on().map(|steps| steps.last.map_or(Time::ZERO, |(ended, _)| ended));
        ends.min().unwrap_or(Time(u64::MAX))
    }

    /// When the first lap began that is under way or not yet followed.
    pub(super) fn first_began(&self) -> Time {
        let under_way = self.going_on().map(|steps| steps.lap.unwrap_or(Time::ZERO));
        under_way.chain(self.ended.iter().map(|lap| lap.from)).min().unwrap_or(Time::ZERO)
    }

    /// Forgets the pauses that ended by `until`.
    pub(super) fn forget_pauses(&mut self, until: Time) {
        for steps in self.steps.iter_mut().flatten() {
            let old = steps.pauses.partition_point(|(_, ended)| *ended <= until);
            steps.pauses.drain(..old);
        }
    }

    fn going_on(&self) -> impl Iterator<Item = &Steps> {
        self.steps.iter().flatten().filter(|steps| steps.go_on)
    }
}
