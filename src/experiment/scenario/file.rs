//! The file as a whole: its sections, and the checks between them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::calibration::{CalibrationFile, calibration};
use super::compute::{ComputeFile, compute, devices, own_compute, slow};
use super::error::{ScenarioError, most_like};
use super::fault::{FaultFile, Setting, faults};
use super::gpus::{GpusFile, gpus};
use super::hosts::{HostsFile, hosts};
use super::looks::{check_accuracy, check_evaluator};
use super::mistakes::Mistakes;
use super::network::{NetworkFile, check_cards, network};
use super::plan::{PlanFile, plan};
use super::program::{LayerTable, ProgramFile, program};
use super::replicas::{ReplicaFile, workers};
use super::run::{RunFile, runs};
use super::synonyms;
use super::{Calibration, Checkpoint, Scenario, Tasks, Tune, all_reduce};
use crate::cluster::{Endpoint, TaskName, parse_address};
use crate::kernels::Numerics;
use crate::report::plan::Price;
use crate::runtime::Patience;
use crate::simulation::{Gpus, Hardware, Hosts, MessageThread, NetworkSpec};
use crate::training::{EvaluatorSettings, Settings, Stop};
use crate::units::Bytes;

/// The most tasks of a cluster: what each of more keeps of the others would be terabytes.
const MOST_TASKS: u64 = 100_000;

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
    mut file: ScenarioFile,
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
    let silence = file.network.silence.map(Duration::from);
    let (has_checkpoints, time_limit) = (file.checkpoint.is_some(), file.stop.time);
    let setting = Setting { cluster: &cluster, has_checkpoints, seed: file.seed, time_limit };
    let faults = faults(file.fault, silence, &setting, found);
    let slow = slow(&file.compute.slow, &cluster, found);
    let devices = devices(file.compute.devices, found);
    let layers = LayerTable::of(&file.program, origin, found);
    let (mut settings, dataset) = program(file.program, origin, (servers, workers), found);
    all_reduce::check(algorithm, &replicas, &settings, found);
    settings.patience = patience(file.network.recovery.map(Duration::from), found);
    settings.read_ahead = file.network.read_ahead.unwrap_or(true);
    let (measures, learns) = (settings.model.has_accuracy(), settings.model.has_data());
    check_evaluator(&cluster, file.evaluator.is_some(), file.checkpoint.as_ref(), measures, found);
    check_accuracy(&file.stop, measures, numerics, cluster.contains_key("evaluator"), found);
    let own = std::mem::take(&mut file.compute.tasks);
    let (mut network, mut compute) =
        (network(file.network, &cluster, found), compute(file.compute.speed(), found));
    let hosts = file.hosts.map(|file| hosts(&file, &cluster, found));
    check_hosts(hosts.as_ref(), (&network, &settings), &cluster, found);
    let calibration = file.calibration.map(|file| calibration(file, origin, found));
    calibration.iter().for_each(|measured| measured.apply(&mut network, &mut compute));
    let own_compute = own_compute(own, &compute, &cluster, found);
    let gpus = gpus(file.gpus, (&compute, &own_compute), &cluster, found);
    check_towers(&settings, &gpus, &cluster, found);
    let on = (&network, hosts.as_ref());
    settings.all_reduce = all_reduce::settings(algorithm, &replicas, on, &cluster);
    let batches = all_reduce::batches(algorithm, &replicas);
    settings.batch = settings.batch.saturating_mul(batches);
    settings.model = LayerTable::model(layers, settings.model, settings.batch, compute.rate);
    (settings.stop, settings.evaluator) = (file.stop, file.evaluator.unwrap_or_default());
    let name = name(file.name, origin, found);
    let hardware = Hardware {
        message_thread: message_thread(calibration.as_ref(), hosts.as_ref(), &network),
        noise: calibration.map(|calibration| calibration.noise()).unwrap_or_default(),
        network,
        compute,
        own_compute,
        devices,
        gpus,
        slow,
        hosts,
    };
    Scenario {
        name,
        seed: file.seed,
        memory_limit: file.memory_limit,
        hardware,
        faults,
        silence,
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

/// The cluster that is typed, or the default one, which has no parameter server if it `reduces`.
fn cluster(
    file: Option<BTreeMap<String, Tasks>>,
    reduces: bool,
    found: &mut Mistakes,
) -> BTreeMap<String, Tasks> {
    let Some(file) = file else {
        let servers = (!reduces).then(|| ("ps".to_owned(), Tasks::Count(1)));
        return servers.into_iter().chain([("worker".to_owned(), Tasks::Count(2))]).collect();
    };
    let has_workers = file.keys().any(|job| TaskName::new(job.as_str(), 0).is_of_workers());
    if !has_workers {
        let meant = most_like("worker", file.keys().map(String::as_str));
        let meant = meant.map(|job| format!("; is `{job}` meant to be it?")).unwrap_or_default();
        found.note("cluster", format!("no `worker` job, so nobody trains{meant}"));
    }
    let (mut cluster, mut first_at) = (BTreeMap::new(), BTreeMap::new());
    for (job, tasks) in file {
        let named = job.starts_with(|c: char| c.is_ascii_alphabetic());
        let named = named && job.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let path = if named { format!("cluster.{job}") } else { format!("cluster.\"{job}\"") };
        found.unless(named, &path, || {
            "a job's name is letters, digits and `_`, and begins with a letter".to_owned()
        });
        if let Some(meant) = mistaken_job(&job).filter(|meant| has_workers || *meant != "worker") {
            let duty = match meant {
                "ps" => "hold variables",
                "evaluator" => "evaluate",
                _ => "train",
            };
            found
                .note(&path, format!("the tasks of `{job}` would not {duty}; is `{meant}` meant?"));
        }
        found.unless(tasks.count() >= 1, &path, || {
            let instead = match job == "ps" {
                true if reduces => return NO_SERVERS.to_owned(),
                true => ", or train by `program.all_reduce`",
                false => "",
            };
            format!("a job has at least 1 task; remove it, or give it one{instead}")
        });
        if let Tasks::Addresses(addresses) = &tasks {
            check_addresses(&path, &job, addresses, &mut first_at, found);
        }
        cluster.insert(job, tasks);
    }
    cluster
}

/// What is said of a job `ps` without tasks in a training by all-reduce.
const NO_SERVERS: &str = "an all-reduce has no parameter servers; remove the key, by \
                          `--unset cluster.ps`";

/// The cluster, with the mistakes in it; it `reduces` if it trains by all-reduce. Fails at once if
/// it has more tasks than any run can have: the rest of the scenario is made for each of them.
fn cluster_of_size(
    file: Option<BTreeMap<String, Tasks>>,
    reduces: bool,
    origin: &str,
    text: Option<&str>,
) -> Result<(BTreeMap<String, Tasks>, Mistakes), ScenarioError> {
    let mut found = Mistakes::default();
    let cluster = cluster(file, reduces, &mut found);
    let total: u64 = cluster.values().map(|tasks| u64::from(tasks.count())).sum();
    if total <= MOST_TASKS {
        return Ok((cluster, found));
    }
    found.note("cluster", format!("{total} tasks are more than {MOST_TASKS}, the most of a run"));
    found.settle(origin, text).map(|()| (cluster, Mistakes::default()))
}

/// Checks the `addresses` of the job at `path`: each is a `host:port` that no other task has.
/// `first_at` has the tasks that are at an address already.
fn check_addresses(
    path: &str,
    job: &str,
    addresses: &[String],
    first_at: &mut BTreeMap<Endpoint, String>,
    found: &mut Mistakes,
) {
    for (index, address) in addresses.iter().enumerate() {
        let path = format!("{path}[{index}]");
        found.unless(is_host_and_port(address), &path, || {
            format!("`{address}` is no `host:port`; write, for example, `10.0.0.1:2222`")
        });
        let Ok(endpoint) = parse_address(address) else { continue };
        let task = format!("{job}:{index}");
        match first_at.entry(endpoint) {
            Entry::Vacant(free) => drop(free.insert(task)),
            Entry::Occupied(first) => found.note(
                path,
                format!(
                    "`{address}` is the address of {} already; give {task} another",
                    first.get()
                ),
            ),
        }
    }
}

/// Checks what is asked of hosts: that the tasks of one have the same network card, and that their
/// cores are known where kernels are to spread over some.
fn check_hosts(
    hosts: Option<&Hosts>,
    (network, program): (&NetworkSpec, &Settings),
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) {
    match hosts {
        Some(hosts) => check_cards(network, hosts, cluster, found),
        None => found.unless(program.num_cores.is_none(), "program.num_cores", || {
            "how many cores a simulated task has is not known; give `[hosts]`, which says so"
                .to_owned()
        }),
    }
}

/// What the message threads of tasks cost: what was measured, or, on shared hosts, what the network
/// says of sending.
fn message_thread(
    calibration: Option<&Calibration>,
    hosts: Option<&Hosts>,
    network: &NetworkSpec,
) -> Option<MessageThread> {
    let sending_costs = || MessageThread::sending_costs(network.message_cost);
    calibration.map(Calibration::message_thread).or_else(|| hosts.map(|_| sending_costs()))
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
    let of_job = |(job, tasks): (&String, &Tasks)| {
        let job = job.clone();
        (0..tasks.count()).map(move |index| TaskName::new(&*job, index))
    };
    let mut workers = cluster.iter().flat_map(of_job).filter(TaskName::is_of_workers);
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

/// The job that is meant by `job`, if that is most likely a slip of the pen.
fn mistaken_job(job: &str) -> Option<&'static str> {
    const JOBS: [&str; 5] = ["ps", "worker", "chief", "master", "evaluator"];
    if JOBS.contains(&job) {
        return None;
    }
    let in_lower_case = job.to_lowercase();
    let spelt = JOBS.into_iter().find(|known| *known == in_lower_case);
    let spelt = spelt.or_else(|| most_like(&in_lower_case, JOBS));
    spelt.or_else(|| synonyms::meant(job, &JOBS).filter(|meant| JOBS.contains(meant)))
}

fn is_host_and_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn stop(stop: &Stop, found: &mut Mistakes) {
    for (key, text) in stop.mistakes() {
        let dot = if key.is_empty() { "" } else { "." };
        found.note(format!("stop{dot}{key}"), text);
    }
}
