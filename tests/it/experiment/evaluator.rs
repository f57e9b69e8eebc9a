//! The evaluator: what it measures of a training's checkpoints, when, and how it ends.

#[path = "../../../sims/train_and_evaluate.rs"]
pub(super) mod program;

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Memory, Stores, read_safetensors};
use trainyard::cluster::ClusterSpec;
use trainyard::data::{Batch, Dataset};
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::training::{
    BestExporter, Checkpointing, EstimatorSpec, EvalSpec, Evaluation, LatestExporter, ModeKey,
    Recording, RunSettings, SecondOrStepTimer, SharedRecording, TaskParts, TrainSpec, train,
    train_and_evaluate,
};
use trainyard::units::Time;

use crate::quic::over_quic::{servers, stop};
use crate::support::binary::{folder, scenario, trainyard, trainyard_in};
use crate::support::fixture::{all, assert_error, on_actix, quic_network};

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/train_and_evaluate.toml");

/// A synchronous training of 40 steps, a checkpoint every 10.
fn small(more: &str) -> String {
    format!(
        "name = 'small'\n[cluster]\nps = 1\nworker = 2\nevaluator = 1\n[compute]\n\
         step_time = {{ law = 'constant', value = '100ms' }}\n[stop]\nsteps = 40\n[[run]]\n\
         name = 'sync'\nmode = 'sync'\n[checkpoint]\nevery_steps = 10\n\
         directory = 'saved'\n{more}"
    )
}

fn trial(text: &str) -> Trial {
    Experiment::parse(text).unwrap().trials().unwrap().remove(0)
}

/// The recording of the built-in trainer.
fn recorded(text: &str) -> Recording {
    let simulated = trial(text).simulate(&train);
    simulated.outcome.result.unwrap();
    simulated.recording
}

fn steps(recording: &Recording) -> Vec<u64> {
    recording.evaluations.iter().map(|evaluation| evaluation.global_step).collect()
}

#[test]
fn it_measures_each_checkpoint_and_the_last_as_the_chief_itself_would() {
    let evaluated = recorded(&small(""));
    assert_eq!(steps(&evaluated), [0, 10, 20, 30, 40]);
    let without = small("").replace("evaluator = 1\n", "");
    let by_chief = recorded(&without).evaluations;
    let numbers = |evaluation: &Evaluation| (evaluation.loss, evaluation.accuracy);
    assert_eq!(by_chief.len(), 1, "the chief measures at the end");
    assert_eq!(evaluated.evaluations.last().map(numbers), by_chief.last().map(numbers));
}

#[test]
fn without_a_target_the_chief_looks_as_often_as_it_is_told_to_until_the_end() {
    let without = small("").replace("evaluator = 1\n", "");
    for (key, looks) in [
        ("evaluate_every = 15", &[15, 30, 40][..]),
        // A global step is of 2 batches of 32.
        ("evaluate_every_samples = 640", &[10, 20, 30, 40]),
    ] {
        let text = without.replace("steps = 40\n", &format!("steps = 40\n{key}\n"));
        let recording = recorded(&text);
        let mut looked_at = steps(&recording);
        looked_at.dedup(); // the last step, and the end
        assert_eq!(looked_at, looks, "{key}");
        let ended = recording.steps().map(|step| step.global_step).max();
        assert_eq!(ended, Some(40), "it goes on to the end");
    }
}

#[test]
fn it_costs_the_training_no_time_and_a_repeat_is_the_same() {
    let (one, other) = (trial(&small("")).simulate(&train), trial(&small("")).simulate(&train));
    assert_eq!(one.outcome.digest.0, other.outcome.digest.0);
    let without = trial(&small("").replace("evaluator = 1\n", "")).simulate(&train);
    let weights = |recording: &Recording| recording.ending.unwrap().weights_digest;
    assert_eq!(weights(&one.recording), weights(&without.recording));
    let ended = |recording: &Recording| recording.steps().map(|step| step.ended).max();
    let late = ended(&one.recording).unwrap().since(ended(&without.recording).unwrap());
    assert!(late < Duration::from_millis(1), "{late:?}");
}

