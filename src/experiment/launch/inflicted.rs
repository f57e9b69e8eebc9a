//! The faults of a scenario as a launcher inflicts them on processes.

use super::super::Trial;
use super::super::scenario::written_fault;
use crate::cluster::TaskName;
use crate::deployment::{Disturbance, ProcessFault, ProcessFaultKind};
use crate::report::SkippedFault;
use crate::simulation::{Fault, FaultKind, NetworkSpec, SkipReason, Trigger};
use crate::units::Time;

/// Whether a launcher can inflict faults of this kind on the processes of `trial`.
pub(in crate::experiment) fn can_inflict(trial: &Trial, kind: &FaultKind) -> bool {
    match kind {
        FaultKind::FullDisk { .. } => false,
        FaultKind::TornCheckpoint { .. } => trial.checkpoint_folder().is_some(),
        _ => true,
    }
}

/// The faults of `trial` that a launcher can inflict on its processes; it tells of the others,
/// which are left out.
pub(super) fn faults_of_processes(trial: &Trial, tell: fn(&str)) -> Vec<ProcessFault> {
    let inflicted = |(number, fault): (usize, &Fault)| {
        let Trigger::Time(at) = fault.at else { return None };
        if !can_inflict(trial, &fault.kind) {
            let text = written_fault(fault);
            tell(&format!("fault left out, which `launch` can't inflict on processes: {text}"));
            return None;
        }
        let kind = of_processes(&fault.kind, &trial.cluster.hardware.network)?;
        Some(ProcessFault { number, at: at.since(Time::ZERO), kind })
    };
    trial.cluster.faults.list.iter().enumerate().filter_map(inflicted).collect()
}

/// The faults of `trial` that did not happen: those that a launcher can't inflict, and the
/// `skipped` ones, by their numbers.
pub(super) fn skipped_faults(trial: &Trial, skipped: &[(usize, SkipReason)]) -> Vec<SkippedFault> {
    let faults = &trial.cluster.faults.list;
    let left_out = faults.iter().filter(|fault| !can_inflict(trial, &fault.kind));
    let left_out =
        left_out.map(|fault| (fault, "a launch can't inflict it on processes".to_owned()));
    let skipped = skipped.iter().map(|(number, why)| (&faults[*number], why.to_string()));
    left_out
        .chain(skipped)
        .map(|(fault, why)| SkippedFault::new(written_fault(fault), why))
        .collect()
}

/// The fault of processes that is `kind`; a link that is slow is one of `network`.
fn of_processes(kind: &FaultKind, network: &NetworkSpec) -> Option<ProcessFaultKind> {
    let disturb = |ways, how, lasts: &_| ProcessFaultKind::Disturb { ways, how, lasts: *lasts };
    Some(match kind {
        FaultKind::Crash { task, restart_after } => {
            ProcessFaultKind::Kill { task: task.clone(), restart_after: *restart_after }
        }
        FaultKind::Freeze { task, lasts } => {
            ProcessFaultKind::Stop { task: task.clone(), lasts: *lasts }
        }
        FaultKind::SlowTask { task, factor, lasts } => {
            ProcessFaultKind::Slow { task: task.clone(), factor: *factor, lasts: *lasts }
        }
        FaultKind::Partition { tasks, lasts } => disturb(ways(tasks), Disturbance::Cut, lasts),
        FaultKind::OneWay { from, to, lasts } => {
            disturb(vec![(from.clone(), to.clone())], Disturbance::Cut, lasts)
        }
        FaultKind::Loss { tasks, rate, lasts } => {
            disturb(ways(tasks), Disturbance::Loses(*rate), lasts)
        }
        FaultKind::SlowLink { tasks, factor, lasts } => {
            let (latency, rate) = (network.latency, network.bandwidth.0);
            disturb(ways(tasks), Disturbance::Slow { latency, rate, factor: *factor }, lasts)
        }
        FaultKind::TornCheckpoint { damage } => ProcessFaultKind::Damage(*damage),
        FaultKind::FullDisk { .. } => return None,
    })
}

/// From each of `tasks` to each other.
fn ways(tasks: &[TaskName]) -> Vec<(TaskName, TaskName)> {
    let from = |one: &TaskName| {
        let others = tasks.iter().filter(|other| *other != one);
        others.map(|other| (one.clone(), other.clone())).collect::<Vec<_>>()
    };
    tasks.iter().flat_map(from).collect()
}
