//! Trainings in simulation, as tests ask for them, and what they told of themselves.

use std::future::Future;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trainyard::checkpoint::{Memory, Stores};
use trainyard::cluster::TaskName;
use trainyard::data::{Dataset, Split};
use trainyard::experiment::{Experiment, Trial};
use trainyard::graph::UpdateRule;
use trainyard::kernels::Numerics;
use trainyard::models::{Embedding, Model, Null};
use trainyard::prelude::*;
use trainyard::runtime::Encoding;
use trainyard::simulation::{
    ComputeSpec, Fault, FaultKind, Hardware, Law, Noise, Outcome, Trigger,
};
use trainyard::sync::Mode;
use trainyard::training::{
    Checkpointing, Ending, Evaluation, SecondOrStepTimer, Settings, SharedRecording, StepStats,
    TaskParts, Watch, train,
};
use trainyard::units::{BytesPerSecond, Time};

/// A training to be run. It begins as the null program on a network that takes next to no time.
#[derive(Clone)]
pub(crate) struct Simulated {
    trial: Trial,
    /// How much wall clock time is wasted at each step.
    wasted: Duration,
}

/// What a training told, and what its world saw.
pub(crate) struct Trained {
    pub(crate) steps: Vec<StepStats>,
    pub(crate) ending: Option<Ending>,
    /// The last look at the test split.
    pub(crate) evaluation: Option<Evaluation>,
    pub(crate) outcome: Outcome<()>,
}

/// Makes this machine slower: each step takes so much more of the wall clock.
struct Waste(Duration);

impl Watch for Waste {
    fn update(&mut self, _: u64, _: Option<f32>, _: Time) {
        let began = Instant::now();
        while began.elapsed() < self.0 {}
    }

    fn finish(self: Box<Self>) {}
}

/// The null program, as a scenario.
fn scenario(ps: u32, workers: u32) -> String {
    let ps = if ps > 0 { format!("ps = {ps}\n") } else { String::new() };
    format!(
        "seed = 7\n[cluster]\n{ps}worker = {workers}\n\
         [network]\nlatency = \"1ns\"\nbandwidth = \"8000Gbps\"\nmessage_cost = \"0s\"\n\
         silence = \"1s\"\n\
         [program]\nmodel = \"null\"\nbatch = 8\noptimizer = {{ learning_rate = 0.1 }}\n\
         [stop]\nsteps = 100\n"
    )
}

/// Methods that put a value into the trial, a line each.
macro_rules! settings {
    ($($name:ident($($argument:ident: $type:ty)?) $($place:ident).+ = $value:expr;)*) => {
        impl Simulated {$(
            pub(crate) fn $name(mut self $(, $argument: $type)?) -> Self {
                self.trial.$($place).+ = $value;
                self
            }
        )*}
    };
}

settings! {
    seed(seed: u64) cluster.seed = seed;
    steps(steps: u64) settings.stop.steps = Some(steps);
    step_time(law: Law) cluster.hardware.compute.step_time = Some(law);
    memory(memory: BytesPerSecond) cluster.hardware.compute.memory = memory;
    stop_cost(cost: Duration) cluster.hardware.compute.stop_cost = cost;
    noise(noise: Vec<Noise>) cluster.hardware.noise = noise;
    latency(latency: Duration) cluster.hardware.network.latency = latency;
    encoding(encoding: Encoding) cluster.encoding = encoding;
    devices(devices: u32) cluster.hardware.devices = NonZeroU32::new(devices).unwrap();
    shapes() cluster.numerics = Numerics::Shapes;
    model(model: Model) settings.model = model;
    batch(batch: usize) settings.batch = batch;
    read_ahead(read_ahead: bool) settings.read_ahead = read_ahead;
    rule(rule: UpdateRule) settings.optimizer.rule = rule;
    optimizer(optimizer: impl Into<Optimizer>) settings.optimizer = optimizer.into();
    top_k(fraction: f64) settings.optimizer.top_k = Some(fraction);
}

impl Simulated {
    pub(crate) fn new(ps: u32, workers: u32, mode: Mode) -> Self {
        let mut trial =
            Experiment::parse(scenario(ps, workers)).unwrap().trials().unwrap().remove(0);
        trial.mode = mode;
        trial.settings.model = Model::Null(Null::scalars(1));
        Self { trial, wasted: Duration::ZERO }
    }