#[test]
fn a_checkpoint_takes_the_time_to_be_read_that_the_scenario_says() {
    let at = |more: &str| -> Vec<Time> {
        recorded(&small(more)).evaluations.iter().map(|evaluation| evaluation.at).collect()
    };
    // Weights, biases and the global step.
    let bytes = (64 * 10 + 10) * 4 + 8;
    let (fast, slow) = (at(""), at(&format!("read_rate = '{}B/s'\n", bytes * 20)));
    for (fast, slow) in fast.iter().zip(&slow) {
        let later = slow.since(*fast).as_secs_f64();
        assert!((later - 0.05).abs() < 1e-3, "{later}");
    }
}

#[test]
fn it_waits_before_the_first_measurement_and_between_two_but_not_before_the_last() {
    let paced = recorded(&small("[evaluator]\nstart_delay = '500ms'\nthrottle = '1500ms'\n"));
    // Checkpoints every second: at 0.5 s that of step 0, at 2 s that of 10 or 20, then of 30.
    let at: Vec<f64> = paced.evaluations.iter().map(|it| it.at.as_secs_f64()).collect();
    assert!((at[0] - 0.5).abs() < 0.01, "{at:?}");
    assert!(at.len() >= 3 && at.len() < 5, "{at:?}");
    let pauses: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..pauses.len() - 1].iter().all(|pause| *pause > 1.49), "{pauses:?}");
    assert_eq!(paced.evaluations.last().unwrap().global_step, 40);
    let ended = paced.steps().map(|step| step.ended).max().unwrap().as_secs_f64();
    assert!(at.last().unwrap() - ended < 0.1, "the last is measured at once: {at:?}, {ended}");
}

#[test]
fn it_ends_the_training_at_the_target() {
    let text = small("").replace("steps = 40", "steps = 4000\naccuracy = 0.8");
    let trial = trial(&text);
    let simulated = trial.simulate(&train);
    let run = trial.report(&simulated).unwrap();
    assert!(run.seconds_to_target.is_some() && run.global_steps < 1000, "{}", run.global_steps);
    assert!(run.test_accuracy.unwrap() >= 0.8);
}

#[test]
fn one_that_restarts_measures_the_newest_checkpoint_and_goes_on() {
    let crash = "[[fault]]\nat = '1500ms'\ncrash = 'evaluator:0'\nrestart_after = '1s'\n";
    assert_eq!(steps(&recorded(&small(crash))), [0, 10, 20, 30, 40]);
    let late = crash.replace("'1s'", "'100s'");
    assert_eq!(steps(&recorded(&small(&late))), [0, 10, 40], "it learns of the end even so");
}

#[test]
fn a_chief_that_comes_back_is_watched_again_and_one_that_does_not_is_named() {
    let crash = |after: &str| format!("[[fault]]\nat = '1500ms'\ncrash = 'worker:0'\n{after}");
    let evaluated = recorded(&small(&crash("restart_after = '1s'\n")));
    assert_eq!(evaluated.evaluations.last().unwrap().global_step, 40);
    let alone = small(&crash("")).replace("worker = 2", "worker = 1");
    let simulated = trial(&alone).simulate(&train);
    let error = simulated.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::Unavailable, "{error}");
    assert!(error.to_string().contains("worker:0, the chief, whose checkpoints"), "{error}");
}

#[test]
fn one_that_is_cut_off_from_the_chief_for_long_ends_alone() {
    let cut = "[network]\nrecovery = '1s'\nsilence = '1s'\n[[fault]]\nat = '500ms'\nfor = '20s'\n\
               partition = ['evaluator:0', 'worker:0']\n";
    let recording = recorded(&small(cut));
    assert_eq!(recording.steps().map(|step| step.global_step).max(), Some(40));
    assert!(!steps(&recording).contains(&40), "nobody measures the last checkpoint");
}

#[test]
fn it_measures_the_center_where_each_worker_has_a_copy() {
    let text = small("").replace("mode = 'sync'", "mode = { local_sgd = { every = 2 } }");
    let evaluated = recorded(&text);
    assert_eq!(steps(&evaluated).last(), Some(&40));
    let without = recorded(&text.replace("evaluator = 1\n", ""));
    let last = |recording: &Recording| recording.evaluations.last().unwrap().accuracy;
    assert_eq!(last(&evaluated), last(&without));
}

