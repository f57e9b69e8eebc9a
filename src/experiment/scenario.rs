//! The scenario: a cluster, a network, a program and the runs to compare, read from a TOML file.
//!
//! [`parse`] reads a text, [`load`] a file with `--set` applied to it, [`expand`] a file with every
//! combination of its `--sweep`s. What comes out has been checked as a whole: a [`Scenario`] can be
//! run. The file's own form is private to `file`; what this module does not own is running it.
//!
//! Every section and key may be left out; the defaults are in the fields' documentation.

mod averaging;
mod check;
mod compression;
mod error;
mod file;
mod key_path;
mod law;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::TaskName;
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::ClipGradients;
use crate::simulation::{Faults, Law, NetworkSpec};
use crate::sync::Mode;
use crate::units::{BytesPerSecond, FlopsPerSecond};

pub use crate::kernels::Numerics;
pub use averaging::{Averaging, Nesterov};
pub use compression::Compression;
pub use error::{Mistake, ScenarioError};
pub use setting::{Setting, SettingError, Sweep};

/// What to train, on which cluster, and the runs to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What the report calls it. Default: the file's name without its extension.
    pub name: String,
    /// The seed of all randomness. Default: 0.
    pub seed: u64,
    /// The tasks of each job. Default: one `ps`, two `worker`s.
    pub cluster: BTreeMap<String, Tasks>,
    /// What connects the tasks. Default: 50 µs of latency, 10 Gbit/s, 5 µs a message, no racks.
    pub network: NetworkSpec,
    /// How fast the tasks compute.
    pub compute: Compute,
    /// What is trained.
    pub program: Program,
    /// When a run is over.
    pub stop: Stop,
    /// What goes wrong. Default: nothing; a peer that is silent for a second is lost.
    pub faults: Faults,
    /// How checkpoints are kept. Default: none are.
    pub checkpoint: Option<Checkpoint>,
    /// The runs to compare, in the file's order, under different names. Default: one, asynchronous.
    pub runs: Vec<Run>,
}

/// How a training keeps checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How often one is written, besides at the beginning and at the end. Default: every 600
    /// seconds.
    pub every: Often,
    /// The folder, or the URL such as `s3://bucket/trainings`, below which each run has its own
    /// when it is deployed. Default: they are in the chief's memory, as they always are in a
    /// simulation, and outlive parameter servers.
    pub directory: Option<String>,
    /// How many of the newest are kept; 0 for all. Default: 5.
    pub keep: usize,
    /// Of the older ones, one for each so much time is kept for ever. Default: none is.
    pub keep_every: Option<Duration>,
    /// Whether a checkpoint may have a step in one variable and not in another. Default: it may
    /// not.
    pub fuzzy: bool,
}

/// How often something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Often {
    /// Every so many global steps.
    Steps(u64),
    /// After every so much time.
    Time(Duration),
}

/// The tasks of one job: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// So many tasks, wherever they are put.
    Count(u32),
    /// One task at each `host:port`.
    Addresses(Vec<String>),
}

impl Tasks {
    /// How many tasks.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::Addresses(addresses) => u32::try_from(addresses.len()).unwrap_or(u32::MAX),
        }
    }
}

/// How fast the tasks compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// Arithmetic of a task's device. Default: 50 GFLOP/s.
    pub rate: FlopsPerSecond,
    /// Memory traffic of a task's device. Default: 10 GB/s.
    pub memory: BytesPerSecond,
    /// How many devices each task has, for programs that place operations on them. Default: 1.
    pub devices: NonZeroU32,
    /// A factor drawn for each worker step; its mean is 1 where the file gives none. Default: none.
    pub straggler: Option<Law>,
    /// Tasks that take so many times as long as the others. Default: none.
    pub slow: BTreeMap<TaskName, f64>,
    /// The computation of a worker step, in seconds, in place of the cost model. Default: none.
    pub step_time: Option<Law>,
    /// Whether the numbers are computed. Default: they are.
    pub numerics: Numerics,
}

/// What is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Default: softmax regression.
    pub model: Model,
    /// The widths of the hidden layers, for [`Model::Mlp`] and [`Model::Embedding`] only. Default:
    /// one of 128 for the one, one of 32 for the other.
    pub hidden: Vec<usize>,
    /// Default: the embedded digits, for [`Model::Embedding`] and [`Model::Published`] synthetic
    /// samples.
    pub dataset: Dataset,
    /// Samples per worker step. Default: 32.
    pub batch: usize,
    /// Default: gradient descent.
    pub optimizer: Optimizer,
}

/// A model that can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One dense layer and a softmax.
    Softmax,
    /// Hidden layers, a dense layer and a softmax.
    Mlp,
    /// Convolutions and pools before the dense layers: for images.
    Convnet,
    /// Wide and deep, of sparse samples.
    Embedding(Embedding),
    /// An image model as it was published.
    Published(Published),
    /// Nothing but the global step: measures the runtime itself.
    Null,
}

