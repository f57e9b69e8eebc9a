//! The faults that a launcher inflicts: it kills processes, starts them again and has them stand
//! still, disturbs the links between them, and damages their checkpoints.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::relay::Disturbance;
use crate::cluster::TaskName;
use crate::deployment::DeploymentError;
use crate::faults::Damage;
use crate::units::Time;

/// A fault of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessFault {
    /// Its place in the scenario's list, from 0.
    pub(crate) number: usize,
    /// The time since the chief has started.
    pub(crate) at: Duration,
    pub(crate) kind: ProcessFaultKind,
}

/// What a fault does to processes and their links; a `Process` is a task's name, or its index in a
/// launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProcessFaultKind<Process = TaskName> {
    /// A process is killed (SIGKILL), and started again after this time, if any.
    Kill { task: Process, restart_after: Option<Duration> },
    /// A process stands still for this time (SIGSTOP, then SIGCONT).
    Stop { task: Process, lasts: Duration },
    /// A process stands still for a part of each [`PERIOD`]: all takes `factor` times as long, and
    /// the product of the factors where several such faults overlap.
    Slow { task: Process, factor: f64, lasts: Duration },
    /// What goes from the first of each of these pairs to the second is disturbed for this time.
    Disturb { ways: Vec<(Process, Process)>, how: Disturbance, lasts: Duration },
    /// The file of the checkpoints that was written last is damaged.
    Damage(Damage),
}

impl ProcessFault {
    /// Whether the process of `task` is started again.
    pub(super) fn restarts(&self, task: &TaskName) -> bool {
        let ProcessFaultKind::Kill { task: killed, restart_after } = &self.kind else {
            return false;
        };
        killed == task && restart_after.is_some()
    }

    /// Whether a link is disturbed.
    pub(super) fn is_of_links(&self) -> bool {
        matches!(self.kind, ProcessFaultKind::Disturb { .. })
    }
}

/// The time in which a slow process stands still once and goes on once.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

impl ProcessFaultKind {
    /// The same, with each task that it names as its index in `tasks`; `None` if one of them is not
    /// in `tasks`.
    fn among(&self, tasks: &[TaskName]) -> Option<ProcessFaultKind<usize>> {
        use ProcessFaultKind::{Damage, Disturb, Kill, Slow, Stop};
        let index = |task: &TaskName| tasks.iter().position(|one| one == task);
        Some(match self {
            Self::Kill { task, restart_after } => {
                Kill { task: index(task)?, restart_after: *restart_after }
            }
            Self::Stop { task, lasts } => Stop { task: index(task)?, lasts: *lasts },
            Self::Slow { task, factor, lasts } => {
                Slow { task: index(task)?, factor: *factor, lasts: *lasts }
            }
            Self::Disturb { ways, how, lasts } => {
                let known = |(from, to): &(TaskName, TaskName)| Some((index(from)?, index(to)?));
                let ways = ways.iter().filter_map(known).collect();
                Disturb { ways, how: *how, lasts: *lasts }
            }
            Self::Damage(damage) => Damage(*damage),
        })
    }
}

/// Something to do to the processes, by their indices, to the links or to the checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    /// Begins a fault.
    Begin(ProcessFaultKind<usize>),
    /// Starts a process that was killed, or has ended, again.
    Start { index: usize },
    /// Has the process with this number go on.
    Continue { index: usize, id: u32 },
    /// Begins the next period of a slow process.
    SlowOn { index: usize },
    /// Ends the disturbance of this number.
    Settle { number: usize },
}

/// A deed to come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Due {
    pub(super) deed: Deed,
    /// The number of the fault that it is the beginning of; none if that has begun.
    pub(super) begins: Option<usize>,
}

/// What is still to be done, by time.
#[derive(Default)]
pub(super) struct Agenda {
    /// The faults, each with its time since the training begins, until it does.
    faults: Vec<(Duration, Due)>,
    due: BTreeMap<(Time, usize), Due>,
    added: usize,
}

