//! Freezes: a frozen task's processor, network card and timers stop, and go on later where they
//! stopped.

use std::time::Duration;

use crate::simulation::events::Event;
use crate::units::Time;

use super::World;

/// The freezes of a task.
#[derive(Clone, Copy, Default)]
pub(super) struct Freezes {
    /// The beginning of the present one, or of the last.
    since: Time,
    /// The length of all that are over.
    pub(super) total: Duration,
}

impl World {
    pub(super) fn freeze(&mut self, task: usize) {
        self.freezes[task].since = self.now;
        self.processors.freeze(self.now, task);
        self.network.pause(self.now, task);
    }

    /// Lets a frozen task go on: what was under way takes as long as was left of it.
    pub(super) fn resume(&mut self, task: usize) {
        let frozen = self.now.since(self.freezes[task].since);
        self.freezes[task].total += frozen;
        self.history.thaw(task, self.freezes[task].since, self.now);
        self.processors.thaw(self.now, task, frozen);
        self.network.resume(self.now, task);
        for (due, event) in std::mem::take(&mut self.missed[task]) {
            self.catch_up(due, event);
        }
    }

    /// How long `task` has been frozen in all.
    pub(super) fn frozen_for(&self, task: usize) -> Duration {
        let Freezes { since, total } = self.freezes[task];
        if self.connections.is_frozen(task) { total + self.now.since(since) } else { total }
    }

    /// Whether an event of `task` has to wait: the task is frozen, or has been for longer than
    /// `frozen`, as when the event was scheduled.
    pub(super) fn is_behind(&self, task: usize, frozen: Duration) -> bool {
        self.connections.is_frozen(task) || frozen < self.freezes[task].total
    }

    /// Postpones an event of `task` by as long as the task has been frozen meanwhile.
    pub(super) fn postpone(&mut self, task: usize, event: Event) {
        if self.connections.is_frozen(task) {
            self.missed[task].push((self.now, event));
        } else {
            self.catch_up(self.now, event);
        }
    }

    /// Schedules an event that was due at `due` if its task had not been frozen.
    fn catch_up(&mut self, due: Time, event: Event) {
        match event {
            Event::Wake { task, alarm, frozen, cause } => {
                let (at, frozen) = self.catch_up_at(task, due, frozen);
                self.events.push(at, Event::Wake { task, alarm, frozen, cause });
            }
            Event::Silence { observer, frozen, event } => {
                let (at, frozen) = self.catch_up_at(observer, due, frozen);
                self.events.push(at, Event::Silence { observer, frozen, event });
            }
            other => self.events.push(self.now, other),
        }
    }

    /// When an event of `task` is due that was due at `due` as `task` had been frozen for
    /// `frozen` in all, and how long it has been frozen now.
    fn catch_up_at(&self, task: usize, due: Time, frozen: Duration) -> (Time, Duration) {
        let total = self.freezes[task].total;
        (due.after(total.saturating_sub(frozen)), total)
    }
}
