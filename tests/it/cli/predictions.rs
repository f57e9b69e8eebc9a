//! `launch --compare`: a run is predicted beside what is measured of it. `calibrate`: what it finds
//! in earlier runs, and of a running cluster.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use trainyard::cluster::TaskName;
use trainyard::scenario::load;
use trainyard::simulation::Law;
use trainyard::transport::Authority;

use crate::support::binary::{Running, folder, free_addresses, scenario, trainyard};
use crate::support::schema::assert_valid;

const CALIBRATION: &str = "\
[calibration]
send = { fixed = \"10us\", per_byte = \"1ns\" }
receive = { fixed = \"10us\", per_byte = \"1ns\" }
wake = \"20us\"
patience = \"100us\"
operation = \"1us\"
hand_over = \"20us\"
loopback = { latency = \"20us\", bandwidth = \"20Gbps\" }
compute = { rate = \"20GFLOP/s\", memory = \"10GB/s\" }
";

#[test]
fn launch_compares_what_it_measures_with_what_a_calibration_predicts() {
    let text = "name = 'compared'\n[cluster]\nps = 1\nworker = 2\n[program]\nbatch = 8\n\
                [compute]\nstraggler = { law = 'exponential' }\n[stop]\nsteps = 60\n\
                [[run]]\nmode = 'async'\n[[run]]\nmode = 'sync'\n";
    let path = scenario("compared", text);
    let out = folder("compared_out");
    let machine = out.join("machine.toml");
    fs::write(&machine, CALIBRATION).unwrap();
    let (out_name, machine) = (out.to_str().unwrap(), machine.to_str().unwrap());
    let said =
        trainyard(&["launch", &path, "--compare", "--calibration", machine, "--out", out_name]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in [
        "step, median [ms]",
        "left out of the prediction, as no launch has it: `compute.straggler`",
        "the largest cause of a step's time",
        "median step: an error",
    ] {
        assert!(said.out.contains(line), "no `{line}` in\n{}", said.out);
    }
    let text = fs::read_to_string(out.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_valid("result", &result);
    for run in result["runs"].as_array().unwrap() {
        assert_eq!(run["comparison"]["left_out"], serde_json::json!(["compute.straggler"]));
        let step = &run["comparison"]["figures"][0];
        let (predicted, measured) =
            (step["predicted"].as_f64().unwrap(), step["measured"].as_f64().unwrap());
        let p50 = run["step_seconds"]["p50"].as_f64().unwrap();
        assert!(predicted > 0.05, "two messages and two answers cost more: {predicted} ms");
        assert!((measured - p50 * 1e3).abs() < 1e-9, "{measured} ms, but {p50} s in the report");
    }
}

#[test]
fn a_calibration_is_for_a_comparison() {
    let said = trainyard(&["launch", "any.toml", "--calibration", "machine.toml"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("--compare"), "{}", said.err);
}

#[test]
fn calibrate_finds_the_laws_of_the_workers_in_the_steps_of_an_earlier_run() {
    let laws = "[compute]\nnumerics = 'shapes'\n\
                [compute.tasks.'worker:0']\n\
                step_time = { law = 'shifted_exponential', shift = '20ms', mean = '5ms' }\n\
                [compute.tasks.'worker:1']\n\
                step_time = { law = 'lognormal', mean = '30ms', sigma = 0.4 }\n";
    let text = format!("[stop]\nsteps = 4000\n{laws}");
    let (path, out) = (scenario("laws", &text), folder("laws_out"));
    let said = trainyard(&["sim", &path, "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    let found = out.join("laws.toml");
    let found_name = found.to_str().unwrap();
    let said = trainyard(&["calibrate", "--from", out.to_str().unwrap(), "--out", found_name]);
    assert_eq!(said.code, 0, "{}", said.err);
    let own = load(&found, &[]).unwrap().hardware.own_compute;
    let law = |index| own[&TaskName::new("worker", index)].step_time.clone().unwrap();
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
    match (law(0), law(1)) {
        (Law::ShiftedExponential { shift, mean: beyond }, Law::Lognormal { mean, sigma })
            if near(shift, 0.020)
                && near(beyond, 0.005)
                && near(mean, 0.030)
                && near(sigma, 0.4) => {}
        others => panic!("{others:?}"),
    }
}

#[test]
fn calibrate_measures_each_task_of_a_served_cluster_and_the_way_between_each_two() {
    let (place, authority) = (folder("served_calibration"), Authority::new("trainyard").unwrap());
    let tasks = [("ps", 0), ("worker", 0), ("worker", 1)];
    for (job, index) in tasks.into_iter().chain([("client", 0)]) {
        let task = TaskName::new(job, index);
        authority.issue(&task, &[]).unwrap().save(&place, &task).unwrap();
    }
    let [ps, one, other] = free_addresses();
    let file = place.join("cluster.json");
    let cluster = serde_json::json!({ "ps": [ps], "worker": [one, other] });
    fs::write(&file, cluster.to_string()).unwrap();
    let serve = |(job, index): (&str, u32)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.args(["serve", "--job-name", job, "--task-index", &index.to_string()]);
        command.arg("--cluster").arg(&file).arg("--certs").arg(&place).env_remove("TF_CONFIG");
        Running::start(&mut command, Duration::from_secs(60))
    };
    let _servers = tasks.map(serve);
    let found = place.join("measured.toml");
    let paths = [&file, &place, &found].map(|path| path.to_str().unwrap());
    let [file, certs, found_name] = paths;
    let said = trainyard(&["calibrate", "--cluster", file, "--certs", certs, "--out", found_name]);
    assert_eq!(said.code, 0, "{}", said.err);
    let text = fs::read_to_string(&found).unwrap();
    fs::write(&found, format!("{text}[cluster]\nps = 1\nworker = 2\n")).unwrap();
    let scenario = load(&found, &[]).unwrap();
    for (job, index) in tasks {
        let speed = &scenario.hardware.own_compute[&TaskName::new(job, index)];
        assert!((1e8..1e13).contains(&speed.rate.0), "{text}");
        assert!((1e7..1e12).contains(&speed.memory.0), "{text}");
    }
    assert_eq!(scenario.hardware.network.links.len(), 6, "both ways: {text}");
    for link in scenario.hardware.network.links.values() {
        let latency = link.latency.expect("it was measured");
        assert!(
            latency > Duration::from_micros(1) && latency < Duration::from_millis(50),
            "{text}"
        );
        assert!(link.bandwidth.is_none_or(|rate| (1e6..1e13).contains(&rate.0)), "{text}");
    }
}

#[test]
fn a_cluster_is_measured_with_a_certificate_and_instead_of_anything_else() {
    for args in [&["--cluster", "a.json"][..], &["--certs", "certs"]] {
        let said = trainyard(&[&["calibrate"], args].concat());
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("required"), "{}", said.err);
    }
}
