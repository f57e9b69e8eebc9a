//! Compression on the way from task to task: what it saves, that it trains, and that both worlds round alike.

use std::num::NonZeroU32;

use serde_json::Value;

use trainyard::prelude::*;
use trainyard::runtime::Encoding;
use trainyard::sync::Mode;
use trainyard::training::Model;

use crate::binary::{scenario, trainyard};
use crate::simulated::{Simulated, Trained};

const INT8: Encoding = Encoding::Int8 { block: NonZeroU32::new(256).unwrap() };
const MODES: [Mode; 2] = [Mode::Sync { backups: 0 }, Mode::Async];

/// A model of the digits with a hidden layer, on a network that is felt.
fn digits(mode: Mode) -> Simulated {
    Simulated::new(2, 2, mode).digits().model(Model::Mlp { hidden: vec![128] }).adam(0.005).batch(32)
}

fn bytes_sent(trained: &Trained) -> f64 {
    trained.outcome.bytes_sent.values().sum::<u64>() as f64
}

#[test]
fn half_and_a_quarter_of_the_bits_train_the_digits_with_workers_that_wait_and_with_workers_that_dont() {
    for (mode, encoding) in MODES.into_iter().flat_map(|mode| [(mode, Encoding::Bf16), (mode, INT8)]) {
        let accuracy = digits(mode).encoding(encoding).steps(150).run().evaluation.unwrap().accuracy;
        assert!(accuracy >= 0.95, "{mode} with {encoding:?}: {accuracy}");
    }
}

#[test]
fn bf16_halves_the_bytes_and_int8_quarters_them() {
    for mode in MODES {
        let sent = |encoding| {
            let training = Simulated::new(2, 2, mode).digits().model(Model::Mlp { hidden: vec![512] });
            bytes_sent(&training.encoding(encoding).steps(20).run())
        };
        let exact = sent(Encoding::Exact);
        let (bf16, int8) = (sent(Encoding::Bf16) / exact, sent(INT8) / exact);
        assert!((0.49..0.52).contains(&bf16), "{mode}, bf16: {bf16}");
        assert!((0.25..0.27).contains(&int8), "{mode}, int8: {int8}");
    }
}

#[test]
fn where_only_shapes_are_computed_as_many_bytes_are_sent() {
    for encoding in [Encoding::Bf16, INT8] {
        let training = digits(MODES[0]).encoding(encoding).steps(10);
        let bytes = [training.clone().run(), training.shapes().run()].map(|trained| bytes_sent(&trained));
        assert_eq!(bytes[0], bytes[1], "{encoding:?}");
    }
}

#[test]
fn a_compressed_training_is_the_same_to_the_last_bit_each_time_and_another_than_the_exact_one() {
    let digests = |encoding| digits(Mode::Async).encoding(encoding).steps(10).run().digests();
    assert_eq!(digests(INT8), digests(INT8));
    assert_ne!(digests(INT8).1, digests(Encoding::Exact).1);
}

#[cfg(target_os = "linux")]
#[test]
fn both_worlds_round_alike_and_count_the_same_bytes_but_for_those_of_a_few_messages() {
    let path = scenario(
        "compressed_in_both_worlds",
        "seed = 3\n[cluster]\nps = 2\nworker = 2\n[program]\nmodel = 'mlp'\nhidden = [64]\n[stop]\nsteps = 20\n\
         [network]\ncompression = 'bf16'\n[[run]]\nmode = 'sync'\n[[run]]\nmode = 'sync'\ncompression = 'int8'\n\
         [[run]]\nmode = 'sync'\ncompression = 'none'\n",
    );
    let runs = |command: &str| -> Vec<(Value, f64)> {
        let said = trainyard(&[command, &path, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        let sent =
            |run: &Value| run["bytes_sent"].as_object().unwrap().values().map(|sent| sent.as_f64().unwrap()).sum();
        report["runs"].as_array().unwrap().iter().map(|run| (run["weights_digest"].clone(), sent(run))).collect()
    };
    let (simulated, deployed) = (runs("sim"), runs("launch"));
    assert_eq!(simulated.len(), 3);
    for ((digest, sent), (deployed_digest, deployed_sent)) in simulated.iter().zip(&deployed) {
        assert!(digest.is_string() && digest == deployed_digest, "{digest} and {deployed_digest}");
        assert!((sent / deployed_sent - 1.0).abs() < 0.01, "{sent} and {deployed_sent}");
    }
    assert!(simulated[0].0 != simulated[1].0 && simulated[1].0 != simulated[2].0);
}
