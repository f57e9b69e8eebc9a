//! `program.partitioner`: the weights of layers in shards, over the parameter servers.

use std::sync::Arc;

use trainyard::checkpoint::{Memory, Retention, Saver, export, read_safetensors};
use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::training::{Checkpointing, Recording, SecondOrStepTimer, train};

use crate::support::binary::{folder, scenario, trainyard};

const SYNCHRONOUS: &str = r#"
    seed = 3
    [cluster]
    ps = 3
    worker = 2
    [program]
    model = "mlp"
    hidden = [16]
    batch = 8
    optimizer = { rule = "adam", learning_rate = 0.01 }
    [stop]
    steps = 20
    [[run]]
    name = "r"
    mode = "sync"
"#;

/// The weights after a training with `partitioner`, as a hash.
fn weights(text: &str, partitioner: &str) -> Result<String> {
    let experiment = Experiment::parse(text)?.set(&format!("program.partitioner={partitioner}"))?;
    Ok(experiment.simulate(train)?.run("r")?.weights_digest.clone().expect("numbers are computed"))
}

#[test]
fn a_synchronous_training_learns_the_same_to_the_last_bit_whatever_the_partitioner() -> Result<()> {
    let convnet = SYNCHRONOUS.replace("\"mlp\"", "\"convnet\"").replace("hidden = [16]", "");
    let local = SYNCHRONOUS.replace("\"sync\"", "{ local_sgd = { every = 4 } }");
    let without_servers = SYNCHRONOUS.replace("ps = 3", "").replace("worker = 2", "worker = 3");
    let [tree, shuffle] = ["tree", "shuffle"].map(|way| {
        without_servers.replace("batch = 8", &format!("batch = 9\n    all_reduce = \"{way}\""))
    });
    for text in [SYNCHRONOUS, &convnet, &local, &tree, &shuffle] {
        let whole = Experiment::parse(text)?.simulate(train)?;
        let whole = whole.run("r")?.weights_digest.clone().unwrap();
        for partitioner in [
            "{ fixed_size = 3 }",
            "{ min_max = { max_partitions = 4, min_slice = \"1KiB\" } }",
            "{ variable_axis_size = { max_shard = \"512B\", max_shards = 7 } }",
        ] {
            assert_eq!(weights(text, partitioner)?, whole, "{partitioner}");
        }
    }
    Ok(())
}

/// No partitioner, and two.
const PARTITIONERS: [Option<&str>; 3] =
    [None, Some("{ fixed_size = 3 }"), Some("{ fixed_size = 5 }")];

/// A training of `steps` steps that goes on from the checkpoint in `store`, if it has one.
fn until(text: &str, partitioner: Option<&str>, steps: u64, store: &Memory) -> Recording {
    let mut experiment = Experiment::parse(text).unwrap();
    if let Some(partitioner) = partitioner {
        experiment = experiment.set(&format!("program.partitioner={partitioner}")).unwrap();
    }
    let mut trial = experiment.trials().unwrap().remove(0);
    trial.settings.stop.steps = Some(steps);
    let every = SecondOrStepTimer::every_steps(3);
    let own = Checkpointing::new(Arc::new(store.clone()));
    trial.checkpointing = Some(Checkpointing { every, ..own });
    let simulated = trial.simulate(&train);
    simulated.outcome.result.unwrap();
    simulated.recording
}

/// Trainings of `text` that go on with another partitioner end as one that was never broken off.
#[track_caller]
fn assert_go_on_in_other_parts(text: &str) {
    let weights = |recording: Recording| recording.ending.unwrap().weights_digest.unwrap();
    let expected = weights(until(text, None, 12, &Memory::default()));
    for (first, second) in
        PARTITIONERS.map(|first| PARTITIONERS.map(|second| (first, second))).concat()
    {
        let store = Memory::default();
        until(text, first, 6, &store);
        let resumed = until(text, second, 12, &store);
        let what = format!("{first:?}, then {second:?}");
        assert!(resumed.steps().all(|step| step.global_step >= 6), "{what}: from the beginning");
        assert!(resumed.begun_anew.is_empty(), "{what}: {:?}", resumed.begun_anew);
        assert_eq!(weights(resumed), expected, "{what}");
    }
}

