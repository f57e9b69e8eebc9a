//! Holds the prediction of a run against the run: what was simulated and what was deployed.

use std::time::Duration;

use super::calibration::{Machine, cores_here, place_together};
use super::parallel::joined;
use super::{Experiment, ExperimentError, Trainer, Trial};
use crate::report::{Comparison, Figure, PhaseComparison, Run, TimeSpent};
use crate::simulation::{Activity, Outcome};
use crate::training::Recording;

/// The causes of a step's time, each with its activities.
const CAUSES: [(&str, &[Activity]); 4] = [
    ("compute", &[Activity::Kernels, Activity::SmallKernels]),
    (
        "message costs",
        &[Activity::Sending, Activity::Receiving, Activity::Operations, Activity::HandingOver],
    ),
    ("waking", &[Activity::Waking]),
    ("waiting for cores", &[Activity::Queueing]),
];

/// What a simulation says of a run, before it is launched.
pub(crate) struct Prediction {
    run: Run,
    recording: Recording,
    /// Where a worker step's time goes, the greatest cause first.
    causes: Vec<TimeSpent>,
}

/// Predicts the runs of an experiment as launched on this machine.
pub(crate) struct Predictor {
    trials: Vec<Trial>,
    /// The machine, if it was measured now.
    machine: Option<Machine>,
}

impl Predictor {
    /// A predictor of the runs of `experiment`. Its tasks have no lanes unless `have_lanes`.
    /// If it has no calibration, `measure` measures this machine.
    ///
    /// # Errors
    /// As [`Experiment::trials`]; if `measure` fails.
    pub(crate) fn new<E: From<ExperimentError>>(
        experiment: &Experiment,
        have_lanes: bool,
        measure: impl FnOnce() -> Result<Machine, E>,
    ) -> Result<Self, E> {
        let mut trials = experiment.trials()?;
        let is_known = trials.iter().all(|trial| trial.cluster.hardware.message_thread.is_some());
        let mut machine = if is_known { None } else { Some(measure()?) };
        if !have_lanes {
            let threads =
                trials.iter_mut().filter_map(|it| it.cluster.hardware.message_thread.as_mut());
            threads.for_each(|thread| thread.lanes = None);
            machine.iter_mut().for_each(|machine| machine.lanes = None);
        }
        Ok(Self { trials, machine })
    }

    /// Predicts the run number `at`.
    ///
    /// # Errors
    /// If the simulation fails.
    pub(crate) fn predict(
        &self,
        at: usize,
        trainer: &impl Trainer,
    ) -> Result<Prediction, ExperimentError> {
        self.trials[at].predict(self.machine.as_ref(), trainer)
    }
}

impl Trial {
    /// Predicts this run as launched on this machine. `machine` is its model; without one it is the
    /// scenario's calibration.
    ///
    /// # Errors
    /// If the simulation fails.
    fn predict(
        &self,
        machine: Option<&Machine>,
        trainer: &impl Trainer,
    ) -> Result<Prediction, ExperimentError> {
        let mut trial = self.clone();
        trial.draws_graph = false;
        match machine {
            Some(machine) => machine.apply(&mut trial.cluster),
            None => place_together(&mut trial.cluster, cores_here()),
        }
        // On a thread of its own: the caller may be within a runtime, and a simulation makes one.
        let simulated =
            std::thread::scope(|scope| joined(scope.spawn(|| trial.simulate(trainer)).join()));
        let run = trial.report(&simulated)?;
        let latency = trial.cluster.hardware.network.loopback.latency;
        let causes = causes(&simulated.outcome, latency, &simulated.recording);
        Ok(Prediction { run, recording: simulated.recording, causes })
    }
}

impl Prediction {
    /// Holds it against a launch of the run. Of one that found its training finished nothing is
    /// compared: it took no step.
    pub(crate) fn compare(&self, measured: &Run, recording: &Recording) -> Comparison {
        if measured.had_nothing_to_do() {
            return Comparison { figures: Vec::new(), causes: Vec::new(), differs_most: None };
        }
        Comparison {
            figures: figures(&self.run, measured),
            causes: self.causes.clone(),
            differs_most: differs_most(&self.recording, recording),
        }
    }
}

