//! Simulated hardware that a run leaves idle.

use crate::experiment::Trial;
use crate::models::Model;
use crate::simulation::{ComputeSpec, Law};
use crate::sync::Mode;
use crate::training::AllReduceKind;

/// A lognormal law of kernels whose median is a lesser share of its mean is no law of stragglers.
const HARDLY_ANY: f64 = 1e-3;

/// A lognormal law by which kernels take next to no time.
pub(super) fn no_kernels(trial: &Trial) -> Option<String> {
    trial.cluster.hardware.all_compute().find_map(|compute| {
        let Law::Lognormal { sigma, .. } =
            *compute.straggler.as_ref().or(compute.step_time.as_ref())?
        else {
            return None;
        };
        let median = (-sigma * sigma / 2.0).exp();
        (median < HARDLY_ANY).then(|| {
            format!(
                "with `sigma = {sigma}` half of a lognormal law's draws are below {median:.0e} of \
                 its mean: but for very few, kernels take next to no time; a `sigma` of 0.2 to 1 \
                 is usual"
            )
        })
    })
}

/// Accelerators that no tower is on, of a model that can have towers.
pub(super) fn idle_gpus(trial: &Trial) -> Option<String> {
    let towers = trial.settings.towers;
    let mut gpus = trial.cluster.hardware.gpus.iter();
    let (task, gpus) =
        gpus.find(|(task, gpus)| task.is_of_workers() && gpus.count.get() as usize > towers)?;
    let settings = &trial.settings;
    let is_imported = matches!(settings.model, Model::GraphDef(_));
    let may_have_more =
        settings.model.has_data() && !is_imported && settings.sync_replicas.is_none();
    may_have_more.then(|| {
        format!(
            "{task} has {count} GPUs, and the built-in trainer computes on {towers} of them: \
             `program.towers = {count}` shares a worker's batch out to all",
            count = gpus.count
        )
    })
}

/// Processor devices that no operation is placed on.
pub(super) fn idle_devices(trial: &Trial) -> Option<String> {
    let devices = trial.cluster.hardware.devices.get();
    let names_devices = matches!(trial.settings.model, Model::GraphDef(_));
    (devices > 1 && !names_devices).then(|| {
        format!(
            "`compute.devices = {devices}` has no effect: the built-in trainer computes on the \
             first device of each task; only a program of your own can place operations on others"
        )
    })
}

/// What stopping a step costs, where no step is stopped. Faults may stop any.
pub(super) fn cost_of_no_stop(trial: &Trial) -> Option<String> {
    let mut all = trial.cluster.hardware.all_compute();
    let costs = all.any(|ComputeSpec { stop_cost, .. }| !stop_cost.is_zero());
    let stops = matches!(
        trial.mode,
        Mode::Sync { cancel: true, .. } | Mode::KBatchSync { cancel: true, .. }
    );
    (costs && !stops && trial.cluster.faults.list.is_empty()).then(|| {
        "`stop_cost` has no effect: no step is stopped, as no run's mode has `cancel = true` and \
         there are no faults"
            .to_owned()
    })
}

/// Racks of which all hosts are in the first. The groups of a hierarchical all-reduce are racks.
pub(super) fn one_rack(trial: &Trial) -> Option<String> {
    let racks = trial.cluster.hardware.network.racks.as_ref()?;
    let reduce = trial.settings.all_reduce.as_ref();
    let groups = reduce.is_some_and(|of| of.algorithm == AllReduceKind::Hierarchical);
    let tasks = trial.cluster.spec.tasks().count();
    let hosts = match &trial.cluster.hardware.hosts {
        None => tasks,
        Some(hosts) => {
            let listed: usize = hosts.tasks.iter().map(Vec::len).sum();
            hosts.tasks.len() + tasks.saturating_sub(listed)
        }
    };
    let per_rack = racks.hosts_per_rack;
    (hosts <= per_rack && !groups).then(|| {
        format!(
            "`network.racks` has no effect: all {hosts} hosts are in one rack of {per_rack} \
             (`hosts_per_rack`), and uplinks are between racks"
        )
    })
}
