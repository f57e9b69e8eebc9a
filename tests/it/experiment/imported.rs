//! A graph that TensorFlow wrote, as the program of a scenario and in a program of one's own.

use std::fs;

use trainyard::experiment::{Experiment, Trial};
use trainyard::import;
use trainyard::prelude::*;
use trainyard::training::train;

use crate::support::binary::{folder, trainyard};
use crate::support::deployed::deployed;
use crate::support::simulated::weights;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/imported.toml");
const GRAPH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/tensorflow/digits_mlp.pb");

/// The scenario's runs, of `workers` workers and `steps` steps.
fn trials(workers: u32, steps: u64) -> Vec<Trial> {
    let experiment = Experiment::load(SCENARIO).unwrap();
    let experiment = experiment.set(&format!("cluster.worker={workers}")).unwrap();
    experiment.set(&format!("stop.steps={steps}")).unwrap().trials().unwrap()
}

#[test]
fn it_learns_the_digits_by_its_own_operation_and_by_an_optimizer_of_ours() {
    let report = Experiment::load(SCENARIO).unwrap().simulate(train).unwrap();
    for name in ["its own operation", "async", "sync"] {
        let run = report.run(name).unwrap();
        assert!(run.test_accuracy.unwrap() >= 0.95, "{name}: {:?}", run.test_accuracy);
        assert_eq!(run.parameters, Some(64 * 64 + 64 + 64 * 10 + 10), "{name}");
    }
}

#[test]
fn its_own_operation_gives_the_weights_that_our_optimizer_gives_to_the_last_bit() {
    let trials = trials(1, 60);
    assert_eq!(weights(&trials[0]), weights(&trials[1]));
}

#[test]
fn over_quic_a_synchronous_training_gives_the_weights_of_the_simulation() {
    let trials = trials(2, 30);
    let [own, _, sync] = &trials[..] else { panic!("three runs") };
    let ending = deployed(sync, train).ending;
    assert_eq!(ending.unwrap().weights_digest, Some(weights(sync)));
    let asynchronous = deployed(own, train);
    let taken = asynchronous.steps().map(|step| step.global_step).max();
    assert!(taken.unwrap() >= 30 && asynchronous.ending.is_some());
}

#[test]
fn a_parameter_server_that_dies_gets_its_variables_and_slots_back_from_checkpoints() {
    let text = |faults: &str| {
        let text = fs::read_to_string(SCENARIO).unwrap();
        let own = format!("\n[checkpoint]\nevery_steps = 10\n{faults}\n[[run]]");
        text.replace("tensorflow/digits_mlp.pb", GRAPH)
            .replace("worker = 4", "worker = 1")
            .replace("steps = 1000\naccuracy = 0.95", "steps = 40")
            .replacen("\n[[run]]", &own, 1)
            .replace(
                "straggler = { law = \"lognormal\", sigma = 0.3 }",
                "step_time = { law = 'constant', value = '100ms' }",
            )
    };
    let crash = "[[fault]]\nat = '2550ms'\ncrash = 'ps:1'\nrestart_after = '20ms'\n";
    let runs = |faults: &str| Experiment::parse(text(faults)).unwrap().simulate(train).unwrap();
    let (hit, spared) = (runs(crash), runs(""));
    for name in ["its own operation", "sync"] {
        let (hit, spared) = (hit.run(name).unwrap(), spared.run(name).unwrap());
        assert!(hit.gradients.computed > spared.gradients.computed, "{name}: no step taken again");
        assert_eq!(hit.weights_digest, spared.weights_digest, "{name}");
    }
}

#[test]
fn launched_it_trains_in_processes_of_its_own() {
    let said = trainyard(&[
        "launch",
        SCENARIO,
        "--run",
        "its own operation",
        "--set",
        "stop.steps=40",
        "--set",
        "cluster.worker=2",
        "--json",
    ]);
    assert_eq!(said.code, 3, "the target is not reached in so few steps: {}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert!(result["runs"][0]["global_steps"].as_u64().unwrap() >= 40, "{}", said.out);
}

/// The scenario's runs with a graph that TensorFlow wrote with dropout, of batches of unknown size.
fn with_dropout() -> Experiment {
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graphdefs/dropout_training.pb");
    let experiment = Experiment::load(SCENARIO).unwrap();
    experiment.set(&format!("program.graph_def='{graph}'")).unwrap()
}

#[test]
fn a_graph_with_dropout_learns_the_digits_and_a_run_repeats_to_the_last_bit() {
    let report = with_dropout().simulate(train).unwrap();
    let again = with_dropout().simulate(train).unwrap();
    for name in ["its own operation", "async", "sync"] {
        let (run, again) = (report.run(name).unwrap(), again.run(name).unwrap());
        assert!(run.test_accuracy.unwrap() >= 0.93, "{name}: {:?}", run.test_accuracy);
        assert_eq!(run.weights_digest, again.weights_digest, "{name}");
    }
}

#[test]
fn dropout_over_quic_draws_what_it_draws_in_the_simulation() {
    let trial = |seed: u64| {
        let changes =
            ["cluster.worker=2".to_owned(), "stop.steps=30".to_owned(), format!("seed={seed}")];
        let set = |experiment: Experiment, change: &String| experiment.set(change).unwrap();
        changes.iter().fold(with_dropout(), set).trials().unwrap().remove(2)
    };
    let ending = deployed(&trial(7), train).ending;
    assert_eq!(ending.unwrap().weights_digest, Some(weights(&trial(7))));
    assert_ne!(weights(&trial(7)), weights(&trial(8)));
}

#[test]
fn dropout_takes_the_same_time_where_only_shapes_are_computed() {
    let seconds = |numerics: &str| {
        let experiment = with_dropout().set("stop={ steps = 20 }").unwrap();
        let experiment = experiment.set(&format!("compute.numerics='{numerics}'")).unwrap();
        let experiment = experiment.unset("program.accuracy").unwrap().only("sync");
        experiment.simulate(train).unwrap().run("sync").unwrap().seconds
    };
    assert_eq!(seconds("real"), seconds("shapes"));
}

/// A trainer of one's own, of which the graph is TensorFlow's.
async fn trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let bytes = fs::read(GRAPH).expect("the file is there");
    let model = g.with_device_fn(setter, |g| {
        Ok(import::training_graph(g, &bytes, &["loss", "train"]).map_err(Error::from)?)
    })?;
    let (x, y) = (model.output("images")?, model.output("labels")?);
    let (loss, train) = (model.output("loss")?, model.train_op("train")?);
    let stop = StopAtStep::last_step(task.settings().stop.steps.unwrap_or(100));
    let mut session = MonitoredSession::builder(&task, g).hook(stop).open().await?;
    while !session.should_stop() {
        let batch = task.next_batch()?;
        let rows = batch.labels.shape().elements();
        let images = Tensor::new([rows, 8, 8, 1], batch.features.values::<f32>()?)?;
        let labels: Vec<i64> =
            batch.labels.values::<i32>()?.iter().map(|y| i64::from(*y)).collect();
        let step = session.run().feed(&x, images).feed(&y, Tensor::new([rows], &labels)?);
        step.target(&train).fetch(&loss).await?;
    }
    session.close().await
}