#[test]
fn a_helper_hosts_until_all_have_left_and_takes_no_steps() {
    let text = small("").replace("[cluster]\n", "[cluster]\naux = 1\nchief = 1\n");
    let recording = recorded(&text);
    let workers: std::collections::BTreeSet<String> =
        recording.steps().map(|step| step.worker.to_string()).collect();
    let trained: Vec<&str> = workers.iter().map(String::as_str).collect();
    assert_eq!(trained, ["chief:0", "worker:0", "worker:1"]);
}

#[test]
fn the_example_reaches_its_target_in_simulation() {
    let report = Experiment::load(SCENARIO).unwrap().simulate(program::trainer).unwrap();
    for name in ["sync", "async"] {
        let run = report.run(name).unwrap();
        assert!(run.seconds_to_target.is_some() && run.global_steps < 2000, "{name}");
    }
}

/// The example's model, measured without a pause.
async fn deployed(task: Task) -> Result<()> {
    measuring(task, EvalSpec::new()).await
}

/// The same, measured as `evaluate` says.
async fn measuring(task: Task, evaluate: EvalSpec) -> Result<()> {
    let pace = evaluate.start_delay(Duration::ZERO).throttle(Duration::ZERO);
    let (train, model) = (TrainSpec::new().max_steps(30), program::model);
    train_and_evaluate(&task, |g, phase| model(g, phase, &task), train, pace).await
}

/// The task of `server` in real time, with a checkpoint every 10 steps in `store`.
fn task_on(server: Server, store: &Memory, recording: &SharedRecording) -> Result<Task> {
    let every = SecondOrStepTimer::every_steps(10);
    let checkpointing = Checkpointing { every, ..Checkpointing::new(Arc::new(store.clone())) };
    Task::new(TaskParts {
        server: Rc::new(server),
        mode: Mode::Sync { backups: 0, cancel: false },
        seed: 7,
        run_folder: "run".to_owned(),
        settings: trial(&small("")).settings,
        dataset: Some(Arc::new(Dataset::digits().unwrap())),
        checkpointing: Some(checkpointing),
        stores: Stores::Lasting,
        recorder: recording.recorder(),
        config: None,
        arguments: Vec::new(),
    })
}

/// What is recorded of the training over QUIC on `jobs`, measured as `evaluate` says.
fn over_quic(jobs: &[(&str, usize)], evaluate: impl Fn() -> EvalSpec) -> Recording {
    let recording = SharedRecording::default();
    on_actix(async {
        let (servers, ends) = servers(quic_network(jobs).await);
        let store = Memory::default();
        let mut tasks = Vec::new();
        for server in servers {
            tasks.push(task_on(server, &store, &recording)?);
        }
        all(tasks.iter().map(|task| measuring(task.clone(), evaluate()))).await?;
        stop(Vec::new(), ends).await
    });
    recording.finish()
}

#[test]
fn the_examples_model_is_trained_and_measured_over_quic() {
    let jobs = [("evaluator", 1), ("ps", 1), ("worker", 2)];
    let measured = steps(&over_quic(&jobs, EvalSpec::new));
    assert_eq!(measured.last(), Some(&30), "{measured:?}");
    assert!(measured.iter().all(|step| step % 10 == 0), "{measured:?}");
}

#[test]
fn a_worker_that_trains_alone_measures_its_checkpoints_itself() {
    let text = small("").replace("evaluator = 1\n", "").replace("worker = 2", "worker = 1");
    let simulated = trial(&text).simulate(&deployed);
    simulated.outcome.result.unwrap();
    assert_eq!(steps(&simulated.recording), [0, 10, 20, 30]);
}

#[test]
fn a_target_of_accuracy_is_refused_where_the_model_does_not_measure_it() {
    let simulated = trial(&small("")).simulate(&|task: Task| async move {
        let model = |g: &Graph, mode: ModeKey| -> Result<EstimatorSpec, GraphError> {
            let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
            let y = g.placeholder("y", DType::I32, [None])?;
            let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
            let ends = EstimatorSpec::new(&x, &y, &loss).metric("error", &loss);
            Ok(match mode {
                ModeKey::Train => ends.train_op(&task.minimize(Adagrad::new(0.1), &loss)?),
                ModeKey::Evaluate => ends,
            })
        };
        let target = EvalSpec::new().stop_at_accuracy(0.9);
        train_and_evaluate(&task, model, TrainSpec::new().max_steps(30), target).await
    });
    let says =
        ["`stop_at_accuracy`", "the metric `accuracy`, which the model lacks; stop the workers"];
    assert_error(simulated.outcome.result.map(drop), Code::InvalidArgument, &says);
}

