//! `program.partitioner`: the weights of layers in shards, over the parameter servers.

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::training::train;

use crate::support::binary::{scenario, trainyard};

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
    for text in [SYNCHRONOUS, &convnet, &local] {
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