impl Agenda {
    /// The agenda of `faults` on the processes of `tasks`.
    pub(super) fn new(faults: &[ProcessFault], tasks: &[TaskName]) -> Self {
        let known = |fault: &ProcessFault| {
            let deed = Deed::Begin(fault.kind.among(tasks)?);
            let due = Due { deed, begins: Some(fault.number) };
            Some((fault.at, due))
        };
        Self { faults: faults.iter().filter_map(known).collect(), ..Self::default() }
    }

    /// The training begins `now`; it begins once.
    pub(super) fn begin(&mut self, now: Time) {
        for (at, due) in std::mem::take(&mut self.faults) {
            self.insert(now.after(at), due);
        }
    }

    /// Adds what a fault that has begun does `at` that time.
    pub(super) fn add(&mut self, at: Time, deed: Deed) {
        self.insert(at, Due { deed, begins: None });
    }

    fn insert(&mut self, at: Time, due: Due) {
        self.due.insert((at, self.added), due);
        self.added += 1;
    }

    /// The time of the next deed.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Takes the next deed, if it is due at `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<Due> {
        self.next().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, due)| due)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.due.is_empty()
    }

    /// Takes all that is left; returns the numbers of the faults that had not begun.
    pub(super) fn clear(&mut self) -> Vec<usize> {
        let faults = std::mem::take(&mut self.faults).into_iter().map(|(_, due)| due);
        let due = std::mem::take(&mut self.due).into_values();
        faults.chain(due).filter_map(|due| due.begins).collect()
    }
}

/// Sends the signal `name` to the process `id`.
///
/// # Errors
/// If there is no `kill` on this machine.
pub(super) fn signal(name: &str, id: u32) -> Result<(), DeploymentError> {
    let mut kill = Command::new("kill");
    kill.args([format!("-{name}"), id.to_string()]).stderr(Stdio::null());
    let sent = kill.status().map_err(DeploymentError::system("send a signal with `kill`"))?;
    if !sent.success() {
        tracing::debug!(id, name, "the process is gone already");
    }
    Ok(())
}

/// Kills the process `id`, which leads a group of its own, and all that it has started.
pub(super) fn kill_group(id: u32) {
    let mut kill = Command::new("kill");
    kill.args(["-KILL", "--", &format!("-{id}")]).stderr(Stdio::null());
    match kill.status() {
        Ok(sent) if sent.success() => {}
        Ok(_) => tracing::debug!(id, "the processes are gone already"),
        Err(error) => tracing::warn!(id, %error, "what the task has started may go on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_their_order_once_the_training_has_begun() {
        let tasks = [TaskName::new("ps", 0), TaskName::new("worker", 0)];
        let at = |seconds, kind| ProcessFault {
            number: seconds as usize,
            at: Duration::from_secs(seconds),
            kind,
        };
        let lasts = Duration::from_secs(1);
        let kill = ProcessFaultKind::Kill { task: tasks[0].clone(), restart_after: None };
        let stop = ProcessFaultKind::Stop { task: tasks[1].clone(), lasts };
        let elsewhere = ProcessFaultKind::Stop { task: TaskName::new("worker", 1), lasts };
        let last = ProcessFaultKind::Damage(Damage::Cut);
        let faults = [at(3, kill), at(1, stop), at(2, elsewhere), at(9, last)];
        let mut agenda = Agenda::new(&faults, &tasks);
        assert!(agenda.next().is_none() && !agenda.is_empty(), "it has not begun");
        let began = Time::ZERO.after(Duration::from_secs(10));
        agenda.begin(began);
        assert_eq!(agenda.take(began), None);
        let late = began.after(Duration::from_secs(5));
        let due = |begins, kind| Some(Due { deed: Deed::Begin(kind), begins: Some(begins) });
        assert_eq!(agenda.take(late), due(1, ProcessFaultKind::Stop { task: 1, lasts }));
        let kill = ProcessFaultKind::Kill { task: 0, restart_after: None };
        assert_eq!(agenda.take(late), due(3, kill));
        assert_eq!(agenda.take(late), None);
        agenda.add(late, Deed::Settle { number: 5 });
        assert_eq!(agenda.clear(), [9], "the fault that the training did not come to");
        assert!(agenda.is_empty());
    }
}
