//! A trial: one run of an experiment, ready for either world.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::scenario::{Change, Checkpoint, Run, Scenario};
use super::summary::{self, Observed};
use super::{ExperimentError, Trainer};
use crate::checkpoint::{Memory, Stores, open_store};
use crate::clock::{Clock, WallClock};
use crate::cluster::ClusterSpec;
use crate::data::{Dataset, Source};
use crate::kernels::Numerics;
use crate::models::Model;
use crate::report;
use crate::runtime::{Error, Result as TaskResult, Server};
use crate::simulation::{self, Cluster, Host, Outcome};
use crate::sync::Mode;
use crate::training::{Checkpointing, Recording, Settings, SharedRecording, Task, TaskParts};
use crate::units::Time;

/// One run of an experiment. Its fields may be changed, for what a scenario can't say.
#[derive(Clone)]
pub struct Trial {
    /// What the report calls it: its run, and the values of the sweeps.
    pub name: String,
    /// The scenario's name.
    pub scenario: String,
    /// How its workers are coordinated, in words.
    pub how: String,
    /// How they are.
    pub mode: Mode,
    /// The cluster that it is simulated on.
    pub cluster: Cluster,
    /// What is trained.
    pub settings: Settings,
    /// What it is trained on; none for a model without data.
    pub dataset: Option<Arc<Dataset>>,
    /// Where its checkpoints are, if not where the scenario says.
    pub checkpointing: Option<Checkpointing>,
    checkpoint: Option<Checkpoint>,
    /// Its run, and the values of the sweeps.
    pub(super) origin: (String, Vec<Change>),
    /// By what `dataset` is known to be the same as another's.
    pub(super) data_key: (Model, Source, Numerics, u64),
}

/// What came of a trial in simulation.
pub struct Simulated {
    /// What the training told of itself.
    pub recording: Recording,
    /// How the programs ended, and what the world saw of them.
    pub outcome: Outcome<()>,
    /// How long that took on the wall clock.
    pub took: Duration,
}

impl Trial {
    /// `run` of `scenario`, which has the values `swept`, without its data.
    ///
    /// # Errors
    /// If the scenario's cluster or network is none.
    pub(super) fn new(
        scenario: &Scenario,
        run: &Run,
        swept: &[Change],
    ) -> Result<Self, ExperimentError> {
        let own = scenario.of(run);
        let impossible =
            |error: &dyn std::fmt::Display| ExperimentError::Impossible(error.to_string());
        let jobs = own.cluster.iter().map(|(job, tasks)| (job.as_str(), tasks.count()));
        let cluster = Cluster {
            spec: ClusterSpec::simulated(jobs).map_err(|error| impossible(&error))?,
            network: own.network.clone(),
            encoding: run.compression.encoding(),
            compute: own.compute.clone(),
            devices: own.devices,
            slow: own.slow.clone(),
            numerics: own.numerics,
            seed: own.seed,
            faults: own.faults.clone(),
        };
        cluster.network.validate().map_err(|error| impossible(&error))?;
        cluster.compute.validate().map_err(|error| impossible(&error))?;
        let mut settings = own.settings.clone();
        settings.optimizer.top_k = run.compression.top_k();
        let data_key = (settings.model.clone(), own.dataset.clone(), own.numerics, own.seed);
        Ok(Self {
            name: name(run, swept),
            origin: (run.name.clone(), swept.to_vec()),
            scenario: scenario.name.clone(),
            how: run.how(),
            mode: run.mode,
            cluster,
            settings,
            dataset: None,
            checkpointing: None,
            checkpoint: own.checkpoint.clone(),
            data_key,
        })
    }

    /// Runs it in simulation as `trainer`.
    pub fn simulate(&self, trainer: &impl Trainer) -> Simulated {
        self.simulate_hosted(SharedRecording::default(), |_, task| trainer(task))
    }

    /// Runs it in simulation as `program`, which is handed each task and what hosts it, and whose
    /// steps go to `recording`. Checkpoints are in memory, the run's own.
    pub fn simulate_hosted<F>(
        &self,
        recording: SharedRecording,
        program: impl Fn(Host, Task) -> F + Sync,
    ) -> Simulated
    where
        F: Future<Output = TaskResult<()>> + 'static,
    {
        let wall = WallClock::new();
        let in_memory = || Arc::new(Memory::default());
        let checkpointing = self.checkpointing.clone();
        let checkpointing = checkpointing
            .or_else(|| self.checkpoint.as_ref().map(|often| often.in_store(in_memory())));
        let stores = Stores::in_memory();
        let start = |host: Host| {
            let place = (Rc::clone(&host.server), Rc::clone(&host.clock));
            let task = self.task(place, (checkpointing.clone(), stores.clone()), &recording);
            let running = task.map(|task| program(host, task));
            async { running?.await }
        };
        let outcome = simulation::run(&self.cluster, start);
        let took = wall.now().since(Time::ZERO);
        Simulated { recording: recording.finish(), outcome, took }
    }

    /// A task of it, on a server of either world.
    pub(crate) fn task(
        &self,
        (server, clock): (Rc<Server>, Rc<dyn Clock>),
        (checkpointing, stores): (Option<Checkpointing>, Stores),
        recording: &SharedRecording,
    ) -> TaskResult<Task> {
        Task::new(TaskParts {
            server,
            clock,
            mode: self.mode,
            seed: self.cluster.seed,
            settings: self.settings.clone(),
            dataset: self.dataset.clone(),
            checkpointing,
            stores,
            recorder: Rc::new(recording.clone()),
        })
    }

    /// Where it keeps its checkpoints when it is deployed: a folder of its own below the
    /// scenario's.
    ///
    /// # Errors
    /// If there can be none.
    pub(crate) fn deployed_checkpoints(&self) -> Result<Option<Checkpointing>, Error> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(None) };
        let Some(directory) = &checkpoint.directory else {
            return Ok(Some(checkpoint.in_store(Arc::new(Memory::default()))));
        };
        let legal = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }
        };
        let run: String = self.name.chars().map(legal).collect();
        let store = open_store(&format!("{}/{run}", directory.trim_end_matches('/')))?;
        Ok(Some(checkpoint.in_store(store)))
    }

    /// The row of the report for what came of it.
    ///
    /// # Errors
    /// If it failed.
    pub fn report(&self, simulated: &Simulated) -> Result<report::Run, ExperimentError> {
        let Simulated { recording, outcome, took } = simulated;
        match &outcome.result {
            Err(error) => {
                Err(ExperimentError::Run { run: self.name.clone(), error: error.clone() })
            }
            Ok(_) => Ok(self.summarise(recording, &Observed::from(outcome), *took)),
        }
    }

    /// The row of the report for what a training told and its world saw.
    pub(crate) fn summarise(
        &self,
        recording: &Recording,
        observed: &Observed,
        took: Duration,
    ) -> report::Run {
        summary::of(self, recording, observed, took)
    }

    /// Whether it has a target that `run` has not reached.
    pub fn misses_target(&self, run: &report::Run) -> bool {
        self.settings.stop.accuracy.is_some() && run.seconds_to_target.is_none()
    }
}

/// `async (cluster.worker=4, seed=1)`
fn name(run: &Run, swept: &[Change]) -> String {
    if swept.is_empty() {
        return run.name.clone();
    }
    let values: Vec<String> = swept.iter().map(Change::to_string).collect();
    format!("{} ({})", run.name, values.join(", "))
}