/// What the only worker of a cluster measures, in a training of 30 steps.
fn measured_as(evaluate: impl Fn() -> EvalSpec + Sync) -> Vec<Evaluation> {
    let text = small("").replace("evaluator = 1\n", "").replace("worker = 2", "worker = 1");
    let simulated = trial(&text).simulate(&|task: Task| measuring(task, evaluate()));
    simulated.outcome.result.unwrap();
    simulated.recording.evaluations
}

/// The test split in batches of 50 samples.
fn batches(task: &Task) -> Result<impl Iterator<Item = Batch> + use<>> {
    let split = &task.dataset()?.test;
    let (width, whole) = (split.width(), split.whole());
    let features = whole.features.values::<f32>()?.chunks(50 * width);
    let both = features.zip(whole.labels.values::<i32>()?.chunks(50));
    let batch = |(features, labels): (&[f32], &[i32])| {
        let features = Tensor::new([labels.len(), width], features)?;
        Ok(Batch { features, ids: None, labels: Tensor::new([labels.len()], labels)? })
    };
    Ok(both.map(batch).collect::<Result<Vec<_>>>()?.into_iter())
}

#[test]
fn it_measures_no_more_batches_than_the_spec_says() {
    let losses = |steps: Option<u64>, batches_given: usize| -> Vec<f32> {
        let all = measured_as(|| {
            let input = move |task: &Task| Ok(batches(task)?.take(batches_given));
            EvalSpec::new().steps(steps).input(input)
        });
        all.iter().map(|evaluation| evaluation.loss).collect()
    };
    let whole = losses(None, usize::MAX);
    assert_eq!(whole.len(), 4);
    assert_eq!(losses(Some(2), usize::MAX), losses(None, 2));
    assert_ne!(losses(Some(2), usize::MAX), whole);
    assert_eq!(losses(Some(100), usize::MAX), whole, "the input has fewer");
}

/// Exports into `latest`, `best` and `worst` below `place`.
fn exporting(place: &Path) -> EvalSpec {
    let [latest, best, worst] =
        ["latest", "best", "worst"].map(|name| place.join(name).display().to_string());
    let worse = BestExporter::new(&worst).compare(|new, before| new.loss > before.loss);
    let specs = EvalSpec::new().exporter(LatestExporter::new(&latest).keep(2));
    specs.exporter(BestExporter::new(&best)).exporter(worse)
}

#[test]
fn what_is_measured_is_exported_if_it_is_among_the_latest_or_better_than_all_before() {
    let place = folder("exporters");
    let recording = over_quic(&[("ps", 1), ("worker", 1)], || exporting(&place));
    let measured = &recording.evaluations;
    let file = |name: &str, step: u64| place.join(name).join(format!("run/{step}.safetensors"));
    let exported =
        |name: &str| -> Vec<u64> { (0..=30).filter(|step| file(name, *step).exists()).collect() };
    let all = steps(&recording);
    assert!(all.len() > 2, "{all:?}");
    assert_eq!(exported("latest"), all[all.len() - 2..]);
    let beats_all_before = |beats: fn(f32, f32) -> bool| -> Vec<u64> {
        let is_best = |(i, own): (usize, &Evaluation)| {
            let is_best = measured[..i].iter().all(|before| beats(own.loss, before.loss));
            is_best.then_some(own.global_step)
        };
        measured.iter().enumerate().filter_map(is_best).collect()
    };
    assert_eq!(exported("best"), beats_all_before(|own, before| own < before));
    assert_eq!(exported("worst"), beats_all_before(|own, before| own > before));
    let weights = read_safetensors(file("latest", 30)).unwrap();
    assert_eq!(weights.len(), 4, "a weight and a bias of each layer: {:?}", weights.keys());
}

