//! An experiment: what a scenario means. What is here can be run.

use std::rc::Rc;
use std::sync::Arc;

use super::failure::Failure;
use super::recording::SharedRecording;
use crate::checkpoint::{Memory, Retention, Store, open_store};
use crate::clock::Clock;
use crate::cluster::ClusterSpec;
use crate::data::{DataError, Dataset};
use crate::experiment::scenario::{self, Scenario};
use crate::graph::UpdateRule;
use crate::models::{Embedding, Model, Published};
use crate::runtime::{Encoding, Error, Server};
use crate::simulation::{Cluster, ComputeSpec};
use crate::training::{Averaging, Checkpointing, Consistency, SecondOrStepTimer};
use crate::training::{OptimizerSettings, Settings, Stop, TaskParts};

/// A cluster, a training, and the runs to compare.
pub(super) struct Experiment {
    pub(super) cluster: Cluster,
    pub(super) settings: Settings,
    pub(super) dataset: Option<Arc<Dataset>>,
    checkpoint: Option<scenario::Checkpoint>,
    pub(super) runs: Vec<scenario::Run>,
}

impl Experiment {
    /// What `scenario` means.
    ///
    /// # Errors
    /// If it asks for what does not exist yet.
    pub(super) fn new(scenario: &Scenario) -> Result<Self, Failure> {
        let invalid = |error: &dyn std::fmt::Display| Failure::NotSupported(error.to_string());
        let jobs = scenario.cluster.iter().map(|(job, tasks)| (job.as_str(), tasks.count()));
        let spec = ClusterSpec::simulated(jobs).map_err(|error| invalid(&error))?;
        let cluster = Cluster {
            spec,
            network: scenario.network.clone(),
            encoding: Encoding::Exact,
            compute: compute(&scenario.compute),
            devices: scenario.compute.devices,
            slow: scenario.compute.slow.clone(),
            numerics: scenario.compute.numerics,
            seed: scenario.seed,
            faults: scenario.faults.clone(),
        };
        cluster.network.validate().map_err(|error| invalid(&error))?;
        cluster.compute.validate().map_err(|error| invalid(&error))?;
        let settings = settings(scenario);
        let dataset = match settings.model {
            Model::Null { .. } => None,
            Model::Softmax | Model::Mlp { .. } | Model::Convnet => Some(Arc::new(
                dataset(&scenario.program.dataset, scenario.seed).map_err(Failure::Data)?,
            )),
            Model::Published(published) => {
                let (image, classes) = published.images();
                let images = Dataset::random_images(
                    image,
                    classes,
                    scenario.compute.numerics,
                    scenario.seed,
                );
                Some(Arc::new(images.map_err(Failure::Data)?))
            }
            Model::Embedding(Embedding { rows, slots, .. }) => {
                let samples =
                    sparse_dataset(&scenario.program.dataset, (rows, slots), scenario.seed);
                Some(Arc::new(samples.map_err(Failure::Data)?))
            }
        };
        let (checkpoint, runs) = (scenario.checkpoint.clone(), scenario.runs.clone());
        Ok(Self { cluster, settings, dataset, checkpoint, runs })
    }

    /// Where a simulated run keeps its checkpoints: as long as it lasts, whatever becomes of its
    /// tasks.
    pub(super) fn simulated_checkpoints(&self) -> Option<Checkpointing> {
        self.checkpoint
            .as_ref()
            .map(|checkpoint| checkpointing(checkpoint, Arc::new(Memory::default())))
    }

    /// Where a run that is deployed keeps its checkpoints.
    ///
    /// # Errors
    /// If there can be none.
    pub(super) fn deployed_checkpoints(&self, run: &str) -> Result<Option<Checkpointing>, Error> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(None) };
        let Some(directory) = &checkpoint.directory else {
            return Ok(self.simulated_checkpoints());
        };
        let legal = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }
        };
        let run: String = run.chars().map(legal).collect();
        let store = open_store(&format!("{}/{run}", directory.trim_end_matches('/')))?;
        Ok(Some(checkpointing(checkpoint, store)))
    }

    /// The cluster as `run` uses it.
    pub(super) fn cluster_of(&self, run: &scenario::Run) -> Cluster {
        Cluster { encoding: run.compression.encoding(), ..self.cluster.clone() }
    }

    /// What a task of `run` is made of, in either world.
    pub(super) fn task_parts(
        &self,
        server: Rc<Server>,
        clock: Rc<dyn Clock>,
        run: &scenario::Run,
        checkpointing: Option<Checkpointing>,
        recording: &SharedRecording,
    ) -> TaskParts {
        let (mut settings, dataset) = (self.settings.clone(), self.dataset.clone());
        settings.averaging = run.averaging.map(averaging);
        let sent = settings
            .averaging
            .as_mut()
            .map_or(&mut settings.optimizer, |averaging| &mut averaging.outer);
        sent.top_k = run.compression.top_k();
        TaskParts {
            server,
            clock,
            mode: run.mode,
            seed: self.cluster.seed,
            settings,
            dataset,
            checkpointing,
            recorder: Rc::new(recording.clone()),
        }
    }
}

