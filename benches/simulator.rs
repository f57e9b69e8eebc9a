//! The simulator's events a second through the real actors. Prints one JSON line for each case.
//!
//! `cargo bench --bench simulator`: the null program of TensorFlow's OSDI paper (one scalar on each
//! of 16 parameter servers, read and updated by every worker), asynchronous, with more and more
//! workers.

use std::time::Instant;

use trainyard::experiment::{Experiment, Trial};
use trainyard::training::train;

const SERVERS: u32 = 16;
const REPEATS: usize = 5;

fn trial(workers: u32) -> Trial {
    let text = format!(
        "seed = 7\n[cluster]\nps = {SERVERS}\nworker = {workers}\n\
         [program]\nmodel = \"null\"\n[stop]\nsteps = 20000\n"
    );
    let experiment = Experiment::parse(text).expect("it is a scenario");
    experiment.trials().expect("the null program needs no data").remove(0)
}

fn main() {
    for workers in [1, 8, 64] {
        let trial = trial(workers);
        let mut rates = Vec::new();
        let mut last = None;
        for _ in 0..=REPEATS {
            let began = Instant::now();
            let outcome = trial.simulate(&train).outcome;
            rates.push(outcome.events as f64 / began.elapsed().as_secs_f64());
            outcome.result.as_ref().expect("a null program runs to its end");
            let digest = *last.get_or_insert(outcome.digest);
            assert_eq!(digest, outcome.digest, "a repeat is the same to the last event");
            last = Some(digest);
            println!(
                "{}",
                serde_json::json!({
                    "case": "events", "program": "null", "ps": SERVERS, "workers": workers,
                    "events": outcome.events, "events_per_s": rates.last().map(|rate| rate.round()),
                })
            );
        }
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        println!(
            "{}",
            serde_json::json!({
                "case": "median", "program": "null", "ps": SERVERS, "workers": workers,
                "events_per_s": rates[rates.len() / 2].round(),
            })
        );
    }
}
