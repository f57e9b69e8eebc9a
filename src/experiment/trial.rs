//! A trial: one run of an experiment, ready for either world.

mod checkpoints;
mod checks;
pub(super) mod data;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::observed::Observed;
use super::{ExperimentError, Trainer, critical_path};
use crate::checkpoint::Stores;
use crate::clock::{Clock, WallClock};
use crate::cluster::{ClusterSpec, RunConfig, TaskName};
use crate::data::Dataset;
use crate::live::About;
use crate::models::Model;
use crate::report::{self, plan::Price};
use crate::runtime::{Code, Error, Result as TaskResult, Server};
use crate::scenario::{Change, Checkpoint, RunSpec, Scenario};
use crate::simulation::{self, Cluster, Outcome};
use crate::sync::Mode;
use crate::tensor::SimulationLimit;
use crate::training::{
    Checkpointing, Fact, Recording, Settings, SharedRecording, Task, TaskParts, run_to_end,
};
use crate::units::{Bytes, Time};
pub(crate) use checkpoints::folder_of;
use data::{DataKey, LateData};

/// One run of an experiment. Its fields may be changed, for settings that a scenario can't express.
#[derive(Clone)]
pub struct Trial {
    /// The name in the report: the run's name, and the values of the sweeps.
    pub name: String,
    /// The scenario's name.
    pub scenario: String,
    /// The mode and compression, in words.
    pub how: String,
    /// The mode of its workers.
    pub mode: Mode,
    /// The cluster for its simulation.
    pub cluster: Cluster,
    /// The training's settings.
    pub settings: Settings,
    /// The memory that it may take; none for this machine's.
    pub memory_limit: Option<Bytes>,
    /// The training's data; none for a model without data, and if they are loaded when the run
    /// begins.
    pub dataset: Option<Arc<Dataset>>,
    /// The data that are loaded when the run begins, if `dataset` has none.
    pub(super) late: Option<LateData>,
    /// Its checkpoints, if they are not those of the scenario.
    pub checkpointing: Option<Checkpointing>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// The arguments of the program.
    pub(super) arguments: Vec<String>,
    /// Whether its record has the graph that it trains, for event files.
    pub(crate) draws_graph: bool,
    /// Whether the recording of its simulation keeps the weights at the end.
    pub(crate) keeps_weights: bool,
    /// What its tasks and traffic cost.
    pub(super) price: Option<Price>,
    /// The run's name in the scenario.
    pub(super) run: String,
    /// The values of the sweeps.
    pub(super) sweep_values: Vec<Change>,
    /// The number of this launch among those with the same settings, from 1.
    pub(super) repeat: u32,
    /// What decides its data; none for a model without data.
    pub(super) data_key: Option<DataKey>,
}

shown!(Trial, name, how, mode);

/// The result of a trial in simulation.
pub struct Simulated {
    /// The training's record.
    pub recording: Recording,
    /// How the programs ended, and the world's observations.
    pub outcome: Outcome<()>,
    /// The duration on the wall clock.
    pub took: Duration,
}

shown!(Simulated, took);

impl Trial {
    /// `run` of `scenario`, with the values `swept`, without its data.
    ///
    /// # Errors
    /// If the scenario's cluster or network can't exist.
    pub(super) fn new(
        scenario: &Scenario,
        run: &RunSpec,
        swept: &[Change],
    ) -> Result<Self, ExperimentError> {
        let own = scenario.of(run);
        let impossible =
            |error: &dyn std::fmt::Display| ExperimentError::Impossible(error.to_string());
        let jobs = own.cluster.iter().map(|(job, tasks)| (job.as_str(), tasks.count()));
        let cluster = Cluster {
            spec: ClusterSpec::simulated(jobs)
                .map_err(|error| impossible(&error))?
                .with_replicas(own.replicas.clone()),
            hardware: own.hardware.clone(),
            encoding: run.compression.encoding(),
            numerics: own.numerics,
            seed: own.seed,
            faults: own.faults.of_seed(own.seed),
            timeline: None,
            gauges: None,
            replay: None,
            #[cfg(test)]
            dates_ahead: None,
        };
        cluster.hardware.network.validate().map_err(|error| impossible(&error))?;
        for compute in cluster.hardware.all_compute() {
            compute.validate().map_err(|error| impossible(&error))?;
        }
        let mut settings = own.settings.clone();
        settings.optimizer.top_k = run.compression.top_k();
        checks::check(run, &settings, own.numerics)?;
        Ok(Self {
            name: name(run, swept),
            run: run.name.clone(),
            sweep_values: swept.to_vec(),
            repeat: 1,
            scenario: scenario.name.clone(),
            how: run.how(),
            mode: run.mode,
            cluster,
            settings,
            memory_limit: own.memory_limit,
            dataset: None,
            late: None,
            checkpointing: None,
            checkpoint: own.checkpoint.clone(),
            arguments: Vec::new(),
            draws_graph: true,
            keeps_weights: false,
            price: own.plan.price.clone(),
            data_key: DataKey::of(own),
        })
    }

