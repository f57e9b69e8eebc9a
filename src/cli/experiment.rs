//! An experiment: what a scenario means. What is here can be run.

use std::rc::Rc;
use std::sync::Arc;

use super::failure::Failure;
use super::recording::SharedRecording;
use crate::clock::Clock;
use crate::cluster::ClusterSpec;
use crate::graph::UpdateRule;
use crate::runtime::{Encoding, Server};
use crate::simulation::scenario::{self, Rule, Scenario};
use crate::simulation::{Cluster, ComputeSpec};
use crate::training::data::{DataError, Dataset};
use crate::training::{Averaging, Embedding, Model, OptimizerSettings, Published, Settings, Stop, TaskParts};

/// A cluster, a training, and the runs to compare.
pub(super) struct Experiment {
    pub(super) cluster: Cluster,
    pub(super) settings: Settings,
    pub(super) dataset: Option<Arc<Dataset>>,
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
            Model::Softmax | Model::Mlp { .. } | Model::Convnet => {
                Some(Arc::new(dataset(&scenario.program.dataset, scenario.seed).map_err(Failure::Data)?))
            }
            Model::Published(published) => {
                let (image, classes) = published.images();
                let images = Dataset::random_images(image, classes, scenario.compute.numerics, scenario.seed);
                Some(Arc::new(images.map_err(Failure::Data)?))
            }
            Model::Embedding(Embedding { rows, slots, .. }) => {
                let samples = sparse_dataset(&scenario.program.dataset, (rows, slots), scenario.seed);
                Some(Arc::new(samples.map_err(Failure::Data)?))
            }
        };
        Ok(Self { cluster, settings, dataset, runs: scenario.runs.clone() })
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
        recording: &SharedRecording,
    ) -> TaskParts {
        let (mut settings, dataset) = (self.settings.clone(), self.dataset.clone());
        settings.averaging = run.averaging.map(averaging);
        let sent = settings.averaging.as_mut().map_or(&mut settings.optimizer, |averaging| &mut averaging.outer);
        sent.top_k = run.compression.top_k();
        TaskParts {
            server,
            clock,
            mode: run.mode,
            seed: self.cluster.seed,
            settings,
            dataset,
            checkpointing: None,
            recorder: Rc::new(recording.clone()),
        }
    }
}

fn dataset(dataset: &scenario::Dataset, seed: u64) -> Result<Dataset, DataError> {
    match dataset {
        scenario::Dataset::Digits => Dataset::digits(),
        scenario::Dataset::Synthetic => panic!("a scenario has synthetic samples only for models that make their own"),
        scenario::Dataset::Idx { directory } => Dataset::idx(directory),
        scenario::Dataset::Csv { file, label, test } => Dataset::csv(file, label, test.as_deref(), seed),
        scenario::Dataset::LibSvm { file, test } => Dataset::libsvm(file, test.as_deref(), seed),
        scenario::Dataset::Npy { train: (features, labels), test } => {
            let test = test.as_ref().map(|(features, labels)| (features.as_path(), labels.as_path()));
            Dataset::npy((features, labels), test, seed)
        }
    }
}

/// Samples of `slots` features of `rows` that there are.
fn sparse_dataset(dataset: &scenario::Dataset, (rows, slots): (usize, usize), seed: u64) -> Result<Dataset, DataError> {
    match dataset {
        scenario::Dataset::LibSvm { file, test } => Dataset::libsvm_sparse(file, test.as_deref(), (rows, slots), seed),
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
            Model::Embedding(Embedding { rows, dim, slots, partitions, hidden: program.hidden.clone() })
        }
        scenario::Model::Published(published) => Model::Published(match published {
            scenario::Published::Alexnet => Published::Alexnet,
            scenario::Published::Vgg16 => Published::Vgg16,
            scenario::Published::InceptionV3 => Published::InceptionV3,
            scenario::Published::Resnet50 => Published::Resnet50,
        }),
        scenario::Model::Null => Model::Null { variables: NULL_VARIABLES },
    };
    let stop = &scenario.stop;
    Settings {
        model,
        optimizer: optimizer(&program.optimizer),
        batch: program.batch,
        averaging: None,
        stop: Stop { steps: stop.steps, accuracy: stop.accuracy, evaluate_every: stop.evaluate_every, time: stop.time },
    }
}

fn averaging(scenario::Averaging { every, outer }: scenario::Averaging) -> Averaging {
    let (rule, learning_rate) = match outer {
        None => (UpdateRule::GradientDescent, 1.0),
        Some(scenario::Nesterov { learning_rate, momentum }) => {
            (UpdateRule::Momentum { momentum, use_nesterov: true }, learning_rate)
        }
    };
    Averaging { every, outer: OptimizerSettings { rule, learning_rate, top_k: None } }
}

/// The learning rate where a scenario names none. TensorFlow has a default for Adam alone.
const LEARNING_RATE: f32 = 0.01;

fn optimizer(optimizer: &scenario::Optimizer) -> OptimizerSettings {
    let rule = match optimizer.rule {
        Rule::GradientDescent => UpdateRule::GradientDescent,
        Rule::Momentum => UpdateRule::Momentum {
            momentum: optimizer.momentum.unwrap_or(0.9),
            use_nesterov: optimizer.use_nesterov.unwrap_or(false),
        },
        Rule::Adagrad => {
            UpdateRule::Adagrad { initial_accumulator_value: optimizer.initial_accumulator_value.unwrap_or(0.1) }
        }
        Rule::Adam => UpdateRule::Adam {
            beta1: optimizer.beta1.unwrap_or(0.9),
            beta2: optimizer.beta2.unwrap_or(0.999),
            epsilon: optimizer.epsilon.unwrap_or(1e-8),
        },
    };
    let default = if optimizer.rule == Rule::Adam { 0.001 } else { LEARNING_RATE };
    OptimizerSettings { rule, learning_rate: optimizer.learning_rate.unwrap_or(default), top_k: None }
}