fn figures(predicted: &Run, measured: &Run) -> Vec<Figure> {
    let both = |name, of: fn(&Run) -> Option<f64>| Figure::new(name, of(predicted), of(measured));
    [
        both(Comparison::STEP, |run| Some(run.step_seconds?.p50 * 1e3)),
        both("step, 99 % [ms]", |run| Some(run.step_seconds?.p99 * 1e3)),
        both("global steps/s", |run| Some(run.steps_per_second)),
        both("MB sent per 1000 steps", |run| {
            let sent = run.bytes_sent.values().sum::<u64>() as f64;
            let own = run.global_steps.saturating_sub(run.resumed_from.unwrap_or(0));
            (own > 0).then(|| sent / 1e3 / own as f64)
        }),
        both("staleness, mean", |run| Some(run.staleness.as_ref()?.mean)),
        both("time from first step to target [s]", Run::training_seconds_to_target),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Where the tasks' time goes, for each worker step, the greatest cause first.
fn causes(outcome: &Outcome<()>, latency: Duration, recording: &Recording) -> Vec<TimeSpent> {
    let steps = recording.log.len().max(1) as f64;
    let spent = |activities: &[Activity]| -> f64 {
        let of_task = |activity: &Activity| {
            outcome.usage.values().map(|usage| usage.of(*activity).as_secs_f64()).sum::<f64>()
        };
        activities.iter().map(of_task).sum::<f64>() / steps
    };
    let mut causes: Vec<TimeSpent> = CAUSES
        .iter()
        .map(|(name, activities)| TimeSpent { name, seconds: spent(activities) })
        .collect();
    let network = outcome.deliveries as f64 * latency.as_secs_f64() / steps;
    causes.push(TimeSpent { name: "network", seconds: network });
    let all: f64 = causes.iter().map(|cause| cause.seconds).sum();
    let taken =
        recording.steps().map(|step| step.ended.since(step.started).as_secs_f64()).sum::<f64>();
    causes.push(TimeSpent { name: "waiting for others", seconds: (taken / steps - all).max(0.0) });
    causes.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    causes
}

/// The mean lengths of the phases of worker steps \[s\].
fn phases(recording: &Recording) -> Option<[f64; 3]> {
    let mut sums = [0.0; 3];
    for step in recording.steps() {
        for (sum, phase) in sums.iter_mut().zip(step.phases()) {
            *sum += phase.as_secs_f64();
        }
    }
    let steps = recording.log.len();
    (steps > 0).then(|| sums.map(|sum| sum / steps as f64))
}

fn differs_most(predicted: &Recording, measured: &Recording) -> Option<PhaseComparison> {
    let (predicted, measured) = (phases(predicted)?, phases(measured)?);
    let names = ["waiting for parameters", "kernels", "coordination"];
    let phases = (0..names.len()).map(|at| PhaseComparison {
        name: names[at],
        predicted: predicted[at],
        measured: measured[at],
    });
    let difference = |phase: &PhaseComparison| (phase.predicted - phase.measured).abs();
    phases.max_by(|a, b| difference(a).total_cmp(&difference(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Gradients;
    use crate::training::train;

    /// A simulated run of a few steps.
    fn run() -> Run {
        let text = "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
                    [stop]\nsteps = 20\n[[run]]\nname = 'a'\nmode = 'async'\n";
        Experiment::parse(text).unwrap().simulate(train).unwrap().runs.remove(0)
    }

    #[test]
    fn nothing_is_compared_of_a_launch_that_found_its_training_finished() {
        let (run, recording) = (run(), Recording::default());
        let causes = vec![TimeSpent { name: "compute", seconds: 1.0 }];
        let prediction = Prediction { run: run.clone(), recording, causes };
        let compare = |measured: &Run| prediction.compare(measured, &Recording::default());
        let finished =
            Run { resumed_from: Some(20), gradients: Gradients::default(), ..run.clone() };
        let expected = Comparison { figures: Vec::new(), causes: Vec::new(), differs_most: None };
        assert_eq!(compare(&finished), expected);
        assert!(!compare(&run).figures.is_empty());
    }

    #[test]
    fn the_time_to_the_target_is_compared_without_the_start_which_no_model_predicts() {
        let run = run();
        let reached = |start_seconds: f64, trained: f64| Run {
            start_seconds,
            seconds_to_target: Some(start_seconds + trained),
            ..run.clone()
        };
        let figures = figures(&reached(0.0, 0.03), &reached(0.2, 0.06));
        let name = "time from first step to target [s]";
        let figure = figures.iter().find(|figure| figure.name == name).unwrap();
        assert!((figure.predicted - 0.03).abs() < 1e-9 && (figure.measured - 0.06).abs() < 1e-9);
        assert!((figure.error_percent.unwrap() + 50.0).abs() < 1e-6, "{figure:?}");
    }
}
