//! The memory that a run will need, estimated before it starts: what exceeds the limit is refused,
//! and not ended by the system half-way.

use super::{ExperimentError, Trial};
use crate::kernels::Numerics;
use crate::models::Extent;
use crate::report::World;
use crate::scenario::Scenario;
use crate::tensor::memory_of_machine;
use crate::units::Bytes;

/// A simulated task: its actors, its graph and its plans, as measured with 100 to 1000 workers.
const SIMULATED_TASK: f64 = 512.0 * 1024.0;
/// What each simulated task keeps of each other one.
const PAIR: f64 = 256.0;
/// The process of a task.
const PROCESS: f64 = 24.0 * 1024.0 * 1024.0;
/// A sample of a batch besides its features: its label, and its position among the samples.
const SAMPLE: f64 = 16.0;
const F32: f64 = 4.0;
const I64: f64 = 8.0;

/// An estimate, by what needs the memory \[bytes\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimate {
    tasks: f64,
    data: f64,
    /// Variables and their slots, and what workers hold of them and of their gradients.
    variables: f64,
    /// Batches, and what a step computes of them.
    batches: f64,
    /// Rows that steps look up, whatever their batch, and their values.
    lookups: f64,
    /// What the evaluation of the whole test split holds.
    evaluation: f64,
}

impl Estimate {
    fn total(&self) -> f64 {
        self.tasks + self.data + self.variables + self.batches + self.lookups + self.evaluation
    }

    /// The part that needs most, with the keys that it comes from.
    fn most(&self) -> (&'static str, f64) {
        let parts = [
            ("the tasks (`[cluster]`)", self.tasks),
            ("the data (`program.dataset`)", self.data),
            ("the variables and their gradients (`program.model` and its sizes)", self.variables),
            ("the workers' batches (`program.batch`)", self.batches),
            ("the rows that steps look up (`program.lookups`)", self.lookups),
            ("the evaluation of the test split (`program.dataset`)", self.evaluation),
        ];
        parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are parts")
    }
}

/// Checks that a run in `world` will fit the trial's limit, or this machine.
///
/// # Errors
/// If it will not; the error names what needs most.
pub(super) fn check(trial: &Trial, world: World) -> Result<(), ExperimentError> {
    fits(trial, estimate(trial, world))
}

/// Checks that one task of a deployed run will fit the trial's limit, or this machine.
///
/// # Errors
/// As [`check`].
pub(super) fn check_task(trial: &Trial) -> Result<(), ExperimentError> {
    let of_all = estimate(trial, World::Deployment);
    let tasks = trial.cluster.spec.tasks().count() as f64;
    let workers = trial.cluster.spec.workers().count().max(1) as f64;
    // A worker has a share of the batches; of the variables it has a copy and a gradient, and a
    // parameter server what is left without the workers'.
    let own = Estimate {
        tasks: of_all.tasks / tasks,
        data: of_all.data / tasks,
        variables: of_all.variables / workers,
        batches: of_all.batches / workers,
        lookups: of_all.lookups / workers,
        evaluation: of_all.evaluation,
    };
    fits(trial, own)
}

/// The number of simulations such as `trial` that will fit the limit together.
pub(super) fn how_many_fit(trial: &Trial) -> usize {
    let limit = trial.memory_limit.unwrap_or_else(memory_of_machine);
    (limit.0 as f64 / estimate(trial, World::Simulation).total().max(1.0)) as usize
}

fn fits(trial: &Trial, estimate: Estimate) -> Result<(), ExperimentError> {
    let limit = trial.memory_limit.unwrap_or_else(memory_of_machine);
    if estimate.total() <= limit.0 as f64 {
        return Ok(());
    }
    let (what, bytes) = estimate.most();
    Err(ExperimentError::TooLarge {
        run: trial.name.clone(),
        needs: Bytes(estimate.total() as u64),
        limit,
        what,
        of_it: Bytes(bytes as u64),
    })
}

/// Checks that there will be memory for the tasks of `scenario`, before anything is made for each.
///
/// # Errors
/// If there will not.
pub(super) fn check_tasks(scenario: &Scenario, run: &str) -> Result<(), ExperimentError> {
    let limit = scenario.memory_limit.unwrap_or_else(memory_of_machine);
    let tasks: u64 = scenario.cluster.values().map(|tasks| u64::from(tasks.count())).sum();
    let estimate = Estimate { tasks: of_tasks(tasks as f64), ..Estimate::default() };
    if estimate.tasks <= limit.0 as f64 {
        return Ok(());
    }
    let needs = Bytes(estimate.tasks as u64);
    let (what, _) = estimate.most();
    Err(ExperimentError::TooLarge { run: run.to_owned(), needs, limit, what, of_it: needs })
}

fn of_tasks(tasks: f64) -> f64 {
    tasks * SIMULATED_TASK + tasks * tasks * PAIR
}

