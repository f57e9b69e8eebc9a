//! Holds the prediction of a run against the run: what was simulated and what was deployed.

use std::mem;

use super::calibration::{Machine, cores_here, place_together};
use super::parallel::joined;
use super::{Experiment, ExperimentError, Simulated, Trainer, Trial, critical_path};
use crate::deployment::Tuning;
use crate::report::{Comparison, Figure, PhaseComparison, Run, TimeCause, TimeSpent};
use crate::scenario::LEFT_OUT;
use crate::simulation::{ConnectionSpec, Hardware, MessageThread};
use crate::training::Recording;

/// What a simulation says of a run, before it is launched.
pub(crate) struct Prediction {
    run: Run,
    recording: Recording,
    /// What its mean step waited for, the greatest cause first.
    causes: Vec<TimeSpent>,
    /// The keys of the scenario that it leaves out.
    left_out: Vec<&'static str>,
}

/// Predicts the runs of an experiment as launched on this machine.
pub(crate) struct Predictor {
    trials: Vec<Trial>,
    /// The machine, if it was measured now.
    machine: Option<Machine>,
    tuning: Tuning,
}

impl Predictor {
    /// A predictor of the runs of `experiment`, whose tasks are launched with `tuning`. If it has
    /// no calibration, `measure` measures this machine.
    ///
    /// # Errors
    /// As [`Experiment::trials`]; if `measure` fails.
    pub(crate) fn new<E: From<ExperimentError>>(
        experiment: &Experiment,
        tuning: Tuning,
        measure: impl FnOnce() -> Result<Machine, E>,
    ) -> Result<Self, E> {
        let trials = experiment.trials()?;
        let is_known = trials.iter().all(|trial| trial.cluster.hardware.is_calibrated());
        let machine = if is_known { None } else { Some(measure()?) };
        Ok(Self { trials, machine, tuning })
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
        self.trials[at].predict(self.machine.as_ref(), self.tuning, trainer)
    }
}

impl Trial {
    /// Predicts this run as launched on this machine with `tuning`. `machine` is its model; without
    /// one it is the scenario's calibration.
    ///
    /// # Errors
    /// If the simulation fails.
    fn predict(
        &self,
        machine: Option<&Machine>,
        tuning: Tuning,
        trainer: &impl Trainer,
    ) -> Result<Prediction, ExperimentError> {
        let mut trial = self.clone();
        trial.draws_graph = false;
        let left_out = trial.leave_out_simulated();
        match machine {
            Some(machine) => machine.apply(&mut trial.cluster),
            None => place_together(&mut trial.cluster, cores_here()),
        }
        trial.cluster.hardware.message_thread.iter_mut().for_each(|thread| tune(thread, tuning));
        // On a thread of its own: the caller may be within a runtime, and a simulation makes one.
        let simulated =
            std::thread::scope(|scope| joined(scope.spawn(|| trial.simulate(trainer)).join()));
        let run = trial.report(&simulated)?;
        let causes = causes(&simulated);
        Ok(Prediction { run, recording: simulated.recording, causes, left_out })
    }

    /// Takes from it what the tasks of a launch don't have: they run on this machine as it is.
    /// Returns the keys of the scenario by which it had that.
    fn leave_out_simulated(&mut self) -> Vec<&'static str> {
        LEFT_OUT.into_iter().filter(|key| self.leave_out(key)).collect()
    }

    /// Takes from it what it has by `key`. Returns whether there was anything.
    fn leave_out(&mut self, key: &str) -> bool {
        let Hardware { compute, own_compute, slow, gpus, network, .. } = &mut self.cluster.hardware;
        let checkpoint = self.checkpoint.as_mut();
        match key {
            "compute.straggler" => compute.straggler.take().is_some(),
            "compute.step_time" => compute.step_time.take().is_some(),
            "compute.slow" => !mem::take(slow).is_empty(),
            "compute.tasks" => !mem::take(own_compute).is_empty(),
            "gpus" => !mem::take(gpus).is_empty(),
            "network.link" => !mem::take(&mut network.links).is_empty(),
            "network.connection" => mem::take(&mut network.connection) != ConnectionSpec::default(),
            "program.read_rate" => self.settings.read_rate.take().is_some(),
            "checkpoint.write_rate" => checkpoint.and_then(|it| it.write_rate.take()).is_some(),
            "checkpoint.read_rate" => checkpoint.and_then(|it| it.read_rate.take()).is_some(),
            key => unreachable!("each key that is left out has a line here, and `{key}` has none"),
        }
    }
}

