//! How many events a second the simulator does through the real actors. One JSON line a case.
//!
//! `cargo bench --bench simulator`: the null program of TensorFlow's OSDI paper (one scalar on each
//! of 16 parameter servers, read and updated by every worker), asynchronous, with more and more
//! workers.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use trainyard::cluster::ClusterSpec;
use trainyard::graph::UpdateRule;
use trainyard::kernels::Numerics;
use trainyard::models::Model;
use trainyard::runtime::Encoding;
use trainyard::simulation::{Cluster, ComputeSpec, Faults, Host, NetworkSpec, run};
use trainyard::sync::Mode;
use trainyard::training::{
    Beginning, Ending, Evaluation, OptimizerSettings, Recorder, Settings, StepStats, Stop, Task,
    TaskParts, train,
};
use trainyard::units::{BytesPerSecond, FlopsPerSecond};

const SERVERS: u32 = 16;
const REPEATS: usize = 5;

/// Keeps nothing: what is measured is the simulator.
struct Silence;

impl Recorder for Silence {
    fn restored(&self, _: u64) {}

    fn step(&self, _: StepStats) {}
    fn evaluation(&self, _: Evaluation) {}
    fn beginning(&self, _: Beginning) {}
    fn ending(&self, _: Ending) {}
}

fn cluster(workers: u32) -> Cluster {
    Cluster {
        spec: ClusterSpec::simulated([("ps", SERVERS), ("worker", workers)])
            .expect("two jobs are a cluster"),
        network: NetworkSpec {
            latency: Duration::from_micros(50),
            bandwidth: BytesPerSecond(1.25e9),
            message_cost: Duration::from_micros(5),
            racks: None,
        },
        encoding: Encoding::Exact,
        compute: ComputeSpec {
            rate: FlopsPerSecond(50e9),
            memory: BytesPerSecond(10e9),
            straggler: None,
            step_time: None,
        },
        devices: NonZeroU32::MIN,
        slow: Default::default(),
        numerics: Numerics::Real,
        seed: 7,
        faults: Faults::none(),
    }
}

fn task(host: Host, steps: u64) -> Task {
    let settings = Settings {
        model: Model::Null { variables: SERVERS as usize },
        optimizer: OptimizerSettings {
            rule: UpdateRule::GradientDescent,
            learning_rate: 0.0.into(),
            clip: None,
            top_k: None,
        },
        batch: 1,
        averaging: None,
        stop: Stop { steps: Some(steps), accuracy: None, evaluate_every: 1, time: None },
    };
    let parts = TaskParts {
        server: host.server,
        clock: host.clock,
        mode: Mode::Async,
        seed: 7,
        settings,
        dataset: None,
        checkpointing: None,
        recorder: Rc::new(Silence),
    };
    Task::new(parts).expect("a null program needs no data")
}

fn main() {
    for workers in [1, 8, 64] {
        let cluster = cluster(workers);
        let mut rates = Vec::new();
        let mut last = None;
        for _ in 0..=REPEATS {
            let began = Instant::now();
            let outcome = run(&cluster, |host| train(task(host, 20_000)));
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
