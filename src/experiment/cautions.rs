//! Cautions: settings that do nothing in the runs that have them, or cost what their author may not
//! know, and data that are odd. What is not certain is not said: a false alarm would hide the true
//! ones.

mod hardware;
mod rates;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::Trial;
use super::memory::extent;
use crate::cluster::{Role, TaskName};
use crate::graph::Partitioner;
use crate::models::Model;
use crate::report::World;
use crate::training::AllReduceKind;
use hardware::{cost_of_no_stop, idle_devices, idle_gpus, no_kernels, one_rack};
use rates::{beyond, boundary_beyond, rate_of_zero, warm_up_beyond};

/// What to say of a run; none if there is nothing.
type Caution = fn(&Trial) -> Option<String>;

/// Of a run by the built-in trainer.
const OF_A_RUN: [Caution; 5] =
    [rate_of_zero, boundary_beyond, warm_up_beyond, look_beyond, unchanged];
/// Of all runs by the built-in trainer: what one of them needs is meant for that one.
const OF_ALL: [Caution; 3] = [idle_job, idle_servers, whole_variables];
/// Of all its runs in a simulation. A deployment has other hardware than the scenario's.
const OF_HARDWARE: [Caution; 4] = [idle_gpus, idle_devices, cost_of_no_stop, one_rack];

/// The longest run whose steps are counted here: products of its steps fit their integers.
const LONGEST: u64 = 1 << 31;

/// What to say of `trials`, which are all runs of a command in `world`, before they begin.
/// `is_built_in`: whether the built-in trainer is their program; another reads what it likes.
pub(crate) fn cautions(trials: &[Trial], world: World, is_built_in: bool) -> BTreeSet<String> {
    let mut of_a_run: Vec<Caution> = vec![uneven_tree];
    let mut of_all: Vec<Caution> = Vec::new();
    if world == World::Simulation {
        of_a_run.push(no_kernels);
    }
    if is_built_in {
        of_a_run.extend(OF_A_RUN);
        of_all.extend(OF_ALL);
        if world == World::Simulation {
            of_all.extend(OF_HARDWARE);
        }
    }
    let mut said: BTreeSet<String> = trials.iter().flat_map(Trial::cautions_of_data).collect();
    for trial in trials {
        let of_it = of_a_run.iter().filter_map(|caution| caution(trial));
        said.extend(of_it.map(|what| format!("run `{}`: {what}", trial.run_name())));
    }
    for caution in of_all {
        let of_each: Option<Vec<String>> = trials.iter().map(caution).collect();
        said.extend(of_each.and_then(|all| all.into_iter().next()));
    }
    said
}

/// A tree of towers that are no power of two.
fn uneven_tree(trial: &Trial) -> Option<String> {
    let reduce = trial.settings.all_reduce.as_ref()?;
    let tasks = trial.cluster.spec.tasks().filter(TaskName::is_of_workers).count();
    let towers = tasks * trial.settings.towers;
    let is_odd = reduce.algorithm == AllReduceKind::Tree && !towers.is_power_of_two();
    is_odd.then(|| {
        format!(
            "`all_reduce = \"tree\"` of {towers} towers, no power of two, sends whole gradients \
             before and after its rounds, which takes 2 to 3 times as long as `\"ring\"` or \
             `\"shuffle\"`; take one of those, or {} towers",
            towers.next_power_of_two()
        )
    })
}

/// A first look at the test split that comes after the end.
fn look_beyond(trial: &Trial) -> Option<String> {
    let stop = &trial.settings.stop;
    let workers = trial.cluster.spec.workers().count() as u32;
    let (key, every, of_a_step) = match (stop.evaluate_every, stop.evaluate_every_samples) {
        (Some(steps), _) => ("evaluate_every", steps, 1),
        (None, Some(samples)) => {
            let of_a_step = trial.settings.samples_of_a_step(trial.mode, workers);
            ("evaluate_every_samples", samples, of_a_step)
        }
        (None, None) => return None,
    };
    let limit = stop.steps.filter(|limit| *limit <= LONGEST)?;
    let is_never = beyond(trial, limit).saturating_mul(of_a_step) < every;
    let chief_looks = trial.cluster.spec.evaluator().is_none();
    (is_never && chief_looks).then(|| {
        let samples = match of_a_step {
            1 => String::new(),
            samples => format!(" of {samples} samples"),
        };
        format!(
            "`stop.{key} = {every}` has no effect: the run has {limit} global steps{samples} at \
             most, so the test split is looked at only at the end"
        )
    })
}

/// Variables of an imported graph that nothing changes in a training by the gradients of its loss.
fn unchanged(trial: &Trial) -> Option<String> {
    /// The most names that are said.
    const MOST: usize = 3;
    let Model::GraphDef(file) = &trial.settings.model else { return None };
    let (named, others) = file.unchanged.split_at(file.unchanged.len().min(MOST));
    if file.train.is_some() || named.is_empty() {
        return None;
    }
    let named: Vec<String> = named.iter().map(|name| format!("`{name}`")).collect();
    let more = if others.is_empty() { String::new() } else { format!(", {} more", others.len()) };
    Some(format!(
        "the variables {}{more} keep their first values: `loss` or `accuracy` reads them, and the \
         operations of the graph that change them do not run, since with `program.optimizer` only \
         the gradients of `loss` do; name the graph's own operation by `program.train`, or values \
         that don't read them",
        named.join(", ")
    ))
}

/// A job whose tasks host nothing. The operations of an imported graph name their devices.
fn idle_job(trial: &Trial) -> Option<String> {
    let names_devices = matches!(trial.settings.model, Model::GraphDef(_));
    let idle = trial.cluster.spec.tasks().find(|task| task.role() == Role::Helper);
    let job = idle.filter(|_| !names_devices)?;
    Some(format!(
        "the tasks of the job `{}` do nothing: the built-in trainer has work for `worker`, \
         `chief`, `master`, `ps` and `evaluator`; only a program of your own can place operations \
         on others",
        job.job()
    ))
}

/// Parameter servers of a training by all-reduce.
fn idle_servers(trial: &Trial) -> Option<String> {
    let has_servers = trial.cluster.spec.tasks().any(|task| task.is_parameter_server());
    (has_servers && trial.settings.all_reduce.is_some()).then(|| {
        "the tasks of the job `ps` do nothing: in a training by `program.all_reduce` the workers \
         hold the variables; leave them out, by `--unset cluster.ps`"
            .to_owned()
    })
}

/// A partitioner that cuts nothing, as all variables together are no larger than one shard.
fn whole_variables(trial: &Trial) -> Option<String> {
    let (key, shard) = match trial.settings.partitioner? {
        Partitioner::FixedSize(_) => return None,
        Partitioner::MinMax { min_slice_bytes, .. } => ("min_max.min_slice", min_slice_bytes),
        Partitioner::VariableAxisSize { max_shard_bytes, .. } => {
            ("variable_axis_size.max_shard", max_shard_bytes)
        }
    };
    let all = 4.0 * extent(trial).parameters;
    let is_whole = all > 0.0 && all <= shard as f64;
    is_whole.then(|| {
        format!(
            "`program.partitioner` cuts nothing: all variables together have {all} bytes, and one \
             shard may have {shard} (`{key}`)"
        )
    })
}