#[test]
fn a_program_of_ones_own_trains_it_as_the_built_in_trainer_does() {
    let trial = &trials(1, 40)[0];
    let own = trial.simulate(&trainer).recording.ending.unwrap();
    assert_eq!(own.weights_digest, Some(weights(trial)));
}

#[test]
fn a_program_of_ones_own_is_refused_in_a_synchronous_run() {
    let simulated = trials(2, 40)[2].simulate(&trainer);
    let error = simulated.outcome.result.unwrap_err();
    assert_eq!((error.code, simulated.recording.steps().count()), (Code::InvalidArgument, 0));
    assert!(error.message.contains("train (CommitStep)"), "{error}");
}

/// The refusal of the scenario's `[program]` with `line` in place of the one that begins likewise.
fn refusal(line: &str) -> String {
    let key = line.split(' ').next().unwrap();
    let text = fs::read_to_string(SCENARIO).unwrap().replace("tensorflow/digits_mlp.pb", GRAPH);
    let lines = text.lines().filter(|known| !known.starts_with(&format!("{key} = ")));
    let lines: Vec<&str> = lines
        .flat_map(|known| std::iter::once(known).chain((known == "[program]").then_some(line)))
        .collect();
    let place = folder("imported_refusals").join("scenario.toml");
    fs::write(&place, lines.join("\n")).unwrap();
    let read = Experiment::load(place.to_str().unwrap()).and_then(|known| known.trials().map(drop));
    read.expect_err(line).to_string()
}

#[test]
fn what_is_wrong_with_a_graph_is_said_before_anything_runs() {
    let cases = [
        ("graph_def = 'none.pb'", "program.graph_def: "),
        ("graph_def = 'scenario.toml'", "this is no binary GraphDef"),
        ("model = 'mlp'", "program.model: the imported graph is the model"),
        ("loss = 'no_loss'", "the graph has no `no_loss`"),
        ("loss = 'Relu'", "program.loss: `Relu` is f32[?,64], and must be a scalar of f32"),
        ("accuracy = 'Equal'", "program.accuracy: `Equal` is"),
        ("inputs = { images = 'Relu', labels = 'labels' }", "inputs.images: `Relu` is"),
        (
            "inputs = { images = 'images', labels = 'images' }",
            "must be a placeholder of i32 or i64",
        ),
        ("towers = 2", "an imported graph and training by tokens have no towers"),
        ("partitioner = { fixed_size = 2 }", "an imported graph have no layers to cut"),
        ("train = 'train'", "`program.train` has an optimizer of its own"),
    ];
    for (line, why) in cases {
        let said = refusal(line);
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn its_own_operation_is_refused_in_any_mode_but_the_asynchronous_one() {
    let set = "unset = [\"program.optimizer\"]\nset = { program.train = \"train\" }";
    let text = fs::read_to_string(SCENARIO).unwrap().replace("tensorflow/digits_mlp.pb", GRAPH);
    for (mode, more) in
        [("'sync'", ""), ("'async'", "compression = { top_k = { fraction = 0.1 } }\n")]
    {
        let text = text.replacen(
            &format!("mode = \"async\"\n{set}"),
            &format!("mode = {mode}\n{more}{set}"),
            1,
        );
        let error = Experiment::parse(text).unwrap().trials().map(drop).unwrap_err().to_string();
        assert!(error.contains("run `its own operation`: `train`, the graph's own"), "{error}");
        assert!(error.contains("without `program.train`"), "{error}");
    }
}

#[test]
fn an_operation_that_counts_no_step_is_no_training_operation() {
    let g = Graph::new();
    let bytes = fs::read(GRAPH).unwrap();
    let model = import::training_graph(&g, &bytes, &["train/update"]).unwrap();
    let error = model.train_op("train/update").unwrap_err().to_string();
    assert!(error.contains("`train/update` counts no step"), "{error}");
}
