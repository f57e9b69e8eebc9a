//! The faults that a launcher inflicts on its processes: it kills them, starts them again, and has
//! them stand still.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cluster::TaskName;
use crate::deployment::DeploymentError;
use crate::units::Time;

/// A fault of one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessFault {
    /// The time since the chief has started.
    pub(crate) at: Duration,
    /// The process's task.
    pub(crate) task: TaskName,
    pub(crate) kind: ProcessFaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ProcessFaultKind {
    /// It is killed (SIGKILL), and started again after this time, if any.
    Kill { restart_after: Option<Duration> },
    /// It stands still for this time (SIGSTOP, then SIGCONT).
    Stop { lasts: Duration },
}

impl ProcessFault {
    /// Whether the process is started again.
    pub(super) fn restarts(&self) -> bool {
        matches!(self.kind, ProcessFaultKind::Kill { restart_after: Some(_) })
    }
}

/// Something to do to the process of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Deed {
    Kill { restart_after: Option<Duration> },
    Start,
    Stop { lasts: Duration },
    Continue,
}

/// What is still to be done to the processes, by time.
#[derive(Default)]
pub(super) struct Agenda {
    /// The faults, with their processes' indices, until the training begins.
    faults: Vec<(usize, ProcessFault)>,
    due: BTreeMap<(Time, usize), (usize, Deed)>,
    added: usize,
}

impl Agenda {
    /// The agenda of `faults` on the processes of `tasks`.
    pub(super) fn new(faults: &[ProcessFault], tasks: &[TaskName]) -> Self {
        let index = |fault: &ProcessFault| tasks.iter().position(|task| *task == fault.task);
        let known = |fault: &ProcessFault| Some((index(fault)?, fault.clone()));
        Self { faults: faults.iter().filter_map(known).collect(), ..Self::default() }
    }

    /// The training begins `now`; it begins once.
    pub(super) fn begin(&mut self, now: Time) {
        for (index, fault) in std::mem::take(&mut self.faults) {
            let deed = match fault.kind {
                ProcessFaultKind::Kill { restart_after } => Deed::Kill { restart_after },
                ProcessFaultKind::Stop { lasts } => Deed::Stop { lasts },
            };
            self.add(now.after(fault.at), index, deed);
        }
    }

    pub(super) fn add(&mut self, at: Time, index: usize, deed: Deed) {
        self.due.insert((at, self.added), (index, deed));
        self.added += 1;
    }

    /// The time of the next deed.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Takes the next deed, if it is due at `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<(usize, Deed)> {
        self.next().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, deed)| deed)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.due.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.faults.clear();
        self.due.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_their_order_once_the_training_has_begun() {
        let tasks = [TaskName::new("ps", 0), TaskName::new("worker", 0)];
        let at = |seconds, task: &TaskName, kind| ProcessFault {
            at: Duration::from_secs(seconds),
            task: task.clone(),
            kind,
        };
        let (lasts, kill) =
            (Duration::from_secs(1), ProcessFaultKind::Kill { restart_after: None });
        let faults = [at(3, &tasks[0], kill), at(1, &tasks[1], ProcessFaultKind::Stop { lasts })];
        let mut agenda = Agenda::new(&faults, &tasks);
        assert!(agenda.next().is_none() && !agenda.is_empty(), "it has not begun");
        let began = Time::ZERO.after(Duration::from_secs(10));
        agenda.begin(began);
        assert_eq!(agenda.take(began), None);
        let late = began.after(Duration::from_secs(5));
        assert_eq!(agenda.take(late), Some((1, Deed::Stop { lasts })));
        assert_eq!(agenda.take(late), Some((0, Deed::Kill { restart_after: None })));
        assert!(agenda.is_empty());
    }
}
