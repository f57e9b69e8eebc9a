//! From what was typed to what it means: defaults filled in, and every mistake found at once.

mod fault;
mod optimizer;
mod program;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use super::error::{Mistake, ScenarioError, line_of, most_like};
use super::file::{
    AveragingFile, ComputeFile, DiLoCoTable, LocalSgdTable, ModelFile, NetworkFile, ScenarioFile,
};
use super::run::RunFile;
use super::{Averaging, Compression, Nesterov, Run, Scenario, Tasks};
use crate::cluster::TaskName;
use crate::kernels::Numerics;
use crate::simulation::{ComputeSpec, NetworkSpec, Racks};
use crate::sync::Mode;
use crate::training::Stop;
use crate::units::{BytesPerSecond, FlopsPerSecond};

/// The mistakes found so far, and what is asked for that can't be done yet: keys and what to say of
/// each.
#[derive(Default)]
pub(super) struct Mistakes {
    mistakes: Vec<(String, String)>,
    not_yet: Vec<(String, String)>,
}

impl Mistakes {
    pub(super) fn note(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.mistakes.push((path.into(), text.into()));
    }

    pub(super) fn unless(
        &mut self,
        right: bool,
        path: impl Into<String>,
        text: impl FnOnce() -> String,
    ) {
        if !right {
            self.note(path, text());
        }
    }

    pub(super) fn at_least_1(&mut self, number: u64, path: &str) {
        self.unless(number >= 1, path, || "0 must be at least 1".to_owned());
    }

    fn above_0(&mut self, number: f64, path: &str) {
        self.unless(number > 0.0, path, || "must be above 0".to_owned());
    }

    /// `scenario`, where nothing is wrong. `text` is the file, or none where its lines mean nothing
    /// any more.
    fn settle(
        self,
        scenario: Scenario,
        origin: &str,
        text: Option<&str>,
    ) -> Result<Scenario, ScenarioError> {
        let located = |found: Vec<(String, String)>| -> Vec<Mistake> {
            let locate = |(path, said): (String, String)| {
                let line = text.and_then(|text| line_of(text, &path));
                Mistake { path, line, text: said }
            };
            let mut located: Vec<_> = found.into_iter().map(locate).collect();
            located.sort_by_key(|mistake| mistake.line);
            located
        };
        let origin = origin.to_owned();
        if !self.not_yet.is_empty() {
            return Err(ScenarioError::NotSupported { origin, features: located(self.not_yet) });
        }
        if !self.mistakes.is_empty() {
            return Err(ScenarioError::Invalid { origin, mistakes: located(self.mistakes) });
        }
        Ok(scenario)
    }
}

/// The scenario that `file` means. `text` is the file as typed, to find lines in; none where
/// `--set` changed it.
pub(super) fn build(
    file: ScenarioFile,
    origin: &str,
    text: Option<&str>,
) -> Result<Scenario, ScenarioError> {
    let mut found = Mistakes::default();
    refuse_what_is_to_come(&file, &mut found);
    let cluster = cluster(file.cluster, &mut found);
    let count = |job: &str| cluster.get(job).map(Tasks::count);
    let (servers, workers) = (count("ps").unwrap_or(1), count("worker").unwrap_or(0));
    stop(&file.stop, &mut found);
    let numerics = file.compute.numerics;
    if file.stop.accuracy.is_some() {
        let is_computed = numerics == Numerics::Real && file.program.model != ModelFile::Null;
        found.unless(is_computed, "stop.accuracy", || {
            "neither `numerics = \"shapes\"` nor the model `null` has an accuracy; stop by `steps` \
             or `time`"
                .to_owned()
        });
    }
    let compression = file.network.compression;
    compression.check("network.compression", &mut found);
    if let Some(checkpoint) = &file.checkpoint {
        checkpoint.check(numerics, &mut found);
    }
    let runs = runs(file.run, (workers, compression), &mut found);
    let faults = fault::faults(file.fault, file.network.silence, &cluster, &mut found);
    let slow = slow(&file.compute.slow, &cluster, &mut found);
    let devices = devices(file.compute.devices, &mut found);
    let (settings, dataset) =
        program::program(file.program, file.stop, origin, servers, &mut found);
    let scenario = Scenario {
        name: file.name.unwrap_or_else(|| stem(origin)),
        seed: file.seed,
        faults,
        network: network(file.network, &mut found),
        compute: compute(file.compute, &mut found),
        devices,
        slow,
        numerics,
        settings,
        dataset,
        checkpoint: file.checkpoint,
        runs,
        cluster,
    };
    found.settle(scenario, origin, text)
}

