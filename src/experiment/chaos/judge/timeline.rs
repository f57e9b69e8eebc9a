//! The faults of a run, and what they excuse.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::saved::Saved;
use super::{Breaches, Promise, Trial};
use crate::cluster::{Role, TaskName};
use crate::runtime::{Code, Error, GRACE, STOP_GRACE};
use crate::simulation::{Fault, FaultKind};
use crate::units::Time;

/// The faults of a run, and what they excuse.
pub(super) struct Timeline<'a> {
    pub(super) faults: &'a [Fault],
    pub(super) trial: &'a Trial,
}

impl Timeline<'_> {
    /// The time at which the last fault has passed.
    pub(super) fn end(&self) -> Time {
        let end = |fault: &Fault| {
            let pause = self.pause(fault).unwrap_or_default();
            begins(fault).after(lasts(&fault.kind).max(pause))
        };
        self.faults.iter().map(end).max().unwrap_or_default()
    }

    /// The longest time after which the task that `fault` crashes starts again; none if it may be
    /// gone for good. A crash amid a stop of the task starts it again as the stop says; but whether
    /// that had ended it already is not known.
    fn pause(&self, fault: &Fault) -> Option<Duration> {
        let FaultKind::Crash { task: crashed, restart_after } = &fault.kind else { return None };
        let of_stop = |other: &Fault| match &other.kind {
            FaultKind::Stop { task, restart_after } if task == crashed => *restart_after,
            _ => None,
        };
        let before = self.faults.iter().filter(|other| begins(other) <= begins(fault));
        restart_after.map(|own| before.filter_map(of_stop).fold(own, Duration::max))
    }

    /// Whether one of the faults is of a kind that `is_meant`.
    pub(super) fn has(&self, is_meant: fn(&FaultKind) -> bool) -> bool {
        self.faults.iter().any(|fault| is_meant(&fault.kind))
    }

    /// The tasks whose processes end, each with the time after which it starts again.
    fn deaths(&self) -> impl Iterator<Item = (&TaskName, Option<Duration>)> {
        self.faults.iter().filter_map(|fault| match &fault.kind {
            FaultKind::Crash { task, restart_after } | FaultKind::Stop { task, restart_after } => {
                Some((task, *restart_after))
            }
            _ => None,
        })
    }

    /// Whether a parameter server is asked to stop: all tasks end with it, and one that comes back
    /// later may miss any of them.
    fn stops_all(&self) -> bool {
        self.has(|kind| matches!(kind, FaultKind::Stop { task, .. } if task.is_parameter_server()))
    }

    /// By worker: how many times it may have been lost in the midst of a step that others went on
    /// without, as it died, or was cut off from a parameter server or stood still for so long that
    /// it was given up.
    pub(super) fn worker_losses(&self) -> Vec<u64> {
        let limit = self.trial.cluster.faults.silence + GRACE;
        let losses = |worker: TaskName| {
            let deaths =
                self.faults.iter().filter(|fault| self.loses(&worker, &fault.kind)).count();
            let given_up = self.absences(&worker).into_iter().filter(|absence| *absence >= limit);
            (deaths + given_up.count()) as u64
        };
        self.trial.cluster.spec.workers().map(losses).collect()
    }

    /// Whether `worker` may die in the midst of a step by a fault of `kind`. Asked to stop, it ends
    /// its step, unless another fault keeps it from that.
    fn loses(&self, worker: &TaskName, kind: &FaultKind) -> bool {
        match kind {
            FaultKind::Crash { task, .. } => task == worker,
            FaultKind::Stop { task, .. } => {
                self.faults.len() > 1 && (task == worker || task.is_parameter_server())
            }
            _ => false,
        }
    }

    /// The times for which `worker` stood still, or was cut off from a parameter server.
    fn absences(&self, worker: &TaskName) -> Vec<Duration> {
        let servers: Vec<TaskName> =
            self.trial.cluster.spec.tasks().filter(TaskName::is_parameter_server).collect();
        self.spans(|fault| match &fault.kind {
            FaultKind::Freeze { task, lasts } if task == worker => Some(*lasts),
            kind => servers.iter().find_map(|server| self.cut(kind, worker, server)),
        })
    }

    /// For how long a fault of `kind` cuts the way between `one` and `other`, if it does.
    fn cut(&self, kind: &FaultKind, one: &TaskName, other: &TaskName) -> Option<Duration> {
        let tasks = kind.tasks();
        let is_between = tasks.contains(one) && tasks.contains(other);
        match kind {
            _ if !is_between => None,
            // A connection that breaks by losses is noticed, and made anew, after their end.
            FaultKind::Loss { lasts, .. } => Some(*lasts + 2 * self.trial.cluster.faults.silence),
            FaultKind::Partition { lasts, .. } | FaultKind::OneWay { lasts, .. } => Some(*lasts),
            _ => None,
        }
    }

    /// How long those of the faults last that have a length by `lasts`. They count as one if they
    /// overlap, or follow each other within the time that a connection takes.
    fn spans(&self, lasts: impl Fn(&Fault) -> Option<Duration>) -> Vec<Duration> {
        const CONNECTING: Duration = Duration::from_millis(200);
        let span = |fault: &Fault| {
            let from = begins(fault);
            Some((from, from.after(lasts(fault)?).after(CONNECTING)))
        };
        let mut all: Vec<(Time, Time)> = self.faults.iter().filter_map(span).collect();
        all.sort();
        let mut merged: Vec<(Time, Time)> = Vec::new();
        for (from, to) in all {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged.into_iter().map(|(from, to)| to.since(from)).collect()
    }

    /// Whether the process of `task`, which is no parameter server, ends.
    pub(super) fn ends(&self, task: &TaskName) -> bool {
        self.stops_all() || self.deaths().any(|(dead, _)| dead == task)
    }

    /// Whether tasks may count each other as lost though neither has died.
    fn separates(&self) -> bool {
        self.apart(|_| true) >= self.trial.cluster.faults.silence
    }

    /// Whether `worker` may be unable to ask `chief`: that has died, or they have lost each other.
    pub(super) fn cuts_off(&self, worker: &TaskName, chief: Option<&TaskName>) -> bool {
        let is_theirs = |task: &TaskName| task == worker || Some(task) == chief;
        let has_died = chief.is_some_and(|chief| self.ends(chief));
        has_died || self.apart(is_theirs) >= self.trial.cluster.faults.silence
    }

    /// For how long in all those of the faults that are of meant tasks alone have tasks count each
    /// other as lost though neither has died.
    fn apart(&self, is_meant: impl Fn(&TaskName) -> bool) -> Duration {
        let is_of_them = |fault: &&Fault| fault.kind.tasks().iter().all(&is_meant);
        let apart = |fault: &Fault| match &fault.kind {
            FaultKind::Freeze { lasts, .. }
            | FaultKind::Partition { lasts, .. }
            | FaultKind::OneWay { lasts, .. } => *lasts,
            // It may break a connection, however short it is.
            FaultKind::Loss { .. } => self.trial.cluster.faults.silence,
            _ => Duration::ZERO,
        };
        self.faults.iter().filter(is_of_them).map(apart).sum()
    }

    /// Whether the training may lose what it has learnt, or a task that it can't go on without.
    fn may_end_it(&self) -> bool {
        if self.trial.settings.all_reduce.is_some() {
            return self.may_end_an_all_reduce();
        }
        let has_checkpoints = self.trial.has_checkpoints();
        self.deaths().any(|(task, restart_after)| match restart_after {
            None => self.is_needed(task),
            Some(_) => task.is_parameter_server() && !has_checkpoints,
        })
    }

    /// Whether an all-reduce may end: its chief dies for good, or is started again and waits for a
    /// helper that is not there; a parameter server, though idle, is asked to stop for good, which
    /// ends all tasks; or two helpers can't reach each other for long. Without any helper the
    /// others form anew.
    fn may_end_an_all_reduce(&self) -> bool {
        let chief = self.trial.cluster.spec.chief();
        let is_chief = |task: &TaskName| Some(task) == chief.as_ref();
        let chief_dies = self.deaths().any(|(task, _)| is_chief(task));
        let one_is_gone = || self.deaths().any(|(_, restart_after)| restart_after.is_none());
        let ends_all = |kind: &FaultKind| {
            let FaultKind::Stop { task, restart_after: None } = kind else { return false };
            task.is_parameter_server()
        };
        let helpers_part = || {
            self.outlasts_recovery(|fault, one, other| {
                self.cut(&fault.kind, one, other).filter(|_| !is_chief(one) && !is_chief(other))
            })
        };
        let waits = chief_dies && (one_is_gone() || self.parts_for_long());
        waits || self.has(ends_all) || helpers_part()
    }

    /// Whether two tasks, of which one needs the other, are apart for longer than a lost task is
    /// waited for.
    fn parts_for_long(&self) -> bool {
        self.outlasts_recovery(|fault, one, other| {
            let hits = fault.kind.tasks().iter().any(|task| task == one || task == other);
            match &fault.kind {
                FaultKind::Crash { .. } if hits => self.pause(fault),
                FaultKind::Stop { restart_after, .. } if hits => {
                    Some(STOP_GRACE + (*restart_after)?)
                }
                FaultKind::Freeze { lasts, .. } if hits => Some(*lasts),
                kind => self.cut(kind, one, other),
            }
        })
    }

    /// Whether faults that have a length by `apart`, of two tasks of which one needs the other,
    /// last longer than a lost task is waited for.
    fn outlasts_recovery(
        &self,
        apart: impl Fn(&Fault, &TaskName, &TaskName) -> Option<Duration>,
    ) -> bool {
        let tasks: Vec<TaskName> = self.trial.cluster.spec.tasks().collect();
        let recovery = self.trial.settings.patience.recovery;
        let is_long = |one, other| {
            let spans = || self.spans(|fault| apart(fault, one, other));
            self.need_each_other(one, other) && spans().iter().any(|span| *span >= recovery)
        };
        let mut pairs = tasks.iter().enumerate();
        pairs.any(|(at, one)| tasks[..at].iter().any(|other| is_long(one, other)))
    }

    /// Whether `one` or `other` may wait for the other: two workers don't, unless one is the chief,
    /// and an evaluator ends alone.
    fn need_each_other(&self, one: &TaskName, other: &TaskName) -> bool {
        let cluster = &self.trial.cluster.spec;
        let chief = cluster.chief();
        let roles = [one, other].map(|task| cluster.role(task));
        let are_workers = roles == [Role::Worker; 2];
        let has_chief = [one, other].into_iter().any(|task| Some(task) == chief.as_ref());
        !roles.contains(&Role::Evaluator) && (has_chief || !are_workers)
    }

    /// Whether the training can't go on without `task`: it holds variables, restores them, or
    /// helps a worker, whose program then fails.
    fn is_needed(&self, task: &TaskName) -> bool {
        let cluster = &self.trial.cluster.spec;
        let is_chief = cluster.chief().as_ref() == Some(task);
        let helps = cluster.role(task) == Role::Helper;
        task.is_parameter_server() || is_chief || helps || !cluster.has_parameter_servers()
    }

    /// Whether nobody may know of a dead worker: all parameter servers that have met it have died,
    /// too, before they gave it up, or all tasks are stopped; or of one that has ended: all are
    /// stopped, and the chief dies. It is waited for as one that has yet to come.
    fn forgets_a_worker(&self) -> bool {
        if !self.trial.cluster.spec.has_parameter_servers() {
            return false;
        }
        let chief = self.trial.cluster.spec.chief();
        if self.stops_all() && self.deaths().any(|(dead, _)| Some(dead) == chief.as_ref()) {
            return true;
        }
        let limit = self.trial.cluster.faults.silence + GRACE;
        let dies_by = |server: &TaskName, by: Time| {
            let is_it =
                |kind: &FaultKind| matches!(kind, FaultKind::Crash { task, .. } if task == server);
            self.faults.iter().any(|fault| is_it(&fault.kind) && begins(fault) <= by)
        };
        self.faults.iter().any(|fault| {
            let (FaultKind::Crash { task, restart_after: None }
            | FaultKind::Stop { task, restart_after: None }) = &fault.kind
            else {
                return false;
            };
            let tasks = self.trial.cluster.spec.tasks();
            let mut servers = tasks.filter(TaskName::is_parameter_server);
            let given_up = begins(fault).after(limit);
            let is_other = !task.is_parameter_server();
            is_other && (self.stops_all() || servers.all(|server| dies_by(&server, given_up)))
        })
    }

    /// Whether tokens wait for the gradients of a worker that is gone for good: no update is made
    /// without.
    fn lacks_gradients(&self) -> bool {
        let is_for_good =
            |(_, restart_after): (&TaskName, Option<Duration>)| restart_after.is_none();
        self.trial.settings.sync_replicas.is_some() && self.deaths().any(is_for_good)
    }

    /// Whether the weights have to be those of the undisturbed run, or the loss be told: each round
    /// is of all workers that are there, and the last one is the same.
    pub(super) fn keeps_weights(&self) -> bool {
        if self.has(is_stop) {
            return false; // workers that are asked to stop do not stop at the same round
        }
        let all_come_back = self.deaths().all(|(_, restart_after)| restart_after.is_some());
        let (stop, cluster) = (&self.trial.settings.stop, &self.trial.cluster.spec);
        let is_measured_beside = stop.accuracy.is_some() && cluster.evaluator().is_some();
        let ends_in_time = stop.time.is_some() || is_measured_beside;
        let dies = |worker: TaskName| self.ends(&worker);
        // The round in which all workers die at once counts though nobody has its answer.
        let may_all_die = cluster.workers().all(dies);
        let has_barrier = self.trial.mode.needs().is_barrier();
        // An all-reduce goes on without who is away for long.
        let leaves_out = self.trial.settings.all_reduce.is_some() && self.parts_for_long();
        let ends_alike = !ends_in_time && !may_all_die && !self.may_end_it() && !leaves_out;
        has_barrier && all_come_back && ends_alike
    }

    /// Whether the weights have to be those of the undisturbed run in any case: no worker dies.
    pub(super) fn is_exact(&self) -> bool {
        let one_dies = self.deaths().any(|(dead, _)| !dead.is_parameter_server());
        self.keeps_weights() && !self.separates() && !one_dies
    }

    /// A training ends early only where it has lost what it can't go on without, for good or for
    /// longer than it waits, and says whom.
    pub(super) fn check_error(&self, error: &Error, saved: &Saved, found: &mut Breaches) {
        let how = || error.to_string();
        let is_mutual = matches!(error.code, Code::Stalled | Code::Internal);
        found.unless(!is_mutual, Promise::Ends, how);
        if is_mutual {
            return;
        }
        let text = error.to_string();
        let mut victims = self.faults.iter().flat_map(|fault| fault.kind.tasks());
        let names_one = victims.any(|task| text.contains(&task.to_string()));
        let has_torn_all = self.has(is_tear) && saved.is_empty();
        let waits_in_vain = self.trial.settings.all_reduce.is_none() && self.parts_for_long();
        let is_excused = match error.code {
            Code::DeadlineExceeded if self.forgets_a_worker() || self.lacks_gradients() => true,
            Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => {
                self.may_end_it() || waits_in_vain || has_torn_all
            }
            Code::Unanswered => self.parts_for_long(),
            Code::VariablesLost => self.may_end_it() || saved.is_empty(),
            Code::WorkersLeft => true,
            Code::DataLoss => has_torn_all,
            // A place that can't be written to at the beginning ends the training at once.
            Code::Unwritable => self.has(is_full_disk) && saved.is_empty(),
            _ => false,
        };
        let is_of_all = error.code.is_of_storage() || self.stops_all() || self.lacks_gradients();
        let names_one = names_one || is_of_all;
        found.unless(names_one && is_excused, Promise::Explains, how);
    }
}

/// When a fault begins, as far as its trigger says.
fn begins(fault: &Fault) -> Time {
    fault.at.time().unwrap_or(Time::ZERO)
}

/// How long a fault lasts; a task that does not come back is gone at once.
fn lasts(kind: &FaultKind) -> Duration {
    let grace = if matches!(kind, FaultKind::Stop { .. }) { STOP_GRACE } else { Duration::ZERO };
    grace + kind.span().unwrap_or_default()
}

pub(super) fn is_tear(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::TornCheckpoint { .. })
}

fn is_stop(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Stop { .. })
}

/// Whether a process ends, so that another life of its task may begin.
pub(super) fn is_death(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Crash { .. }) || is_stop(kind)
}

pub(super) fn is_full_disk(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::FullDisk { .. })
}
