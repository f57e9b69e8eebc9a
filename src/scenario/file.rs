//! The file as a whole: its sections, and the checks between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::calibration::CalibrationFile;
use super::cluster::cluster_of_size;
use super::compute::ComputeFile;
use super::error::ScenarioError;
use super::fault::{FaultFile, Setting, faults};
use super::gpus::GpusFile;
use super::hardware::{HardwareSections, hardware};
use super::hosts::HostsFile;
use super::looks::{check_accuracy, check_evaluator};
use super::mistakes::Mistakes;
use super::network::NetworkFile;
use super::plan::{PlanFile, plan};
use super::program::{ProgramFile, Surroundings, program};
use super::replicas::{ReplicaFile, workers};
use super::run::{RunFile, runs};
use super::tasks::all_tasks;
use super::{Checkpoint, Scenario, Tasks, Tune, all_reduce};
use crate::cluster::TaskName;
use crate::kernels::Numerics;
use crate::report::plan::Price;
use crate::runtime::Patience;
use crate::simulation::{Faults, Gpus, Hosts};
use crate::training::{EvaluatorSettings, Settings, Stop};
use crate::units::Bytes;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScenarioFile {
    name: Option<String>,
    seed: u64,
    memory_limit: Option<Bytes>,
    cluster: Option<BTreeMap<String, Tasks>>,
    replicas: BTreeMap<String, ReplicaFile>,
    network: NetworkFile,
    compute: ComputeFile,
    program: ProgramFile,
    stop: Stop,
    pub(super) run: Option<Vec<RunFile>>,
    /// The names of the runs that are wanted, of which the file says nothing; empty for all.
    #[serde(skip)]
    pub(super) only: Vec<String>,
    fault: Vec<FaultFile>,
    checkpoint: Option<Checkpoint>,
    evaluator: Option<EvaluatorSettings>,
    hosts: Option<HostsFile>,
    gpus: BTreeMap<String, GpusFile>,
    calibration: Option<CalibrationFile>,
    tune: Option<Tune>,
    price: Option<Price>,
    plan: PlanFile,
}

/// Builds the scenario of `file`. `text` is the file as typed, to find lines in; none if `--set`
/// changed it.
pub(super) fn build(
    mut file: ScenarioFile,
    origin: &str,
    text: Option<&str>,
) -> Result<Scenario, ScenarioError> {
    let reduces = file.program.all_reduce.is_some();
    let (cluster, mut found) = cluster_of_size(file.cluster.take(), reduces, origin, text)?;
    let scenario = checked(file, origin, cluster, &mut found);
    found.settle(origin, text)?;
    Ok(scenario)
}

/// The scenario of `file`, on `cluster`; its mistakes are noted.
fn checked(
    file: ScenarioFile,
    origin: &str,
    cluster: BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> Scenario {
    let (algorithm, numerics) = (file.program.all_reduce, file.compute.numerics);
    let replicas = all_reduce::replicas(algorithm, &file.replicas, &cluster, found);
    let servers = cluster.get("ps").map_or(1, Tasks::count);
    let workers = workers(&cluster, &replicas);
    stop(&file.stop, found);
    if let Some(checkpoint) = &file.checkpoint {
        checkpoint.check(numerics, found);
    }
    let runs =
        runs(file.run, workers, file.network.compression, algorithm.is_some(), &file.only, found);
    let silence = file.network.silence.map_or(Faults::none().silence, Duration::from);
    let (has_checkpoints, time_limit) = (file.checkpoint.is_some(), file.stop.time);
    let setting = Setting { cluster: &cluster, has_checkpoints, seed: file.seed, time_limit };
    let faults = faults(file.fault, silence, &setting, found);
    let patience = patience(file.network.recovery.map(Duration::from), found);
    let read_ahead = file.network.read_ahead.unwrap_or(true);
    let has_evaluator_settings = file.evaluator.is_some();
    let ScenarioFile { network, compute, hosts, gpus, calibration, .. } = file;
    let sections = HardwareSections { network, compute, hosts, gpus, calibration };
    let hardware = hardware(sections, origin, &cluster, found);
    let surroundings = Surroundings {
        servers,
        workers,
        all_reduce: all_reduce::settings(algorithm, &replicas, &hardware, &cluster),
        batches: all_reduce::batches(algorithm, &replicas),
        rate: hardware.compute.rate,
        stop: file.stop,
        evaluator: file.evaluator.unwrap_or_default(),
        patience,
        read_ahead,
    };
    let (settings, dataset) = program(file.program, origin, surroundings, found);
    all_reduce::check(algorithm, &replicas, &settings, found);
    check_cores(&settings, hardware.hosts.as_ref(), found);
    check_towers(&settings, &hardware.gpus, &cluster, found);
    let (measures, learns) = (settings.model.has_accuracy(), settings.model.has_data());
    let checkpoint = file.checkpoint.as_ref();
    check_evaluator(&cluster, has_evaluator_settings, checkpoint, measures, found);
    check_accuracy(&settings.stop, measures, numerics, cluster.contains_key("evaluator"), found);
    Scenario {
        name: name(file.name, origin, found),
        seed: file.seed,
        memory_limit: file.memory_limit,
        hardware,
        faults,
        numerics,
        settings,
        dataset,
        checkpoint: file.checkpoint,
        tune: Tune::checked(file.tune, learns && numerics == Numerics::Real, found),
        plan: plan(file.plan, file.price, &cluster, found),
        runs,
        replicas,
        cluster,
    }
}

/// How long tasks wait for one another, by `network.recovery`.
fn patience(recovery: Option<Duration>, found: &mut Mistakes) -> Patience {
    let Some(recovery) = recovery else { return Patience::default() };
    found.above_0(recovery.as_secs_f64(), "network.recovery");
    Patience::new(recovery)
}

/// The name that is given, or that of the file.
fn name(given: Option<String>, origin: &str, found: &mut Mistakes) -> String {
    if let Some(name) = &given {
        found.printable(name, "name");
    }
    given.unwrap_or_else(|| stem(origin))
}

fn stem(origin: &str) -> String {
    Path::new(origin)
        .file_stem()
        .map_or_else(|| origin.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Checks that the cores of a task are known where its kernels are to spread over some.
fn check_cores(program: &Settings, hosts: Option<&Hosts>, found: &mut Mistakes) {
    let is_known = hosts.is_some() || program.num_cores.is_none();
    found.unless(is_known, "program.num_cores", || {
        "how many cores a simulated task has is not known; give `[hosts]`, which says so".to_owned()
    });
}

/// Checks that each worker has the accelerators that its towers ask for.
fn check_towers(
    program: &Settings,
    gpus: &BTreeMap<TaskName, Gpus>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) {
    if program.towers <= 1 || program.allow_soft_placement {
        return;
    }
    let count = |task: &TaskName| gpus.get(task).map_or(0, |gpus| gpus.count.get() as usize);
    let mut workers = all_tasks(cluster).filter(TaskName::is_of_workers);
    if let Some(task) = workers.find(|task| count(task) < program.towers) {
        let (job, wanted) = (task.job(), program.towers);
        let why = format!(
            "{wanted} towers ask for {wanted} GPUs, and {task} has {}; give \
             `[gpus.{job}] count = {wanted}`, or set `program.allow_soft_placement = true`",
            count(&task)
        );
        found.note("program.towers", why);
    }
}

fn stop(stop: &Stop, found: &mut Mistakes) {
    for (key, text) in stop.mistakes() {
        let dot = if key.is_empty() { "" } else { "." };
        found.note(format!("stop{dot}{key}"), text);
    }
}