#[test]
fn slots_that_are_scalars_are_restored_in_any_parts_too() {
    for rule in ["adam", "adamw", "adagrad_da"] {
        assert_go_on_in_other_parts(&SYNCHRONOUS.replace("adam", rule));
    }
    let copies = SYNCHRONOUS.replace("\"sync\"", "{ local_sgd = { every = 2 } }");
    assert_go_on_in_other_parts(&copies);
}

/// [`SYNCHRONOUS`], but that workers train copies, with slots that are cut as they are.
fn of_copies(mode: &str) -> String {
    SYNCHRONOUS.replace("\"sync\"", mode).replace("\"adam\"", "\"adagrad\"")
}

#[test]
fn copies_that_workers_train_are_restored_in_any_parts_and_learn_on_as_if_never_broken_off() {
    for mode in ["{ local_sgd = { every = 2 } }", "{ diloco = { every = 2 } }"] {
        assert_go_on_in_other_parts(&of_copies(mode));
    }
    // What an asynchronous training learns depends on the times, and so on the parts.
    let elastic = of_copies("{ elastic_averaging = { every = 2, alpha = 0.3 } }");
    let store = Memory::default();
    for (partitioner, steps) in [PARTITIONERS[1], PARTITIONERS[2], None].into_iter().zip(1..) {
        until(&elastic, partitioner, 6 * steps, &store);
    }
}

#[test]
fn weights_alone_of_copies_in_parts_are_the_wholes_as_those_of_shared_variables_are() {
    let exported = |text: &str, test: &str| {
        let store = Memory::default();
        until(text, PARTITIONERS[1], 6, &store);
        let mut saver = Saver::new(Arc::new(store), Retention::default());
        let path = folder(test).join("weights.safetensors");
        export(saver.latest().unwrap().checkpoint.unwrap(), true, &path).unwrap();
        let weights = read_safetensors(&path).unwrap();
        weights.into_iter().map(|(name, value)| (name, value.shape())).collect::<Vec<_>>()
    };
    let shared = exported(SYNCHRONOUS, "weights_of_shards");
    assert!(shared.iter().any(|(name, _)| name == "dense/kernel"), "{shared:?}");
    let copies = of_copies("{ local_sgd = { every = 2 } }");
    assert_eq!(exported(&copies, "weights_of_copies"), shared);
}

#[test]
fn the_shards_of_a_layer_are_spread_over_the_parameter_servers() {
    let text = SYNCHRONOUS.replace("batch = 8", "batch = 8\npartitioner = { fixed_size = 3 }");
    let said = trainyard(&["graph", "show", &scenario("partitioner", &text)]);
    assert_eq!(said.code, 0, "{}", said.err);
    let servers: Vec<&str> = said.out.split("\n\n").filter(|of| of.starts_with("ps:")).collect();
    let shards = |server: &&str| server.matches("update_dense/kernel/part_").count();
    assert_eq!(servers.iter().map(shards).collect::<Vec<_>>(), [1, 1, 1], "{}", said.out);
}

#[test]
fn a_partitioner_without_a_number_and_one_for_a_model_without_layers_are_refused() {
    let refused = |change: &str| {
        let changed = Experiment::parse(SYNCHRONOUS).unwrap().set(change).unwrap();
        changed.simulate(train).unwrap_err().to_string()
    };
    let zero = refused("program.partitioner={ fixed_size = 0 }");
    assert!(zero.contains("program.partitioner.fixed_size: 0 must be at least 1"), "{zero}");
    let unknown = refused("program.partitioner={ fixed_sizes = 2 }");
    assert!(unknown.contains("did you mean `fixed_size`"), "{unknown}");
}
