//! The runs that a machine is calibrated by: short trainings, each deployed and then simulated.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use crate::deployment::{DeploymentError, Ended, Folder, StopRequest};
use crate::experiment::{Experiment, ExperimentError, Launcher, Trial};
use crate::kernels::Numerics;
use crate::simulation::Noise;
use crate::sync::Mode;
use crate::training::{Recording, train};

use super::noise::Listened;
use super::{Machine, median};

/// The number of rounds, in each of which each run is deployed once: what disturbs the machine for
/// a second spoils one measurement of a run, and not all.
const ROUNDS: usize = 3;
/// The wall clock time of each deployment, beside its start.
const LASTS: Duration = Duration::from_millis(400);
/// The time for which each core is listened to before a round.
const LISTENS: Duration = Duration::from_millis(500);
/// The share of steps at the beginning that warm up.
const WARM_UP: f64 = 0.2;
/// The steps of each worker in a simulation.
const SIMULATED_STEPS: u64 = 40;

/// A run: what it is called, its tasks, its program and its mode.
struct Plan {
    name: &'static str,
    ps: u32,
    workers: u32,
    program: &'static str,
    mode: &'static str,
}

/// A plan, by its columns.
const fn plan(
    name: &'static str,
    (ps, workers): (u32, u32),
    program: &'static str,
    mode: &'static str,
) -> Plan {
    Plan { name, ps, workers, program, mode }
}

/// Next to no arithmetic, and many operations for that.
const VARIABLES: &str = "model = \"null\"\nvariables = 40";
const FEW_VARIABLES: &str = "model = \"null\"\nvariables = 6";
const SOFTMAX: &str = "model = \"softmax\"\nbatch = 16";
const THIN: &str = "model = \"mlp\"\nhidden = [32]\nbatch = 64";
const MIDDLE: &str = "model = \"mlp\"\nhidden = [96]\nbatch = 48";
const WIDE: &str = "model = \"mlp\"\nhidden = [1024]\nbatch = 64";
const DEEP: &str = "model = \"mlp\"\nhidden = [256, 256, 256]\nbatch = 256";
const HEAVY: &str = "model = \"mlp\"\nhidden = [256, 1024]\nbatch = 16";
const IMAGES: &str = "model = \"convnet\"\nbatch = 96";
const FEW_IMAGES: &str = "model = \"convnet\"\nbatch = 20";
const BROAD: &str = "model = \"mlp\"\nhidden = [768, 768]\nbatch = 112";

/// Runs of all kinds of cost: few and many bytes, small and large kernels, tasks that share cores.
const PLANS: [Plan; 28] = [
    plan("softmax", (1, 1), SOFTMAX, "async"),
    plan("softmax, 2 workers", (1, 2), SOFTMAX, "async"),
    plan("softmax, sync, 2 workers", (1, 2), SOFTMAX, "sync"),
    plan("softmax, 2 ps, 4 workers", (2, 4), SOFTMAX, "async"),
    plan("variables, 2 workers", (1, 2), VARIABLES, "async"),
    plan("variables, sync, 2 ps, 2 workers", (2, 2), FEW_VARIABLES, "sync"),
    plan("thin, sync", (1, 1), THIN, "sync"),
    plan("thin, 2 ps, 2 workers", (2, 2), THIN, "async"),
    plan("thin, sync, 2 ps, 4 workers", (2, 4), THIN, "sync"),
    plan("middle", (1, 1), MIDDLE, "async"),
    plan("middle, sync, 2 workers", (1, 2), MIDDLE, "sync"),
    plan("middle, sync, 2 ps, 2 workers", (2, 2), MIDDLE, "sync"),
    plan("wide", (1, 1), WIDE, "async"),
    plan("wide, 2 workers", (1, 2), WIDE, "sync"),
    plan("deep", (1, 1), DEEP, "sync"),
    plan("deep, 2 ps, 2 workers", (2, 2), DEEP, "async"),
    plan("heavy", (1, 1), HEAVY, "async"),
    plan("heavy, 2 ps, 4 workers", (2, 4), HEAVY, "async"),
    plan("images", (1, 1), IMAGES, "sync"),
    plan("images, 2 ps, 2 workers", (2, 2), IMAGES, "async"),
    plan("few images", (1, 1), FEW_IMAGES, "async"),
    plan("few images, sync, 2 workers", (1, 2), FEW_IMAGES, "sync"),
    plan("few images, 4 workers", (1, 4), FEW_IMAGES, "async"),
    plan("few images, sync, 2 ps, 4 workers", (2, 4), FEW_IMAGES, "sync"),
    plan("broad", (1, 1), BROAD, "sync"),
    plan("broad, 2 workers", (1, 2), BROAD, "async"),
    plan("broad, sync, 2 ps, 2 workers", (2, 2), BROAD, "sync"),
    plan("broad, 4 workers", (1, 4), BROAD, "async"),
];

