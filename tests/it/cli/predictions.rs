//! `launch --compare`: a run is predicted beside what is measured of it.

use std::fs;

use serde_json::Value;

use crate::support::binary::{folder, scenario, trainyard};

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
                [stop]\nsteps = 60\n\
                [[run]]\nmode = 'async'\n[[run]]\nmode = 'sync'\n";
    let path = scenario("compared", text);
    let out = folder("compared_out");
    let machine = out.join("machine.toml");
    fs::write(&machine, CALIBRATION).unwrap();
    let (out_name, machine) = (out.to_str().unwrap(), machine.to_str().unwrap());
    let said =
        trainyard(&["launch", &path, "--compare", "--calibration", machine, "--out", out_name]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in ["step, median [ms]", "the largest cause of a step's time", "median step: an error"]
    {
        assert!(said.out.contains(line), "no `{line}` in\n{}", said.out);
    }
    let text = fs::read_to_string(out.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    for run in result["runs"].as_array().unwrap() {
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