fn checkpointing(checkpoint: &scenario::Checkpoint, store: Arc<dyn Store>) -> Checkpointing {
    let every = match checkpoint.every {
        scenario::Often::Steps(steps) => SecondOrStepTimer::every_steps(steps),
        scenario::Often::Time(time) => SecondOrStepTimer::every_time(time),
    };
    let retention =
        Retention { max_to_keep: Some(checkpoint.keep), keep_every: checkpoint.keep_every };
    let consistency = if checkpoint.fuzzy { Consistency::Fuzzy } else { Consistency::Consistent };
    Checkpointing { store, every, retention, consistency }
}

fn dataset(dataset: &scenario::Dataset, seed: u64) -> Result<Dataset, DataError> {
    match dataset {
        scenario::Dataset::Digits => Dataset::digits(),
        scenario::Dataset::Synthetic => {
            panic!("a scenario has synthetic samples only for models that make their own")
        }
        scenario::Dataset::Idx { directory } => Dataset::idx(directory),
        scenario::Dataset::Csv { file, label, test } => {
            Dataset::csv(file, label, test.as_deref(), seed)
        }
        scenario::Dataset::LibSvm { file, test } => Dataset::libsvm(file, test.as_deref(), seed),
        scenario::Dataset::Npy { train: (features, labels), test } => {
            let test =
                test.as_ref().map(|(features, labels)| (features.as_path(), labels.as_path()));
            Dataset::npy((features, labels), test, seed)
        }
    }
}

/// Samples of `slots` features of `rows` that there are.
fn sparse_dataset(
    dataset: &scenario::Dataset,
    (rows, slots): (usize, usize),
    seed: u64,
) -> Result<Dataset, DataError> {
    match dataset {
        scenario::Dataset::LibSvm { file, test } => {
            Dataset::libsvm_sparse(file, test.as_deref(), (rows, slots), seed)
        }
        _ => Dataset::synthetic(rows, slots, seed),
    }
}

fn compute(compute: &scenario::Compute) -> ComputeSpec {
    ComputeSpec {
        rate: compute.rate,
        memory: compute.memory,
        straggler: compute.straggler.clone(),
        step_time: compute.step_time.clone(),
    }
}

/// How many variables the model `null` reads and updates, as TensorFlow's null step has.
const NULL_VARIABLES: usize = 16;

fn settings(scenario: &Scenario) -> Settings {
    let program = &scenario.program;
    let model = match program.model {
        scenario::Model::Softmax => Model::Softmax,
        scenario::Model::Mlp => Model::Mlp { hidden: program.hidden.clone() },
        scenario::Model::Convnet => Model::Convnet,
        scenario::Model::Embedding(scenario::Embedding { rows, dim, slots, partitions }) => {
            Model::Embedding(Embedding {
                rows,
                dim,
                slots,
                partitions,
                hidden: program.hidden.clone(),
            })
        }
        scenario::Model::Published(published) => Model::Published(match published {
            scenario::Published::Alexnet => Published::Alexnet,
            scenario::Published::Vgg16 => Published::Vgg16,
            scenario::Published::InceptionV3 => Published::InceptionV3,
            scenario::Published::Resnet50 => Published::Resnet50,
        }),
        scenario::Model::Null => Model::Null { variables: NULL_VARIABLES },
    };
    let scenario::Optimizer { rule, learning_rate, clip } = program.optimizer.clone();
    let stop = &scenario.stop;
    Settings {
        model,
        optimizer: OptimizerSettings { rule, learning_rate, clip, top_k: None },
        batch: program.batch,
        averaging: None,
        stop: Stop {
            steps: stop.steps,
            accuracy: stop.accuracy,
            evaluate_every: stop.evaluate_every,
            time: stop.time,
        },
    }
}

fn averaging(scenario::Averaging { every, outer }: scenario::Averaging) -> Averaging {
    let (rule, learning_rate) = match outer {
        None => (UpdateRule::GradientDescent, 1.0),
        Some(scenario::Nesterov { learning_rate, momentum }) => {
            (UpdateRule::Momentum { momentum, use_nesterov: true }, learning_rate)
        }
    };
    let outer =
        OptimizerSettings { rule, learning_rate: learning_rate.into(), clip: None, top_k: None };
    Averaging { every, outer }
}