    /// Ends the training after this time, and not before.
    pub(crate) fn until(mut self, limit: Duration) -> Self {
        (self.trial.settings.stop.steps, self.trial.settings.stop.time) = (None, Some(limit));
        self
    }

    /// Softmax regression of the digits, with a straggler law, on a network that is felt.
    pub(crate) fn digits(mut self) -> Self {
        self.trial.settings.model = Model::Softmax;
        self.trial.dataset = Some(Arc::new(Dataset::digits().unwrap()));
        let Hardware { compute, network, .. } = &mut self.trial.cluster.hardware;
        compute.straggler = Some(Law::Lognormal { mean: 1.0, sigma: 0.3 });
        network.latency = Duration::from_micros(50);
        network.bandwidth = BytesPerSecond(1.25e9);
        network.message_cost = Duration::from_micros(5);
        self
    }

    /// A wide and deep model with a table of `rows` rows in four shards, on a network that is felt.
    /// The samples' ids are spread over the table likewise, whatever its size.
    pub(crate) fn embedding(mut self, rows: usize) -> Self {
        const SAMPLES: usize = 64;
        let ids: Vec<i64> =
            (0..SAMPLES * 4).map(|i| ((i * i * 7 + 3 * i) % 100 * (rows / 100)) as i64).collect();
        let labels: Vec<i32> = (0..SAMPLES).map(|i| (ids[4 * i] > ids[4 * i + 1]) as i32).collect();
        let ids = Tensor::new([SAMPLES, 4], &ids).unwrap();
        let labels = Tensor::new([SAMPLES], &labels).unwrap();
        let split =
            Split::new(Tensor::full([SAMPLES, 4], 1f32), labels, 2).unwrap().with_ids(ids).unwrap();
        self.trial.dataset = Some(Arc::new(Dataset { train: split.clone(), test: split }));
        self.trial.settings.model =
            Model::Embedding(Embedding { rows, dim: 16, slots: 4, partitions: 4, hidden: vec![8] });
        let network = &mut self.trial.cluster.hardware.network;
        network.latency = Duration::from_micros(50);
        network.bandwidth = BytesPerSecond(1.25e9);
        self
    }

    /// Keeps checkpoints in `store`, one every so many steps.
    pub(crate) fn checkpoints(mut self, store: &Memory, every: u64) -> Self {
        let every = SecondOrStepTimer::every_steps(every);
        self.trial.checkpointing =
            Some(Checkpointing { every, ..Checkpointing::new(Arc::new(store.clone())) });
        self
    }

    /// Keeps all of them.
    pub(crate) fn keep_all_checkpoints(mut self) -> Self {
        self.trial.checkpointing.as_mut().unwrap().retention.max_to_keep = None;
        self
    }

    pub(crate) fn adam(self, learning_rate: f32) -> Self {
        self.optimizer(Adam::new(learning_rate))
    }

    pub(crate) fn slow(mut self, worker: u32, factor: f64) -> Self {
        self.trial.cluster.hardware.slow.insert(TaskName::new("worker", worker), factor);
        self
    }

    /// Makes this machine slower: each step takes so much more of the wall clock.
    pub(crate) fn wasting(mut self, wasted: Duration) -> Self {
        self.wasted = wasted;
        self
    }

    /// Runs the built-in trainer to its end.
    pub(crate) fn run(&self) -> Trained {
        let trained = self.run_program(train);
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        trained
    }

    /// Runs the built-in trainer, in which each worker begins a share of `period` after the one
    /// before.
    pub(crate) fn run_staggered(&self, period: Duration) -> Trained {
        self.run_on_servers(|server, task| async move {
            let workers = task.replica().map_or(1, |replica| replica.workers);
            let delay = period * task.index() / workers;
            server.clock().sleep_until(server.clock().now().after(delay)).await;
            train(task).await
        })
    }

    /// Runs `program` as every task.
    pub(crate) fn run_program<F>(&self, program: impl Fn(Task) -> F + Sync) -> Trained
    where
        F: Future<Output = Result<()>> + 'static,
    {
        self.run_on_servers(|_, task| program(task))
    }