    /// Limits its steps to those that apply as many samples as it is to be trained on.
    ///
    /// # Errors
    /// If that is a number of epochs, and their samples can't be counted.
    pub(super) fn count_samples(&mut self) -> Result<(), ExperimentError> {
        if self.known_data().is_none() && self.settings.model.has_data() {
            // A parameter server of a deployment reads none, and ends with the others.
            return Ok(());
        }
        let workers = self.cluster.spec.workers().count() as u32;
        let of_a_step = self.settings.samples_of_a_step(self.mode, workers);
        let is_made_up = matches!(self.settings.model, Model::Published(_));
        let data = self.known_data().map(|data| &data.train);
        let epoch = match data.filter(|_| !is_made_up) {
            Some(train) => train.count().map_err(ExperimentError::Data)?,
            None => None,
        };
        let epoch = epoch.map(|samples| samples as u64);
        let counted = self.settings.stop.count_samples(of_a_step, epoch);
        counted.map_err(|error| ExperimentError::Impossible(error.to_string()))
    }

    /// Its data, or data with as many samples of the same size.
    pub(super) fn known_data(&self) -> Option<&Dataset> {
        let late = self.late.as_ref().map(|late| &late.like);
        self.dataset.as_ref().or(late).map(|data| &**data)
    }

    /// The same, with its data loaded.
    ///
    /// # Errors
    /// If they can't be loaded any more.
    fn with_data(&self) -> TaskResult<Self> {
        let late = self.late.as_ref().filter(|_| self.dataset.is_none());
        let dataset = late.map(LateData::load).transpose()?;
        Ok(Self { dataset: self.dataset.clone().or(dataset), ..self.clone() })
    }

    /// Simulates it with the program `trainer`.
    pub fn simulate(&self, trainer: &impl Trainer) -> Simulated {
        self.simulate_on_servers(SharedRecording::default(), |_, task| trainer(task))
    }

    /// Simulates it with `program`, which gets each task and its server. Steps go to `recording`.
    /// Checkpoints are in memory and belong to the run.
    pub fn simulate_on_servers<F>(
        &self,
        recording: SharedRecording,
        program: impl Fn(Rc<Server>, Task) -> F + Sync,
    ) -> Simulated
    where
        F: Future<Output = TaskResult<()>> + 'static,
    {
        let _limit = SimulationLimit::new(self.memory_limit);
        let wall = WallClock::new();
        let (own, checkpointing) = (self.with_data(), self.simulated_checkpoints());
        let (stores, in_the_chief) = (Stores::in_memory(), self.keeps_checkpoints_in_the_chief());
        let start = |server: Rc<Server>| {
            let saved = match in_the_chief {
                true => self.simulated_checkpoints(), // a task's next life has none
                false => checkpointing.clone(),
            };
            let own = own.as_ref().map_err(Clone::clone);
            let recorder = simulated_recorder(recording.clone());
            let task = own.and_then(|own| {
                own.task(Rc::clone(&server), saved, stores.clone(), recorder, None)
            });
            let task = match self.keeps_weights {
                true => task.map(|task| task.keeping_weights_in(&recording)),
                false => task,
            };
            run_to_end(task.map(|task| (task.clone(), program(server, task))))
        };
        let outcome = simulation::run(&self.cluster, start);
        let took = wall.now().since(Time::ZERO);
        self.compare_weights(Simulated { recording: recording.finish(), outcome, took })
    }

