//! Which faults of a scenario a launcher inflicts on processes.

use super::super::Trial;
use super::super::scenario::written_fault;
use crate::deployment::refusal;
use crate::report::SkippedFaultText;
use crate::simulation::{self, Fault, FaultKind, SkipReason};

/// Whether a launcher can inflict faults of this kind on the processes of `trial`.
pub(in crate::experiment) fn can_inflict(trial: &Trial, kind: &FaultKind) -> bool {
    refused(trial, kind).is_none()
}

fn refused(trial: &Trial, kind: &FaultKind) -> Option<SkipReason> {
    refusal(kind, trial.checkpoint_folder().is_some())
}

/// The faults of `trial` that a launcher can inflict on its processes; it tells of the others,
/// which are left out.
pub(super) fn faults_of_processes(trial: &Trial, tell: fn(&str)) -> Vec<Fault> {
    let (inflicted, left_out): (Vec<_>, Vec<_>) =
        trial.cluster.faults.list.iter().partition(|fault| can_inflict(trial, &fault.kind));
    for fault in left_out {
        let text = written_fault(fault);
        tell(&format!("fault left out, which `launch` can't inflict on processes: {text}"));
    }
    inflicted.into_iter().cloned().collect()
}

/// The faults of `trial` that did not happen: those that a launcher can't inflict, and the
/// `skipped` ones.
pub(super) fn skipped_faults(
    trial: &Trial,
    skipped: &[simulation::SkippedFault],
) -> Vec<SkippedFaultText> {
    let left_out = trial.cluster.faults.list.iter().filter_map(|fault| {
        let why = refused(trial, &fault.kind)?;
        Some(simulation::SkippedFault { fault: fault.clone(), why })
    });
    let left_out: Vec<_> = left_out.collect();
    left_out.iter().chain(skipped).map(super::super::observed::skipped).collect()
}
