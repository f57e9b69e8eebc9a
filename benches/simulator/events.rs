//! Events and flows a second, and what a bare heap does beside them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use serde_json::json;
use trainyard::experiment::{Experiment, Trial};
use trainyard::training::train;

use crate::figures::Figures;

const SERVERS: u32 = 16;
const REPEATS: usize = 5;

/// The only trial of a scenario.
pub(crate) fn trial(scenario: String) -> Trial {
    let experiment = Experiment::parse(scenario).expect("it is a scenario");
    experiment.trials().expect("its data is embedded").remove(0)
}

/// Pops and pushes events of 24 bytes on a heap that holds as many as a simulation of a thousand
/// workers: what any simulator with one heap is limited to.
pub(crate) fn bare_heap(figures: &Figures) {
    const HELD: u64 = 4096;
    const EVENTS: u64 = 10_000_000;
    let mut heap: BinaryHeap<Reverse<(u64, u64, u64)>> =
        (0..HELD).map(|number| Reverse((number * 37 % HELD, number, 0))).collect();
    let began = Instant::now();
    for number in HELD..HELD + EVENTS {
        let Reverse((at, _, kind)) = heap.pop().expect("as many are pushed as are popped");
        let after = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        heap.push(Reverse((at + after, number, kind)));
    }
    let rate = EVENTS as f64 / began.elapsed().as_secs_f64();
    std::hint::black_box(heap);
    figures.note(&json!({ "case": "bare heap", "held": HELD, "events_per_s": rate.round() }));
}

/// The null program of TensorFlow's OSDI paper (one scalar on each of 16 parameter servers, read
/// and updated by every worker), asynchronous, with more and more workers.
pub(crate) fn of_null_programs(figures: &Figures) {
    for workers in [1, 8, 64] {
        let trial = trial(format!(
            "seed = 7\n[cluster]\nps = {SERVERS}\nworker = {workers}\n\
             [program]\nmodel = \"null\"\n[stop]\nsteps = 20000\n"
        ));
        let mut rates = Vec::new();
        let mut last = None;
        for _ in 0..=REPEATS {
            let began = Instant::now();
            let outcome = trial.simulate(&train).outcome;
            rates.push(outcome.events as f64 / began.elapsed().as_secs_f64());
            outcome.result.as_ref().expect("a null program runs to its end");
            let digest = *last.get_or_insert(outcome.digest);
            assert_eq!(digest, outcome.digest, "a repeat is the same to the last event");
        }
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        figures.note(&json!({
            "case": "events", "program": "null", "ps": SERVERS, "workers": workers,
            "events_per_s": rates[rates.len() / 2].round(),
            "least": rates[0].round(), "most": rates[rates.len() - 1].round(),
        }));
    }
}

/// A thousand workers that each read a sixteenth of 64 MB from each of 16 parameter servers,
/// asynchronously: thousands of flows at a time, all of which share links with others. A long run
/// less a short one, so that the start, the first reads, which begin at once, and the end cancel
/// out.
pub(crate) fn flows(figures: &Figures) {
    const WORKERS: u32 = 1000;
    let took = |steps: u32| {
        let trial = trial(format!(
            "seed = 7\n[cluster]\nps = {SERVERS}\nworker = {WORKERS}\n\
             [compute]\nnumerics = \"shapes\"\n\
             step_time = {{ law = \"exponential\", mean = \"2s\" }}\n\
             [program]\nmodel = \"null\"\nbytes = \"64MB\"\ngradient = \"scalar\"\n\
             [stop]\nsteps = {steps}\n"
        ));
        let began = Instant::now();
        let outcome = trial.simulate(&train).outcome;
        outcome.result.as_ref().expect("a null program runs to its end");
        (f64::from(steps) * f64::from(SERVERS), began.elapsed().as_secs_f64())
    };
    let ((few, before), (many, after)) = (took(6 * WORKERS), took(24 * WORKERS));
    figures.note(&json!({
        "case": "flows", "program": "null, 64 MB", "ps": SERVERS, "workers": WORKERS,
        "flows_per_s": ((many - few) / (after - before)).round(),
    }));
}