    /// The task of `server`, in either world; `config` is what the environment says of it.
    pub(crate) fn task(
        &self,
        server: Rc<Server>,
        checkpointing: Option<Checkpointing>,
        stores: Stores,
        recorder: Rc<dyn Fn(Fact)>,
        config: Option<RunConfig>,
    ) -> TaskResult<Task> {
        if self.checkpoint_place().is_some() {
            server.training().expect_lasting_checkpoints();
        }
        let task = Task::new(TaskParts {
            server,
            mode: self.mode,
            seed: self.cluster.seed,
            run_folder: format!("{}-seed-{}", folder_of(&self.run), self.cluster.seed),
            settings: self.settings.clone(),
            dataset: self.dataset.clone(),
            checkpointing,
            stores,
            recorder,
            config,
            arguments: self.arguments.clone(),
        })?;
        Ok(if self.draws_graph { task } else { task.without_drawn_graph() })
    }

    /// The run's entry in the report. A run whose last checkpoint could not be written has one.
    ///
    /// # Errors
    /// If it failed, or a fault has ended its chief for good: the trained model is lost with it.
    pub fn report(&self, simulated: &Simulated) -> Result<report::Run, ExperimentError> {
        let Simulated { recording, outcome, took } = simulated;
        let failed = |error| ExperimentError::Run { run: self.name.clone(), error };
        match &outcome.result {
            Err(error) if !recording.is_unsaved() => return Err(failed(error.clone())),
            Ok(returned) => self.check_chief_returned(returned).map_err(failed)?,
            Err(_) => {}
        }
        Ok(self.summarise(recording, &Observed::simulated(outcome, &self.cluster), *took))
    }

    /// Fails unless the chief is among the tasks that have `returned`, as a launch does.
    fn check_chief_returned(&self, returned: &BTreeMap<TaskName, ()>) -> TaskResult<()> {
        let chief = self.cluster.spec.chief().filter(|chief| !returned.contains_key(chief));
        chief.map_or(Ok(()), |chief| {
            let message = format!(
                "{chief}, the chief, was killed or stopped and not started again, so that there is \
                 no trained model and no result; give its `crash` or `stop` a `restart_after`"
            );
            Err(Error::new(Code::Unavailable, message).on(&chief))
        })
    }

    /// What a board says of the run in `world`.
    pub(crate) fn about(&self, world: report::World) -> About {
        let world = match world {
            report::World::Simulation => "simulation",
            report::World::Deployment => "deployment",
        };
        About { run: self.name.clone(), world, total_steps: self.settings.stop.steps }
    }

    /// The run's name in the scenario.
    pub(super) fn run_name(&self) -> &str {
        &self.run
    }

    /// The same, launched once more as number `repeat`, from 1, under a name that tells it.
    #[must_use]
    pub(crate) fn repeated(&self, repeat: u32) -> Self {
        let swept = self.sweep_values.iter().map(Change::to_string);
        let values = swept.chain([format!("repeat={repeat}")]);
        Self { name: named(&self.run, values), repeat, ..self.clone() }
    }

    /// The values of the sweeps, but for the seed.
    pub(super) fn swept(&self) -> report::Swept {
        let swept = self.sweep_values.iter().map(Change::key_and_value);
        swept.filter(|(key, _)| key != Change::SEED).collect()
    }
}

/// Records in `recording`, and has the simulation know the end of each step.
fn simulated_recorder(recording: SharedRecording) -> Rc<dyn Fn(Fact)> {
    Rc::new(move |fact| {
        if let Fact::Step(step) = &fact {
            simulation::end_step(
                &step.worker,
                step.global_step,
                step.started,
                critical_path::how_ended(step),
            );
        }
        recording.record(fact);
    })
}

/// `async (cluster.worker=4, seed=1)`
fn name(run: &RunSpec, swept: &[Change]) -> String {
    match swept.is_empty() {
        true => run.name.clone(),
        false => named(&run.name, swept.iter().map(Change::to_string)),
    }
}

fn named(run: &str, values: impl Iterator<Item = String>) -> String {
    format!("{run} ({})", values.collect::<Vec<_>>().join(", "))
}