/// A run that was measured.
pub(super) struct Measured {
    pub(super) name: &'static str,
    /// By round: the median of the workers' steps, deployed \[s\]. The least first.
    steps: Vec<f64>,
    trial: Trial,
}

impl Plan {
    fn experiment(&self) -> Result<Experiment, ExperimentError> {
        let Self { name, ps, workers, program, mode } = self;
        Experiment::parse(format!(
            "name = \"calibration\"\n[cluster]\nps = {ps}\nworker = {workers}\n[program]\n\
             {program}\n[stop]\ntime = \"{}ms\"\n\
             [[run]]\nname = \"{name}\"\nmode = \"{mode}\"\n",
            LASTS.as_millis()
        ))
    }
}

/// Deploys all runs, one after the other, in several rounds, as `program`; `began` is told of each.
/// Before each round, listens for what takes one of the `cores` away.
///
/// # Errors
/// If the system refuses, or a task fails.
pub(super) async fn measure(
    program: &Path,
    cores: NonZeroU32,
    began: impl Fn(&str),
    stop: &mut StopRequest,
) -> Result<(Vec<Measured>, Vec<Noise>), ExperimentError> {
    let (mut all, mut listened) = (Vec::new(), Listened::default());
    for round in 1..=ROUNDS {
        began(&format!("noise, {round} of {ROUNDS}"));
        listened.listen(cores, LISTENS);
        for (at, plan) in PLANS.iter().enumerate() {
            began(&format!("{}, {round} of {ROUNDS}", plan.name));
            let experiment = plan.experiment()?;
            let trial = experiment.trials()?.remove(0);
            let step = deploy(program, &experiment, &trial, stop).await?;
            if round == 1 {
                all.push(Measured { name: plan.name, steps: Vec::new(), trial });
            }
            all[at].steps.push(step);
        }
    }
    all.iter_mut().for_each(|run| run.steps.sort_by(f64::total_cmp));
    Ok((all, listened.kinds()))
}

/// Deploys a run once, and returns the median of its workers' steps \[s\].
async fn deploy(
    program: &Path,
    experiment: &Experiment,
    trial: &Trial,
    stop: &mut StopRequest,
) -> Result<f64, ExperimentError> {
    let mut launcher = Launcher::new(experiment, program.to_owned())?;
    launcher.flags.push("--built-in".to_owned());
    let logs = Folder::private("trainyard-calibration")?;
    let place = logs.path().to_owned();
    let launched = launcher.launch(experiment, trial, place, None, None, stop);
    match launched.await? {
        Ended::Done((_, recording)) => Ok(median_step(&recording).unwrap_or(f64::NAN)),
        Ended::Stopped(stopped) => {
            let (run, code) = (trial.name.clone(), stopped.code);
            Err(DeploymentError::Stopped { run, code }.into())
        }
    }
}

/// The median duration of the workers' steps, after the first ones \[s\].
fn median_step(recording: &Recording) -> Option<f64> {
    let last = recording.steps().map(|step| step.local_step).max()?;
    let first = (last as f64 * WARM_UP) as u64;
    let steps = recording.steps().filter(|step| step.local_step >= first);
    let mut times: Vec<f64> =
        steps.map(|step| step.ended.since(step.started).as_secs_f64()).collect();
    median(&mut times)
}

impl Measured {
    /// The median of the workers' steps: in the middle round, and in the least and the greatest one
    /// \[s\].
    pub(super) fn step(&self) -> (f64, [f64; 2]) {
        let last = self.steps.len() - 1;
        (self.steps[last / 2], [self.steps[0], self.steps[last]])
    }

    /// The logarithm of the median step that `machine` predicts over the measured one.
    pub(super) fn residual(&self, machine: &Machine) -> f64 {
        let mut trial = self.trial.clone();
        machine.apply(&mut trial.cluster);
        trial.cluster.numerics = Numerics::Shapes;
        let workers = trial.cluster.spec.num_tasks("worker").unwrap_or(1) as u64;
        let is_sync = matches!(trial.mode, Mode::Sync { .. });
        let steps = if is_sync { SIMULATED_STEPS } else { workers * SIMULATED_STEPS };
        (trial.settings.stop.steps, trial.settings.stop.time) = (Some(steps), None);
        let simulated = trial.simulate(&train);
        median_step(&simulated.recording).map_or(f64::NAN, |step| (step / self.step().0).ln())
    }
}