#[test]
fn a_simulation_exports_nothing_to_the_disk() {
    let place = folder("exporters_simulated");
    assert_eq!(measured_as(|| exporting(&place)).len(), 4);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

/// Measures what the settings of the program have saved, of a training without `[checkpoint]`.
async fn with_a_model_dir(task: Task) -> Result<()> {
    let settings = RunSettings::new().model_dir("models").save_checkpoints_steps(7);
    deployed(task.with_settings(settings)).await
}

#[test]
fn checkpoints_are_where_the_settings_say_as_often_as_they_say() {
    let simulated = trial("[cluster]\nps = 1\nworker = 1\n").simulate(&with_a_model_dir);
    simulated.outcome.result.unwrap();
    assert_eq!(steps(&simulated.recording), [0, 7, 14, 21, 28, 30]);
}

/// The same, of which a checkpoint is saved every 4 seconds.
async fn with_seconds(task: Task) -> Result<()> {
    let settings = RunSettings::new().model_dir("models").save_checkpoints_secs(4);
    deployed(task.with_settings(settings)).await
}

#[test]
fn checkpoints_are_as_many_seconds_apart_as_the_settings_say() {
    let steps_of = |seconds: &str| {
        let law = format!("step_time = {{ law = 'constant', value = '{seconds}' }}\n");
        let text = format!("[cluster]\nps = 1\nworker = 1\n[compute]\n{law}");
        let simulated = trial(&text).simulate(&with_seconds);
        simulated.outcome.result.unwrap();
        steps(&simulated.recording)
    };
    // TensorFlow's timer: at the first step of which so many seconds have passed since the last.
    assert_eq!(steps_of("1.5s"), [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30]);
    assert_eq!(steps_of("500ms"), [0, 8, 16, 24, 30]);
}

#[test]
fn without_checkpoints_there_is_nothing_to_measure() {
    let text = "[cluster]\nps = 1\nworker = 1\n";
    let simulated = trial(text).simulate(&deployed);
    let outcome = simulated.outcome.result;
    assert_error(outcome, Code::FailedPrecondition, &["keeps none; add `[checkpoint]`"]);
}

#[test]
fn a_launched_evaluator_reads_what_the_chief_saves_in_another_process() {
    let place = folder("launched_evaluator_checkpoints");
    let text = small("").replace("'saved'", &format!("'{}'", place.display()));
    let path = scenario("launched_evaluator", &text);
    let out = folder("launched_evaluator_out");
    let said = trainyard(&["launch", &path, "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = fs::read_to_string(out.join("evaluations.csv")).unwrap();
    let last = rows.lines().last().unwrap();
    assert!(last.split(',').any(|cell| cell == "40"), "{rows}");
}

#[test]
fn an_evaluator_that_the_cluster_does_not_list_ends_at_the_last_step() {
    let place = folder("lone_evaluator_checkpoints");
    let text = small("").replace("'saved'", &format!("'{}'", place.display()));
    let with_evaluator = scenario("lone_evaluator_first", &text);
    assert_eq!(trainyard(&["launch", &with_evaluator]).code, 0, "it leaves checkpoints");
    let path = scenario("lone_evaluator", &text);
    let role = r#"{"cluster": {"ps": ["a:1"], "worker": ["b:1"]},
                   "task": {"type": "evaluator", "index": 0}}"#;
    let said = trainyard_in(Path::new("."), &["task", &path, "--json"], &[("TF_CONFIG", role)]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("test_accuracy"), "{}", said.out);
}

#[test]
fn a_model_is_measured_on_the_server_that_the_settings_say() {
    on_actix(async {
        let spec = ClusterSpec::simulated([("aux", 1), ("worker", 1)]).unwrap();
        let mut servers = Server::create_cluster(&spec).into_iter();
        let (aux, worker) = (servers.next().unwrap(), servers.next().unwrap());
        let (elsewhere, recording) = (aux.target(), SharedRecording::default());
        let task = task_on(worker, &Memory::default(), &recording)?;
        let task = task.with_settings(RunSettings::new().evaluation_master(&elsewhere));
        deployed(task.clone()).await?;
        assert_eq!(steps(&recording.finish()).last(), Some(&30));
        aux.stop();
        assert_error(deployed(task).await, Code::Unavailable, &["aux:0"]);
        Ok(())
    });
}
