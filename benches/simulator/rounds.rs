//! The wall time of a round from ten workers to three thousand, with real gradients. A round is as
//! many steps as there are workers.

use std::time::Instant;

use serde_json::json;
use trainyard::training::train;

use crate::events::trial;
use crate::figures::Figures;

/// The modes, as a scenario has them, and the steps of a round for each worker.
pub(crate) const MODES: [(&str, &str); 4] = [
    ("sync", "\"sync\""),
    ("1 backup", "{ sync = { backups = 1 } }"),
    ("ssp 4", "{ bounded_staleness = { slack = 4 } }"),
    ("async", "\"async\""),
];

const WORKERS: [u32; 6] = [10, 30, 100, 300, 1000, 3000];

/// The wall time of a round.
pub(crate) struct Round {
    pub(crate) mode: &'static str,
    pub(crate) workers: u32,
    pub(crate) milliseconds: f64,
}

/// A training of the digits by `workers` workers and 16 parameter servers.
pub(crate) fn scenario(mode: &str, workers: u32, steps: u32) -> String {
    format!(
        "seed = 7\n[cluster]\nps = 16\nworker = {workers}\n\
         [network]\nlatency = \"50us\"\nbandwidth = \"10Gbps\"\nmessage_cost = \"5us\"\n\
         [compute]\nrate = \"50GFLOP/s\"\nmemory = \"10GB/s\"\n\
         straggler = {{ law = \"lognormal\", sigma = 0.3 }}\n\
         [program]\nmodel = \"mlp\"\nhidden = [128]\ndataset = \"digits\"\nbatch = 32\n\
         optimizer = {{ rule = \"adagrad\", learning_rate = 0.05 }}\n\
         [stop]\nsteps = {steps}\n[[run]]\nname = \"run\"\nmode = {mode}\n"
    )
}

/// Measures all modes: what a run of several rounds takes longer than a run of one, a round.
pub(crate) fn measure(figures: &Figures) -> Vec<Round> {
    let mut rounds = Vec::new();
    for workers in WORKERS {
        for (name, mode) in MODES {
            let count = (6000 / workers).clamp(3, 100);
            let a_round = if name == "sync" || name == "1 backup" { 1 } else { workers };
            let took = |rounds: u32| {
                let trial = trial(scenario(mode, workers, rounds * a_round));
                let began = Instant::now();
                let outcome = trial.simulate(&train).outcome;
                outcome.result.as_ref().expect("it trains to its end");
                began.elapsed().as_secs_f64() * 1e3
            };
            let (of_one, of_all) = (took(1), took(1 + count));
            let milliseconds = (of_all - of_one).max(0.0) / f64::from(count);
            figures.note(&json!({
                "case": "round", "mode": name, "ps": 16, "workers": workers,
                "run_of_one_round_ms": of_one.round(),
                "round_ms": (milliseconds * 100.0).round() / 100.0,
                "worker_step_us": (milliseconds * 1e4 / f64::from(workers)).round() / 10.0,
            }));
            rounds.push(Round { mode: name, workers, milliseconds });
        }
    }
    rounds
}