fn stem(origin: &str) -> String {
    Path::new(origin)
        .file_stem()
        .map_or_else(|| origin.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn refuse_what_is_to_come(file: &ScenarioFile, found: &mut Mistakes) {
    let mut refuse = |asked: bool, path: &str, text: &str| {
        if asked {
            found.not_yet.push((path.to_owned(), text.to_owned()));
        }
    };
    refuse(
        file.calibration.is_some(),
        "calibration",
        "it would be ignored; give `[compute]` and `[network]` instead",
    );
}

fn cluster(file: Option<BTreeMap<String, Tasks>>, found: &mut Mistakes) -> BTreeMap<String, Tasks> {
    let Some(file) = file else {
        return BTreeMap::from([
            ("ps".to_owned(), Tasks::Count(1)),
            ("worker".to_owned(), Tasks::Count(2)),
        ]);
    };
    if !file.contains_key("worker") {
        let meant = most_like("worker", file.keys().map(String::as_str));
        let meant = meant.map(|job| format!("; is `{job}` meant to be it?")).unwrap_or_default();
        found.note("cluster", format!("no `worker` job, so nobody trains{meant}"));
    }
    let mut cluster = BTreeMap::new();
    for (job, tasks) in file {
        let named = job.starts_with(|c: char| c.is_ascii_alphabetic());
        let named = named && job.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let path = if named { format!("cluster.{job}") } else { format!("cluster.\"{job}\"") };
        found.unless(named, &path, || {
            "a job's name is letters, digits and `_`, and begins with a letter".to_owned()
        });
        found.unless(tasks.count() >= 1, &path, || {
            "a job has at least 1 task; remove it, or give it one".to_owned()
        });
        if let Tasks::Addresses(addresses) = &tasks {
            for (index, address) in addresses.iter().enumerate() {
                found.unless(is_host_and_port(address), format!("{path}[{index}]"), || {
                    format!("`{address}` is no `host:port`; write, for example, `10.0.0.1:2222`")
                });
            }
        }
        cluster.insert(job, tasks);
    }
    cluster
}

fn is_host_and_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn network(file: NetworkFile, found: &mut Mistakes) -> NetworkSpec {
    let bandwidth = file.bandwidth.unwrap_or(BytesPerSecond(1.25e9));
    found.above_0(bandwidth.0, "network.bandwidth");
    let mut racks = None;
    if let Some(file) = file.racks {
        match (file.hosts_per_rack, file.uplink) {
            (Some(hosts_per_rack), Some(uplink)) => {
                found.at_least_1(hosts_per_rack.into(), "network.racks.hosts_per_rack");
                found.above_0(uplink.0, "network.racks.uplink");
                racks = Some(Racks { hosts_per_rack: hosts_per_rack as usize, uplink });
            }
            _ => found.note("network.racks", "racks need both `hosts_per_rack` and `uplink`"),
        }
    }
    NetworkSpec {
        latency: file.latency.map_or(Duration::from_micros(50), Duration::from),
        bandwidth,
        message_cost: file.message_cost.map_or(Duration::from_micros(5), Duration::from),
        racks,
    }
}

/// More devices of one task than any machine has.
const MAX_DEVICES: u32 = 1024;

fn devices(given: Option<u32>, found: &mut Mistakes) -> NonZeroU32 {
    let devices = given.unwrap_or(1);
    found.unless((1..=MAX_DEVICES).contains(&devices), "compute.devices", || {
        format!("{devices} must be at least 1 and at most {MAX_DEVICES}")
    });
    NonZeroU32::new(devices).unwrap_or(NonZeroU32::MIN)
}

fn slow(
    file: &BTreeMap<String, f64>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<TaskName, f64> {
    let mut slow = BTreeMap::new();
    for (name, factor) in file {
        let path = format!("compute.slow.\"{name}\"");
        found.unless(factor.is_finite() && *factor > 0.0, &path, || {
            format!("{factor} must be finite and above 0")
        });
        match task_of(name, cluster) {
            Ok(task) => {
                slow.insert(task, *factor);
            }
            Err(why) => found.note(path, why),
        }
    }
    slow
}

fn compute(file: ComputeFile, found: &mut Mistakes) -> ComputeSpec {
    let rate = file.rate.unwrap_or(FlopsPerSecond(50e9));
    let memory = file.memory.unwrap_or(BytesPerSecond(10e9));
    found.above_0(rate.0, "compute.rate");
    found.above_0(memory.0, "compute.memory");
    let are_both = file.straggler.is_some() && file.step_time.is_some();
    found.unless(!are_both, "compute.step_time", || {
        "it already is the whole time of a step, which `straggler` can't multiply; remove one of \
         them"
            .to_owned()
    });
    ComputeSpec {
        rate,
        memory,
        straggler: file.straggler.map(|law| law.into_law("compute.straggler", Some(1.0), found)),
        step_time: file.step_time.map(|law| law.into_law("compute.step_time", None, found)),
    }
}

/// The task `name` of `cluster`, or why it has none.
fn task_of(name: &str, cluster: &BTreeMap<String, Tasks>) -> Result<TaskName, String> {
    let parts =
        name.split_once(':').and_then(|(job, index)| Some((job, index.parse::<u32>().ok()?)));
    // No "worker:03".
    let spelt_alike = |(job, index): &(&str, u32)| format!("{job}:{index}") == name;
    let (job, index) =
        parts.filter(spelt_alike).ok_or("no task's name; write, for example, `worker:0`")?;
    let jobs = || cluster.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let tasks = cluster
        .get(job)
        .ok_or_else(|| format!("the cluster has no job `{job}`; it has {}", jobs()))?;
    match tasks.count() {
        count if index < count => Ok(TaskName::new(job, index)),
        count => Err(format!("the job `{job}` has {count} tasks, counted from 0")),
    }
}

fn stop(stop: &Stop, found: &mut Mistakes) {
    for (key, text) in stop.mistakes() {
        let dot = if key.is_empty() { "" } else { "." };
        found.note(format!("stop{dot}{key}"), text);
    }
}

/// How the workers of a mode, which is at `path`, average copies of their own, where they do.
fn averaging(file: Option<AveragingFile>, path: &str, found: &mut Mistakes) -> Option<Averaging> {
    let (name, every, outer) = match file? {
        AveragingFile::LocalSgd(LocalSgdTable { every, .. }) => ("local_sgd", every, None),
        AveragingFile::DiLoCo(DiLoCoTable {
            every, outer_learning_rate, outer_momentum, ..
        }) => {
            let default = Nesterov::default();
            let (learning_rate, momentum) = (
                outer_learning_rate.unwrap_or(default.learning_rate),
                outer_momentum.unwrap_or(default.momentum),
            );
            for (key, value) in
                [("outer_learning_rate", learning_rate), ("outer_momentum", momentum)]
            {
                found.unless(
                    value.is_finite() && value >= 0.0,
                    format!("{path}.diloco.{key}"),
                    || "must be finite and at least 0".to_owned(),
                );
            }
            ("diloco", every, Some(Nesterov { learning_rate, momentum }))
        }
    };
    found.at_least_1(every.into(), &format!("{path}.{name}.every"));
    Some(Averaging { every: NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN), outer })
}

/// The runs of `workers`, which compress what they send in the same way where they do not say how.
fn runs(
    file: Option<Vec<RunFile>>,
    (workers, compressed): (u32, Compression),
    found: &mut Mistakes,
) -> Vec<Run> {
    let Some(file) = file else {
        let run = Run {
            name: String::new(),
            mode: Mode::Async,
            averaging: None,
            compression: compressed,
            own: None,
        };
        return vec![Run { name: run.how(), ..run }];
    };
    found.unless(!file.is_empty(), "run", || "no run; give one, or remove the key".to_owned());
    let mut runs: Vec<Run> = Vec::new();
    for (index, run) in file.into_iter().enumerate() {
        let (changes, differs) = (run.changes(), run.differs());
        let averaging = averaging(run.mode.averaging, &format!("run[{index}].mode"), found);
        let mode = run.mode.mode;
        if !differs && let Err((parameter, problem)) = mode.check(workers.max(1)) {
            found.note(format!("run[{index}].mode.{parameter}"), problem);
        }
        if let Some(own) = run.compression {
            own.check(&format!("run[{index}].compression"), found);
        }
        let compression = run.compression.unwrap_or(compressed);
        let meant = Run { name: String::new(), mode, averaging, compression, own: None };
        let name = run.name.unwrap_or_else(|| meant.how() + &changes);
        found.unless(
            runs.iter().all(|earlier| earlier.name != name),
            format!("run[{index}].name"),
            || format!("an earlier run is also called `{name}`"),
        );
        runs.push(Run { name, ..meant });
    }
    runs
}
