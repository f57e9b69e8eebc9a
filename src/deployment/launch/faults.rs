//! The faults that a launcher inflicts, and when: it kills processes (SIGKILL), asks them to stop
//! (SIGTERM), starts them again, has them stand still (SIGSTOP, then SIGCONT), disturbs the links
//! between them, and damages their checkpoints.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cluster::TaskName;
use crate::deployment::DeploymentError;
use crate::faults::{Fault, FaultKind, SkipReason};
use crate::units::Time;

/// Why a launcher can't inflict a fault of this `kind` on processes; none if it can. The training's
/// checkpoints are in a folder of this machine if `saves_in_folder`.
pub(crate) fn refusal(kind: &FaultKind, saves_in_folder: bool) -> Option<SkipReason> {
    match kind {
        FaultKind::FullDisk { .. } => Some(SkipReason::OnlySimulated),
        FaultKind::TornCheckpoint { .. } if !saves_in_folder => Some(SkipReason::NoFolder),
        _ => None,
    }
}

/// Whether `kind` has the process of `task` end and start again: a parameter server that is asked
/// to stop ends all others, too.
pub(super) fn restarts(kind: &FaultKind, task: &TaskName) -> bool {
    match kind {
        FaultKind::Crash { task: ended, restart_after: Some(_) } => ended == task,
        FaultKind::Stop { task: ended, restart_after: Some(_) } => {
            ended == task || ended.is_parameter_server()
        }
        _ => false,
    }
}

/// The time in which a slow process stands still once and goes on once.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// Something to do to the processes, by their indices, to the links or to the checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    /// Begins a fault.
    Begin(Fault),
    /// Starts a process that was killed, or has ended, again.
    Start { index: usize },
    /// Forgets whom a parameter server was to end: who still runs then has not heard of its stop.
    ForgetStops,
    /// Has the process with this number go on.
    Continue { index: usize, id: u32 },
    /// Begins the next period of a slow process.
    SlowOn { index: usize },
    /// Ends the disturbance of this number.
    Settle { number: usize },
}

/// What is still to be done, by time.
#[derive(Default)]
pub(super) struct Agenda {
    /// The faults, each with its time since the training begins, until it does.
    faults: Vec<(Duration, Deed)>,
    due: BTreeMap<(Time, usize), Deed>,
    added: usize,
}

impl Agenda {
    /// The agenda of those of `faults` that have a time, on the processes of `tasks`.
    pub(super) fn new(faults: &[Fault], tasks: &[TaskName]) -> Self {
        let known = |fault: &Fault| {
            let at = fault.at.time()?.since(Time::ZERO);
            let are_here = fault.kind.tasks().iter().all(|task| tasks.contains(task));
            are_here.then(|| (at, Deed::Begin(fault.clone())))
        };
        Self { faults: faults.iter().filter_map(known).collect(), ..Self::default() }
    }

    /// The training begins `now`; it begins once.
    pub(super) fn begin(&mut self, now: Time) {
        for (at, deed) in std::mem::take(&mut self.faults) {
            self.add(now.after(at), deed);
        }
    }

    /// Adds what is to be done `at` that time.
    pub(super) fn add(&mut self, at: Time, deed: Deed) {
        self.due.insert((at, self.added), deed);
        self.added += 1;
    }

    /// The time of the next deed.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Takes the next deed, if it is due at `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<Deed> {
        self.next().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, deed)| deed)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.due.is_empty()
    }

    /// Takes all that is left; returns the faults that had not begun.
    pub(super) fn clear(&mut self) -> Vec<Fault> {
        let faults = std::mem::take(&mut self.faults).into_iter().map(|(_, deed)| deed);
        let due = std::mem::take(&mut self.due).into_values();
        let begins = |deed| if let Deed::Begin(fault) = deed { Some(fault) } else { None };
        faults.chain(due).filter_map(begins).collect()
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
    use crate::faults::{Damage, Trigger};

    #[test]
    fn a_worker_that_is_to_stop_starts_again_alone_and_a_parameter_server_with_all_others() {
        let [server, worker, other] =
            [("ps", 0), ("worker", 0), ("worker", 1)].map(|(job, index)| TaskName::new(job, index));
        let stop = |task: &TaskName, restart_after| {
            let kind = FaultKind::Stop { task: task.clone(), restart_after };
            [&server, &worker, &other].map(|task| restarts(&kind, task))
        };
        let after = Some(Duration::from_secs(1));
        assert_eq!(stop(&worker, after), [false, true, false]);
        assert_eq!(stop(&server, after), [true; 3]);
        assert_eq!(stop(&server, None), [false; 3]);
    }

    #[test]
    fn faults_come_in_their_order_once_the_training_has_begun() {
        let tasks = [TaskName::new("ps", 0), TaskName::new("worker", 0)];
        let at = |seconds, kind| {
            let at = Trigger::Time(Time::ZERO.after(Duration::from_secs(seconds)));
            Fault { at, kind }
        };
        let lasts = Duration::from_secs(1);
        let kill = at(3, FaultKind::Crash { task: tasks[0].clone(), restart_after: None });
        let stop = at(1, FaultKind::Freeze { task: tasks[1].clone(), lasts });
        let elsewhere = at(2, FaultKind::Freeze { task: TaskName::new("worker", 1), lasts });
        let last = at(9, FaultKind::TornCheckpoint { damage: Damage::Cut });
        let faults = [kill.clone(), stop.clone(), elsewhere, last.clone()];
        let mut agenda = Agenda::new(&faults, &tasks);
        assert!(agenda.next().is_none() && !agenda.is_empty(), "it has not begun");
        let began = Time::ZERO.after(Duration::from_secs(10));
        agenda.begin(began);
        assert_eq!(agenda.take(began), None);
        let late = began.after(Duration::from_secs(5));
        assert_eq!(agenda.take(late), Some(Deed::Begin(stop)));
        assert_eq!(agenda.take(late), Some(Deed::Begin(kill)));
        assert_eq!(agenda.take(late), None);
        agenda.add(late, Deed::Settle { number: 5 });
        assert_eq!(agenda.clear(), [last], "the fault that the training did not come to");
        assert!(agenda.is_empty());
    }
}