fn estimate(trial: &Trial, world: World) -> Estimate {
    let tasks = trial.cluster.spec.tasks().count() as f64;
    let workers = trial.cluster.spec.workers().count() as f64;
    let (processes, of_tasks) = match world {
        World::Simulation => (1.0, of_tasks(tasks)),
        World::Deployment => (tasks, tasks * PROCESS),
    };
    let batch = trial.settings.batch as f64;
    let samples = workers * batch * SAMPLE;
    let computes = trial.cluster.numerics == Numerics::Real;
    let of_model = extent(trial);
    let Extent { parameters, activations, widest, looked_up, .. } =
        if computes { of_model } else { Extent::default() };
    let slots = trial.settings.optimizer.rule.slots_like_variable() as f64;
    // A value and its slots at home; a worker's gradient, and its copy if it is another process.
    let copies = 1.0 + slots + workers * if processes > 1.0 { 2.0 } else { 1.0 };
    let mirrors = match (&trial.settings.all_reduce, trial.cluster.spec.chief()) {
        (Some(_), Some(chief)) => {
            (trial.cluster.spec.replica_of(&chief).len() * trial.settings.towers) as f64
        }
        _ => 1.0,
    };
    Estimate {
        tasks: of_tasks,
        data: processes * data(trial),
        variables: parameters * F32 * copies * mirrors,
        // Each activation has a gradient.
        batches: samples + workers * batch * activations * F32 * 2.0,
        // Each row is a number in the graph of a worker. Its values are read, and have a gradient.
        lookups: workers * (of_model.lookups * I64 + looked_up * F32 * 2.0),
        // One task evaluates, a layer after the other, and each makes its outputs of the last ones.
        evaluation: test_samples(trial) * widest * F32 * 2.0,
    }
}

fn test_samples(trial: &Trial) -> f64 {
    trial.known_data().map_or(0.0, |dataset| dataset.test.len() as f64)
}

/// The size of the model of `trial`; of one whose data are not known, that without features.
pub(super) fn extent(trial: &Trial) -> Extent {
    let split = trial.known_data().map(|dataset| &dataset.train);
    let (width, classes) = split.map_or((0, 0), |split| (split.width(), split.classes()));
    let image = split.and_then(|split| split.image_shape());
    trial.settings.model.extent(width, image, classes)
}

fn data(trial: &Trial) -> f64 {
    let Some(dataset) = trial.known_data() else { return 0.0 };
    if trial.cluster.numerics == Numerics::Shapes {
        return 0.0;
    }
    let values = |split: &crate::data::Split| split.len() as f64 * (split.width() as f64 + 1.0);
    let spec = &trial.cluster.spec;
    let readers: usize = match trial.settings.all_reduce {
        // The first task of a replica reads for each of its tasks.
        Some(_) => spec.workers().map(|first| spec.replica_of(&first).len()).sum(),
        None => spec.workers().count(),
    };
    let buffered = dataset.train.stream();
    let buffered =
        buffered.map_or(0, |stream| stream.shuffled_values(dataset.train.width()) * readers);
    (values(&dataset.train) + values(&dataset.test) + buffered as f64) * F32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn estimates(text: &str, world: World) -> Estimate {
        estimate(&Experiment::parse(text).unwrap().trials().unwrap()[0], world)
    }

    #[test]
    fn a_run_needs_its_variables_with_slots_and_a_gradient_a_worker() {
        let text = "[cluster]\nworker = 3\nps = 1\n[program]\noptimizer = { rule = \"adam\" }\n";
        let parameters = f64::from(65 * 10);
        let simulated = estimates(text, World::Simulation);
        assert_eq!(simulated.variables, parameters * 4.0 * 6.0, "1 + 2 slots + 3 gradients");
        let deployed = estimates(text, World::Deployment);
        assert_eq!(deployed.variables, parameters * 4.0 * 9.0, "and a copy a worker");
        assert_eq!(deployed.data, 4.0 * simulated.data, "each process loads the data");
        assert_eq!(simulated.batches, 3.0 * 32.0 * (16.0 + 74.0 * 8.0));
    }

    #[test]
    fn a_run_needs_the_rows_that_it_looks_up_and_what_an_evaluation_holds() {
        let null = "[program]\nmodel = \"null\"\nvariables = 2\nbytes = \"1MB\"\nlookups = 1000\n";
        let estimate = estimates(null, World::Simulation);
        assert_eq!(estimate.lookups, 2.0 * 1000.0 * (8.0 + 16.0 * 8.0), "of 2 workers");
        let shapes = format!("[compute]\nnumerics = \"shapes\"\n{null}");
        assert_eq!(estimates(&shapes, World::Simulation).lookups, 2.0 * 1000.0 * 8.0);
        let wide = estimates("[program]\nmodel = \"mlp\"\nhidden = [500]\n", World::Simulation);
        let samples = crate::data::Dataset::digits().unwrap().test.len() as f64;
        assert_eq!(wide.evaluation, samples * 500.0 * 8.0);
    }

    #[test]
    fn shapes_take_no_memory_for_numbers() {
        let text = "[compute]\nnumerics = \"shapes\"\n[program]\nmodel = \"vgg16\"\n";
        let estimate = estimates(text, World::Simulation);
        assert_eq!((estimate.variables, estimate.data), (0.0, 0.0));
    }
}
