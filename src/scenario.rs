//! The scenario: a cluster, a network, a program and the runs to compare, read from a TOML file.
//!
//! [`parse`] reads a text, [`load`] a file with changes applied to it, [`expand`] a text with every
//! combination of its `--sweep`s. The result is checked as a whole: a [`Scenario`] can be run. Its
//! parts are the types that the worlds and the trainer read. Each section has a file, with its
//! checks and, if it is typed in another form, that form.
//!
//! Every section and key may be left out; the defaults are in the fields' documentation. A run can
//! have settings of its own, by the paths that the whole scenario has for them:
//!
//! ```
//! # let text = r#"
//! [program]
//! batch = 32
//! optimizer = { rule = "adagrad", learning_rate = 0.05 }
//!
//! [[run]]
//! name = "sync"
//! mode = "sync"
//!
//! [[run]]                      # the same with a larger batch and another learning rate
//! name = "sync, batch 128"
//! mode = "sync"
//! set = { program.batch = 128, program.optimizer.learning_rate = 0.1 }
//!
//! [[run]]                      # what is unset goes first; a table of `set` changes what it names
//! name = "adam"
//! mode = "sync"
//! unset = ["program.optimizer"]
//! set = { program.optimizer = { rule = "adam" }, stop.steps = 500 }
//! # "#;
//! # let scenario = trainyard::scenario::parse(text, "example.toml").unwrap();
//! # let of = |run: usize| &scenario.of(&scenario.runs[run]).settings;
//! # assert_eq!((of(0).batch, of(1).batch, of(2).stop.steps), (32, 128, Some(500)));
//! ```
//!
//! # To add a key
//!
//! | section | is read into | a new key is |
//! |---|---|---|
//! | `[stop]` | [`Stop`](crate::training::Stop) | a field there, and its check in `Stop::mistakes` |
//! | `[checkpoint]` | [`Checkpoint`] | a field there, its check, and what it means, in `checkpoint.rs` |
//! | `[network]`, `[compute]`, `[program]` | [`NetworkSpec`](crate::simulation::NetworkSpec), [`ComputeSpec`](crate::simulation::ComputeSpec), [`Settings`] | a field there, and one of the typed form with its check and default, in the file of the section |
//! | `[calibration]` | [`Calibration`] | a field there, and what it changes, in `calibration.rs` |
//! | `[price]`, `[plan]` | [`PlanSpec`] | a field there, and its check in `plan.rs` |
//! | `[[run]]` | [`RunSpec`] | a field of both forms, in `run.rs` |
//! | `[[fault]]` | [`FaultKind`](crate::simulation::FaultKind) | a line in the table of `fault/forms.rs` |
//! | `dataset` | [`Source`] | a variant, with how it is typed and loaded, in `data/source.rs` |

mod all_reduce;
mod calibration;
mod change;
mod checkpoint;
mod cluster;
mod compression;
mod compute;
mod error;
mod fault;
mod file;
mod gpus;
mod hardware;
mod hosts;
mod key_path;
mod law;
mod looks;
mod mistakes;
mod mode;
mod network;
mod optimizer;
mod partitioner;
mod plan;
mod presets;
mod program;
mod replicas;
mod run;
mod synonyms;
mod tables;
mod tasks;
#[cfg(test)]
mod tests;
mod tune;

use std::collections::BTreeMap;
use std::path::Path;

use crate::cluster::{ClusterSpec, ConfigErrors};
use crate::data::Source;
use crate::kernels::Numerics;
use crate::simulation::Hardware;
use crate::training::Settings;
use crate::units::Bytes;
use crate::user_file;

pub use calibration::{
    Calibration, EnvelopeCost, MeasuredCompute, MeasuredLanes, MeasuredNetwork, NoiseKind,
};
pub(crate) use change::LEFT_OUT;
pub use change::{Change, Sweep};
pub use checkpoint::Checkpoint;
pub use compression::Compression;
pub use error::{ChangeError, Mistake, ScenarioError};
pub use fault::ScenarioFaults;
pub(crate) use fault::{
    name_of as fault_name, written as written_faults, written_alone as written_fault,
};
pub use plan::PlanSpec;
pub(crate) use presets::{NETWORKS, PROCESSORS};
pub use run::RunSpec;
pub(crate) use synonyms::key_of;
pub use tasks::Tasks;
pub use tune::Tune;

