//! Which faults of a scenario a launcher inflicts on processes.

use super::super::Trial;
use crate::deployment::refusal;
use crate::scenario::written_fault;
use crate::simulation::{Fault, FaultKind, SkipReason, SkippedFault};

/// Whether a launcher can inflict faults of this kind on the processes of `trial`.
pub(crate) fn can_inflict(trial: &Trial, kind: &FaultKind) -> bool {
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
    let mut told: Option<&FaultKind> = None;
    for fault in left_out {
        if told.replace(&fault.kind) == Some(&fault.kind) {
            continue; // a law draws it again
        }
        let text = written_fault(fault);
        tell(&format!("fault left out, which `launch` can't inflict on processes: {text}"));
    }
    inflicted.into_iter().cloned().collect()
}

/// The faults of `trial` that did not happen: those that a launcher can't inflict, and the
/// `skipped` ones.
pub(super) fn skipped_faults(trial: &Trial, skipped: Vec<SkippedFault>) -> Vec<SkippedFault> {
    let left_out = trial.cluster.faults.list.iter().filter_map(|fault| {
        let why = refused(trial, &fault.kind)?;
        Some(SkippedFault { fault: fault.clone(), why })
    });
    left_out.chain(skipped).collect()
}