    /// Runs `program` as every task, with what hosts it.
    pub(crate) fn run_on_servers<F>(
        &self,
        program: impl Fn(Rc<Server>, Task) -> F + Sync,
    ) -> Trained
    where
        F: Future<Output = Result<()>> + 'static,
    {
        let recording = SharedRecording::showing(Waste(self.wasted));
        let simulated = self.trial.simulate_on_servers(recording, program);
        let (recording, outcome) = (simulated.recording, simulated.outcome);
        let evaluation = recording.evaluations.last().copied();
        Trained {
            steps: recording.steps().collect(),
            ending: recording.ending,
            evaluation,
            outcome,
        }
    }

    /// Each piece of work of parameter server `index` takes a time of its own.
    pub(crate) fn service_time(mut self, index: u32, law: Law) -> Self {
        let cluster = &mut self.trial.cluster;
        let own = ComputeSpec { step_time: Some(law), ..cluster.hardware.compute.clone() };
        cluster.hardware.own_compute.insert(TaskName::new("ps", index), own);
        self
    }

    /// Something goes wrong.
    pub(crate) fn fault(mut self, at: Trigger, kind: FaultKind) -> Self {
        self.trial.cluster.faults.list.push(Fault { at, kind });
        self
    }

    pub(crate) fn trial(&self) -> &Trial {
        &self.trial
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.trial.settings
    }

    pub(crate) fn mode(&self) -> Mode {
        self.trial.mode
    }

    pub(crate) fn workers(&self) -> usize {
        self.trial.cluster.spec.num_tasks("worker").unwrap()
    }
}

/// The weights that the built-in trainer ends `trial` with, in simulation.
#[track_caller]
pub(crate) fn weights(trial: &Trial) -> u64 {
    weights_of(trial, &train)
}

/// The weights that `program` ends `trial` with, in simulation.
#[track_caller]
pub(crate) fn weights_of<F>(trial: &Trial, program: &(impl Fn(Task) -> F + Sync)) -> u64
where
    F: Future<Output = Result<()>> + 'static,
{
    let simulated = trial.simulate(program);
    simulated.outcome.result.unwrap();
    simulated.recording.ending.unwrap().weights_digest.unwrap()
}

impl Trained {
    /// The weights at the end, of a training that ended well.
    #[track_caller]
    pub(crate) fn weights(&self) -> u64 {
        assert!(self.outcome.result.is_ok(), "{:?}", self.outcome.result);
        self.ending.expect("the chief has ended").weights_digest.expect("there are numbers")
    }

    /// The events, and the weights where there are any.
    pub(crate) fn digests(&self) -> (u64, Option<u64>) {
        (self.outcome.digest.0, self.ending.and_then(|ending| ending.weights_digest))
    }

    /// The steps whose gradient was applied, after the first `warm_up` global steps and up to
    /// `last`.
    pub(crate) fn applied(
        &self,
        warm_up: u64,
        last: u64,
    ) -> impl Iterator<Item = &StepStats> + Clone {
        let is_wanted = move |step: &&StepStats| {
            step.applied && step.global_step > warm_up && step.global_step <= last
        };
        self.steps.iter().filter(is_wanted)
    }

    /// When the global step `step` was reached \[s\].
    pub(crate) fn reached(&self, step: u64) -> f64 {
        let at = self
            .steps
            .iter()
            .filter(|stats| stats.applied && stats.global_step >= step)
            .map(|stats| stats.ended);
        at.min().expect("the training got there").as_secs_f64()
    }
}

pub(crate) fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// Asserts that `measured` is within `share` of `expected`.
#[track_caller]
pub(crate) fn assert_near(what: &str, measured: f64, expected: f64, share: f64) {
    let off = (measured / expected - 1.0).abs();
    assert!(
        off <= share,
        "{what}: measured {measured}, expected {expected}: off by {:.2} %",
        off * 100.0
    );
}

/// An asynchronous worker of two on `server`, on the wall clock.
pub(crate) fn real_worker(server: Server) -> Result<Task> {
    real_worker_with(server, Stores::in_memory())
}

/// The same; what it calls a place of checkpoints is one of `stores`.
pub(crate) fn real_worker_with(server: Server, stores: Stores) -> Result<Task> {
    Task::new(TaskParts {
        server: Rc::new(server),
        mode: Mode::Async,
        seed: 7,
        run_folder: "run".to_owned(),
        settings: Simulated::new(0, 2, Mode::Async).settings().clone(),
        dataset: None,
        checkpointing: None,
        stores,
        recorder: Rc::new(|_| {}),
        config: None,
        arguments: Vec::new(),
    })
}