/// What to train, on which cluster, and the runs to compare.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scenario {
    /// The name in the report. Default: the file's name without its extension.
    pub name: String,
    /// The seed of all randomness. Default: 0.
    pub seed: u64,
    /// The memory that a run may take, all tasks together; a run that may need more is refused.
    /// Default: this machine's.
    pub memory_limit: Option<Bytes>,
    /// `[cluster]`: the tasks of each job. Default: one `ps`, two `worker`s.
    pub cluster: BTreeMap<String, Tasks>,
    /// `[replicas]`, by job: the number of consecutive tasks of a replica. The first of them
    /// trains, and the layers of the model are dealt to all. Default: 1.
    pub replicas: BTreeMap<String, u32>,
    /// `[network]`, `[compute]`, `[gpus]`, `[hosts]` and `[calibration]`: what the tasks run on.
    ///
    /// Default: a network with 50 µs of latency, 10 Gbit/s, 5 µs a message and no racks; one device
    /// a task with 50 GFLOP/s and 10 GB/s, all of both reached by each kind of kernel, no straggler
    /// law (a law without a mean in the file has the mean 1) and no step time; no accelerators; a
    /// machine for each task, whose cores are never scarce. With `[hosts]` and without
    /// `[calibration]` a message costs its sender `network.message_cost`; without both there is no
    /// message thread.
    pub hardware: Hardware,
    /// `compute.numerics`: whether the numbers are computed. Default: they are.
    pub numerics: Numerics,
    /// `[program]` and `[stop]`: what to train, and when a run ends. Default: softmax regression by
    /// gradient descent, 32 samples a worker step, 1000 global steps.
    pub settings: Settings,
    /// `program.dataset`: the training data; relative paths begin at the scenario's file. Default:
    /// the embedded digits; synthetic samples for models that make their own.
    pub dataset: Source,
    /// `[[fault]]`: the faults, and `network.silence`. Default: none, and 5 s.
    pub faults: ScenarioFaults,
    /// `[checkpoint]`: the checkpoints to keep. Default: none.
    pub checkpoint: Option<Checkpoint>,
    /// `[tune]`: settings of which each simulated run keeps the best. Default: none.
    pub tune: Tune,
    /// `[price]` and `[plan]`: what tasks and traffic cost, and what `plan` is asked.
    pub plan: PlanSpec,
    /// `[[run]]`: the runs to compare, in the file's order, under different names. Default: one,
    /// asynchronous.
    pub runs: Vec<RunSpec>,
}

impl Scenario {
    /// The scenario with the settings of `run`, one of its own runs.
    pub fn of<'a>(&'a self, run: &'a RunSpec) -> &'a Self {
        run.own.as_deref().unwrap_or(self)
    }

    /// The addresses that it lists; none if it only counts tasks.
    pub fn addresses(&self) -> Option<Result<ClusterSpec, ConfigErrors>> {
        let listed = |(job, tasks): (&String, &Tasks)| match tasks {
            Tasks::Addresses(addresses) => Some((job.clone(), addresses.clone())),
            Tasks::Count(_) => None,
        };
        let jobs: Vec<_> = self.cluster.iter().map(listed).collect::<Option<_>>()?;
        Some(ClusterSpec::dense(jobs))
    }

    /// Changes the seed, also in the runs' own scenarios.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.seed = seed;
        for own in self.runs.iter_mut().filter_map(|run| run.own.as_deref_mut()) {
            own.seed = seed;
        }
    }
}

/// The scenario in `text`. `origin` is the file's name in errors, and names a scenario that has no
/// name; relative paths begin beside it.
///
/// # Errors
/// Every mistake in it.
pub fn parse(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
    change::read(text, origin, &[], &[])
}

/// The scenario in the file at `path`, after `changes`.
///
/// # Errors
/// If it can't be read, or has mistakes; the error has all of them.
pub fn load(path: &Path, changes: &[Change]) -> Result<Scenario, ScenarioError> {
    change::read(&read_file(path)?, &path.display().to_string(), changes, &[])
}

/// The scenario in `text`, read as by [`parse`], after `changes`, once for each combination of
/// `sweeps`' values.
///
/// Runs that are not among the names `only` need not fit the changes, unless it is empty, for all.
/// The first sweep changes slowest. Each scenario comes with its values, one change for each sweep;
/// without sweeps there is one scenario.
///
/// # Errors
/// If two sweeps are of one key; every mistake in the first scenario that has any.
pub fn expand(
    text: &str,
    origin: &str,
    changes: &[Change],
    sweeps: &[Sweep],
    only: &[String],
) -> Result<Vec<(Vec<Change>, Scenario)>, ScenarioError> {
    change::check_swept_once(sweeps)?;
    let mut scenarios = Vec::new();
    for combination in change::combinations(sweeps) {
        let all = [changes, &combination].concat();
        let scenario = change::read(text, origin, &all, only)?;
        scenarios.push((combination, scenario));
    }
    Ok(scenarios)
}

/// The keys of the scenario in `text` after `changes`, as JSON.
///
/// # Errors
/// If it is no TOML, or a change does not fit it.
pub(crate) fn keys(
    text: &str,
    origin: &str,
    changes: &[Change],
) -> Result<serde_json::Value, ScenarioError> {
    let table = change::keys(text, origin, changes)?;
    Ok(serde_json::to_value(table).unwrap_or_default())
}

/// The text of the scenario in `text` after `changes`.
///
/// # Errors
/// If it is no TOML, or a change does not fit it.
pub(crate) fn text(text: &str, origin: &str, changes: &[Change]) -> Result<String, ScenarioError> {
    Ok(change::keys(text, origin, changes)?.to_string())
}

/// The text of the file at `path`.
///
/// # Errors
/// If it can't be read.
pub(crate) fn read_file(path: &Path) -> Result<String, ScenarioError> {
    let unreadable =
        |reason| ScenarioError::Unreadable { origin: path.display().to_string(), reason };
    user_file::read_text(path).map_err(unreadable)
}
