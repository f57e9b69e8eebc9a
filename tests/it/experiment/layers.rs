//! A table of layers in place of a model: what its training takes.

use std::fs;

use trainyard::experiment::Experiment;
use trainyard::report::Run;
use trainyard::training::train;

use crate::support::binary::folder;

/// The run of a worker that computes 10 samples a step at 1 GFLOP/s.
fn run(test: &str, table: &str, network: &str) -> Run {
    let folder = folder(test);
    fs::write(folder.join("layers.csv"), table).unwrap();
    let text = format!(
        "[cluster]\nps = 1\nworker = 1\n[network]\nmessage_cost = '0s'\n{network}\n\
         [compute]\nrate = '1GFLOP/s'\nmemory = '1000GB/s'\nnumerics = 'shapes'\n\
         [program]\nlayers = 'layers.csv'\nbatch = 10\n[stop]\nsteps = 20\n\
         [[run]]\nmode = 'async'\n"
    );
    let path = folder.join("scenario.toml");
    fs::write(&path, text).unwrap();
    let report = Experiment::load(&path).unwrap().simulate(train).unwrap();
    report.runs[0].clone()
}

/// A network that takes next to no time.
const FAST: &str = "latency = '1us'\nbandwidth = '400Gbps'";

#[test]
fn a_step_takes_the_times_of_its_layers_measured_or_by_their_operations() {
    let of_flops = "name,bytes,forward_flops,backward_flops\n\
                    # 10 samples of a million operations: 10 ms\n\
                    a,4000,1e6,\npool,0,5e5,5e5\nb,8000,2e6,3e6\n";
    let of_times = "name,bytes,forward_seconds,backward_seconds\n\
                    a,4000,0.010,\npool,0,0.005,0.005\nb,8000,0.020,0.030\n";
    let flops = run("layers_flops", of_flops, FAST);
    let times = run("layers_times", of_times, FAST);
    // 10 + 5 + 20 ms forward, and 20 + 5 + 30 ms backward.
    for run in [&flops, &times] {
        let step = run.step_seconds.unwrap().p50;
        assert!((0.090..0.0905).contains(&step), "{step}");
        assert_eq!(run.parameters, Some(3000));
    }
    assert_eq!(flops.digest, times.digest);
}

#[test]
fn each_layer_is_pulled_and_pushed_once_a_step_and_the_last_gradients_while_others_compute() {
    let table = "name,bytes,forward_seconds,backward_seconds\n\
                 front,4,0.1,0.1\nback,12500000,0,0\n";
    // 12.5 MB take 0.1 s on the wire, each way.
    let run = run("layers_wire", table, "latency = '1us'\nbandwidth = '1Gbps'");
    let each_way = 20.0 * 12.5e6;
    let sent = |task: &str| run.step_bytes_sent[&task.parse().unwrap()] as f64;
    for task in ["ps:0", "worker:0"] {
        assert!((0.95..1.05).contains(&(sent(task) / each_way)), "{task}: {}", sent(task));
    }
    // The gradient of `back` leaves while `front` computes its own.
    let step = run.step_seconds.unwrap().p50;
    assert!(step < 0.35, "0.4 s one after the other, and {step}");
}

#[test]
fn the_table_in_the_sources_is_bert_s() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/layers.toml");
    let experiment = Experiment::load(path).unwrap().set("stop.steps=2").unwrap();
    let report = experiment.simulate(train).unwrap();
    for run in &report.runs {
        let millions = run.parameters.unwrap() as f64 / 1e6;
        assert!((109.0..110.0).contains(&millions), "BERT-base has 110 million: {millions}");
        assert!(run.critical_path.is_some() && run.global_steps >= 2, "{run:?}");
    }
}