/// An image model as it was published. It is trained on random images of its own size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// AlexNet.
    Alexnet,
    /// VGG-16.
    Vgg16,
    /// Inception-v3.
    InceptionV3,
    /// ResNet-50.
    Resnet50,
}

/// The sizes of [`Model::Embedding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The rows of its table: how many features there are. Default: 10 000.
    pub rows: usize,
    /// The width of a row. Default: 16.
    pub dim: usize,
    /// The features of a sample; with fewer, the others count nothing. Default: 8.
    pub slots: usize,
    /// The shards that the table is cut into. Default: one a parameter server.
    pub partitions: usize,
}

/// Data to train on.
///
/// Where a table names no samples for testing, a fifth is held out. Relative paths begin at the
/// scenario's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// The handwritten digits in this program.
    Digits,
    /// Samples drawn from the seed, for [`Model::Embedding`] and [`Model::Published`] only.
    Synthetic,
    /// MNIST's four files.
    Idx {
        /// Where they are.
        directory: PathBuf,
    },
    /// A table with a header.
    Csv {
        /// The samples.
        file: PathBuf,
        /// The column of the class.
        label: String,
        /// The samples for testing.
        test: Option<PathBuf>,
    },
    /// Sparse samples.
    LibSvm {
        /// The samples.
        file: PathBuf,
        /// The samples for testing.
        test: Option<PathBuf>,
    },
    /// NumPy arrays: features and labels.
    Npy {
        /// The samples.
        train: (PathBuf, PathBuf),
        /// The samples for testing.
        test: Option<(PathBuf, PathBuf)>,
    },
}

/// How gradients are applied. A parameter that the rule has not is a mistake.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// The rule. Parameters that the file leaves out have TensorFlow's defaults.
    pub rule: UpdateRule,
    /// A number, or a table with a `schedule`. Default: 0.01; 0.001 for Adam, what is made of it,
    /// and Adadelta.
    pub learning_rate: LearningRate,
    /// `clip_value`, `clip_norm` or `clip_global_norm`. Default: none.
    pub clip: Option<ClipGradients>,
}

/// When a run is over: at the first of these that comes. Without a `[stop]` section, after 1000
/// global steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// Global steps.
    pub steps: Option<u64>,
    /// The target: accuracy on the test split, above 0 and at most 1. Never alone, as it may never
    /// be reached.
    pub accuracy: Option<f64>,
    /// Global steps from one look at the accuracy to the next. Default: 50.
    pub evaluate_every: u64,
    /// Virtual time; wall clock when deployed.
    pub time: Option<Duration>,
}

/// One training of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What the report calls it. Default: how it trains, in words.
    pub name: String,
    /// How its workers are coordinated; where they train copies of their own, how they are
    /// averaged.
    pub mode: Mode,
    /// The copies that the workers train; none where all train the same variables.
    pub averaging: Option<Averaging>,
    /// What is left out of the values on the network. Default: what `[network]` says, or nothing.
    pub compression: Compression,
}

impl Run {
    /// How it trains, in words.
    pub fn how(&self) -> String {
        let mut how = match (self.averaging, self.mode) {
            (None, mode) => mode.to_string(),
            (Some(averaging), Mode::Sync { backups: 0 }) => averaging.to_string(),
            (Some(averaging), mode) => format!("{averaging}, {mode}"),
        };
        if self.compression != Compression::None {
            how += &format!(", {}", self.compression);
        }
        how
    }
}

/// The scenario in `text`. `origin` is the file's name in errors, and names a scenario that has no
/// name.
pub fn parse(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
    setting::read(text, origin, &[])
}

/// The scenario in the file at `path`, after `sets`.
pub fn load(path: &Path, sets: &[Setting]) -> Result<Scenario, ScenarioError> {
    setting::read(&read_file(path)?, &path.display().to_string(), sets)
}

/// The scenario in the file at `path`, after `sets`, once for each combination of `sweeps`' values.
///
/// The first sweep changes slowest. Each scenario comes with its label, such as
/// `program.batch=32, network.latency=1ms`; without sweeps there is one, with an empty label.
pub fn expand(
    path: &Path,
    sets: &[Setting],
    sweeps: &[Sweep],
) -> Result<Vec<(String, Scenario)>, ScenarioError> {
    let text = read_file(path)?;
    let origin = path.display().to_string();
    let scenario_of = |combination: Vec<Setting>| {
        let label = combination.iter().map(Setting::to_string).collect::<Vec<_>>().join(", ");
        let all = [sets, &combination].concat();
        Ok((label, setting::read(&text, &origin, &all)?))
    };
    setting::combinations(sweeps).into_iter().map(scenario_of).collect()
}

fn read_file(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path)
        .map_err(|reason| ScenarioError::Unreadable { origin: path.display().to_string(), reason })
}