/// Has a message thread poll, and use lanes, as the user says of a launch.
fn tune(thread: &mut MessageThread, tuning: Tuning) {
    thread.patience = tuning.busy_poll.unwrap_or(thread.patience);
    if let Some(count) = tuning.lanes {
        thread.lanes = thread.lanes.and_then(|lanes| lanes.at_most(count.into()));
    }
}

impl Prediction {
    /// Holds it against a launch of the run. Of one that found its training finished nothing is
    /// compared: it took no step.
    pub(crate) fn compare(&self, measured: &Run, recording: &Recording) -> Comparison {
        if measured.had_nothing_to_do() {
            return Comparison::of_nothing();
        }
        Comparison {
            figures: figures(&self.run, measured),
            left_out: self.left_out.clone(),
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
            let sent = run.step_bytes() as f64;
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

/// What the prediction's mean step waited for, the greatest cause first.
fn causes(simulated: &Simulated) -> Vec<TimeSpent> {
    let name = |cause: TimeCause| match cause {
        TimeCause::Links => "the loopback", // all tasks are on one host
        other => other.name(),
    };
    let causes = critical_path::of_a_step(&simulated.outcome.path, simulated.recording.steps());
    causes.into_iter().map(|(cause, seconds)| TimeSpent { name: name(cause), seconds }).collect()
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
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::experiment::calibration;
    use crate::report::Gradients;
    use crate::simulation::Lanes;
    use crate::training::train;

    /// A simulated run of a few steps.
    fn run() -> Run {
        let text = "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
                    [stop]\nsteps = 20\n[[run]]\nname = 'a'\nmode = 'async'\n";
        Experiment::parse(text).unwrap().simulate(train).unwrap().runs.remove(0)
    }

    const SOFTMAX: &str = "model = 'softmax'\nbatch = 8";

    /// The prediction of 20 asynchronous steps of two workers on a calibrated machine, by a
    /// scenario with `more` sections.
    fn predicted(program: &str, more: &str, tuning: Tuning) -> Prediction {
        let text = format!(
            "[cluster]\nps = 1\nworker = 2\n[program]\n{program}\n[stop]\nsteps = 20\n\
             [calibration]\nsend = {{ fixed = '10us' }}\nreceive = {{ fixed = '10us' }}\n\
             wake = '20us'\npatience = '100us'\n\
             loopback = {{ latency = '20us', bandwidth = '1Gbps' }}\n{more}"
        );
        let experiment = Experiment::parse(text).unwrap();
        let measure = || unreachable!("the machine is calibrated");
        let predictor = Predictor::new::<ExperimentError>(&experiment, tuning, measure).unwrap();
        predictor.predict(0, &train).unwrap()
    }

    #[test]
    fn nothing_is_compared_of_a_launch_that_found_its_training_finished() {
        let (run, recording) = (run(), Recording::default());
        let causes = vec![TimeSpent { name: "compute", seconds: 1.0 }];
        let left_out = vec!["compute.slow"];
        let prediction = Prediction { run: run.clone(), recording, causes, left_out };
        let compare = |measured: &Run| prediction.compare(measured, &Recording::default());
        let finished =
            Run { resumed_from: Some(20), gradients: Gradients::default(), ..run.clone() };
        assert_eq!(compare(&finished), Comparison::of_nothing());
        assert!(!compare(&run).figures.is_empty());
        assert_eq!(compare(&run).left_out, ["compute.slow"]);
    }

    #[test]
    fn what_no_launch_has_is_not_in_its_prediction_which_names_the_keys() {
        let predicted = |more: &str| predicted(SOFTMAX, more, Tuning::default());
        let plain = predicted("");
        let nothing: [&str; 0] = [];
        assert_eq!(plain.left_out, nothing);
        let drawn = predicted(
            "[compute]\nstraggler = { law = 'exponential' }\nslow = { 'worker:1' = 50.0 }\n\
             [compute.tasks.'worker:0']\nstep_time = { law = 'constant', value = '1s' }\n\
             [compute.tasks.ps]\nrate = '1MFLOP/s'\n[gpus.worker]\npreset = 'a100-80gb'\n\
             [network]\nconnection = { start = '1s' }\n\
             [[network.link]]\nbetween = ['ps:0', 'worker:0']\nlatency = '1s'\n",
        );
        let keys = [
            "compute.straggler",
            "compute.slow",
            "compute.tasks",
            "gpus",
            "network.link",
            "network.connection",
        ];
        assert_eq!(drawn.left_out, keys);
        let whole = predicted("[compute]\nstep_time = { law = 'constant', value = '1s' }\n");
        assert_eq!(whole.left_out, ["compute.step_time"]);
        let saved = "[checkpoint]\nevery_steps = 5\n";
        let slow_disk = predicted(&format!("{saved}write_rate = '1kB/s'\nread_rate = '1kB/s'\n"));
        assert_eq!(slow_disk.left_out, ["checkpoint.write_rate", "checkpoint.read_rate"]);
        assert_eq!(slow_disk.run.digest, predicted(saved).run.digest);
        for other in [drawn, whole] {
            assert_eq!(other.run.digest, plain.run.digest, "without {:?}", other.left_out);
        }
    }

    #[test]
    fn a_key_of_which_launch_says_that_it_changes_nothing_changes_no_prediction_of_a_launch() {
        let predicted = |key: &str, value: &str| {
            let text = "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'mlp'\nbatch = 8\n\
                        [checkpoint]\nevery_steps = 5\n[stop]\nsteps = 10\n\
                        [[run]]\nname = 'a'\nmode = 'async'\n";
            let mut experiment = Experiment::parse(text).unwrap();
            if !key.is_empty() {
                experiment = experiment.set(&format!("{key}={value}")).unwrap();
                let warned = experiment.flags_without_effect(&experiment.trials().unwrap());
                assert_eq!(warned.len(), usize::from(key != "gpus"), "{key}: {warned:?}");
            }
            let measure = || Ok::<_, ExperimentError>(calibration::a_machine());
            let predictor = Predictor::new(&experiment, Tuning::default(), measure).unwrap();
            predictor.predict(0, &train).unwrap()
        };
        let plain = predicted("", "").run.digest;
        // Not `program.read_rate`: it is refused without a data set that is read as it is used.
        let law = "{ law = 'constant', value = 2.0 }";
        for (key, value, is_left_out) in [
            ("compute.straggler", law, true),
            ("compute.step_time", "{ law = 'constant', value = '1s' }", true),
            ("compute.slow", "{ 'worker:1' = 50.0 }", true),
            ("compute.tasks", "{ ps = { rate = '1MFLOP/s' } }", true),
            ("gpus", "{ worker = { preset = 'a100-80gb' } }", true),
            ("network.link", "[{ between = ['ps:0', 'worker:0'], latency = '1s' }]", true),
            ("network.connection", "{ start = '1s' }", true),
            ("checkpoint.write_rate", "1kB/s", true),
            ("checkpoint.read_rate", "1kB/s", true),
            ("compute.rate", "1MFLOP/s", false),
            ("compute.memory", "1MB/s", false),
            ("compute.efficiency", "{ matmul = 0.1, reduction = 0.1 }", false),
            ("network.latency", "1s", false),
            ("network.bandwidth", "1Mbps", false),
            ("network.mtu", "1500", false),
            ("network.message_cost", "1s", false),
            ("network.incast", "1.0", false),
            ("network.tasks", "{ ps = { latency = '1s', bandwidth = '1Mbps' } }", false),
        ] {
            let changed = predicted(key, value);
            assert_eq!(changed.run.digest, plain, "{key}");
            let expected: Vec<&str> = is_left_out.then_some(key).into_iter().collect();
            assert_eq!(changed.left_out, expected);
            assert_eq!(LEFT_OUT.contains(&key), is_left_out, "{key}");
        }
    }

    #[test]
    fn hosts_alone_say_nothing_of_what_messages_cost_and_the_machine_is_measured() {
        let experiment = Experiment::parse("[hosts]\ntasks_per_host = 3\ncores = 2\n").unwrap();
        let measure = || Err(ExperimentError::Impossible("measured".to_owned()));
        let refused = Predictor::new(&experiment, Tuning::default(), measure).err();
        assert!(matches!(refused, Some(ExperimentError::Impossible(_))), "{refused:?}");
    }

    #[test]
    fn the_causes_of_a_step_are_all_that_it_waited_for_and_bytes_under_way_are_among_them() {
        let of = |program: &str| predicted(program, "", Tuning::default());
        let large = of("model = 'null'\nvariables = 1\nbytes = '4MB'\ngradient = 'scalar'");
        assert_eq!(large.causes[0].name, "the loopback", "{:?}", large.causes);
        for prediction in [large, of(SOFTMAX)] {
            let steps = prediction.recording.steps().filter(|step| step.applied);
            let lengths: Vec<f64> =
                steps.map(|step| step.ended.since(step.started).as_secs_f64()).collect();
            let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
            let all: f64 = prediction.causes.iter().map(|cause| cause.seconds).sum();
            assert!((all / mean - 1.0).abs() < 1e-6, "{all} s of {mean} s");
        }
    }

    #[test]
    fn a_run_is_predicted_with_the_polling_and_the_lanes_that_it_is_launched_with() {
        let step = |busy_poll| {
            let tuning = Tuning { busy_poll, lanes: None };
            predicted(SOFTMAX, "", tuning).run.step_seconds.unwrap().p50
        };
        let (sleeping, polling) = (step(Some(Duration::ZERO)), step(Some(Duration::from_secs(1))));
        assert!(sleeping > 1.1 * polling, "{sleeping} s with wake-ups, {polling} s without");
        let calibrated = step(Some(Duration::from_micros(100)));
        assert_eq!(step(None), calibrated, "as the calibration says");

        let four = Lanes { threads: NonZeroU32::new(4).unwrap(), speed_up: 3.0 };
        let tuned = |lanes| {
            let none = MessageThread::sending_costs(Duration::ZERO);
            let mut thread = MessageThread { lanes: Some(four), ..none };
            tune(&mut thread, Tuning { busy_poll: None, lanes });
            thread.lanes
        };
        let counts = [None, Some(0), Some(2)].map(|lanes| tuned(lanes).map(|it| it.threads.get()));
        assert_eq!(counts, [Some(4), None, Some(2)]);
    }

    #[test]
    fn bytes_are_those_of_the_steps_as_in_the_table_of_the_runs() {
        let run = run();
        let all: u64 = run.bytes_sent.values().sum();
        assert!(run.step_bytes() < all, "the sessions were set up besides");
        let figures = figures(&run, &run);
        let figure = figures.iter().find(|figure| figure.name == "MB sent per 1000 steps").unwrap();
        let expected = run.step_bytes() as f64 / 1e6 / run.global_steps as f64 * 1000.0;
        assert!((figure.predicted / expected - 1.0).abs() < 1e-9, "{figure:?}");
        assert_eq!(figure.predicted, figure.measured);
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
