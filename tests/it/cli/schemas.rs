//! The published schemas hold for what the commands write. Those of `launch` and `plan` are looked
//! at where these are tested.

use serde_json::{Value, json};

use crate::support::binary::{scenario, trainyard};
use crate::support::schema::{assert_valid, mistakes, schema};

const MODES: &str = r#"
[cluster]
ps = 2
worker = 3
[program]
batch = 8
[stop]
steps = 30
evaluate_every = 10
[[run]]
mode = "async"
[[run]]
mode = { sync = { backups = 1, cancel = true } }
[[run]]
mode = { bounded_staleness = { slack = 2 } }
[[run]]
mode = { k_async = { k = 2 } }
[[run]]
mode = { k_batch_sync = { k = 2, cancel = true } }
[[run]]
mode = { k_batch_async = { k = 2 } }
[[run]]
mode = "staleness_aware"
[[run]]
mode = { delay_compensated = { lambda = 0.04 } }
[[run]]
mode = { local_sgd = { every = 5 } }
[[run]]
mode = { diloco = { every = 5 } }
[[run]]
mode = { elastic_averaging = { alpha = 0.1, every = 5 } }
[[run]]
mode = "sync"
compression = "bf16"
"#;

/// What `sim --json` says of the scenario `text`, whatever its exit code.
fn result(name: &str, text: &str, flags: &[&str]) -> Value {
    let path = scenario(name, text);
    let said = trainyard(&[&["sim", &path, "--json"], flags].concat());
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
}

#[test]
fn the_schema_of_results_holds_for_all_modes_and_ends() {
    let all = result("schema_modes", MODES, &[]);
    assert_eq!(all["runs"].as_array().unwrap().len(), 12);
    assert_valid("result", &all);
    let ends = |flags: &[&str]| {
        let result = result("schema_ends", MODES, &[&["--run", "async"], flags].concat());
        assert_valid("result", &result);
        result["runs"][0]["end"].clone()
    };
    assert_eq!(ends(&["--set", "stop.accuracy=0.999"]), "target_not_reached");
    let rate = "program.optimizer={rule='gradient_descent',learning_rate=1e30}";
    let model = "program={model='mlp',hidden=[8]}";
    assert_eq!(ends(&["--set", model, "--set", rate]), "diverged");
    assert_eq!(ends(&["--set", "compute.numerics=shapes"]), "done");
}

#[test]
fn the_schema_of_results_holds_for_sweeps_seeds_and_tuned_runs() {
    let flags = ["--seeds", "2", "--sweep", "cluster.worker=2,3", "--sweep", "network.latency=1ms"];
    let text = format!(
        "{}[[run]]\nmode = 'sync'\n[tune]\nlearning_rate = [0.1, 0.2]\n",
        MODES.split("[[run]]").next().unwrap()
    );
    let result = result("schema_tuned", &text, &flags);
    assert_eq!(result["tuned"][0]["tried"].as_array().unwrap().len(), 2);
    assert_eq!(result["summaries"][0]["settings"]["network.latency"], "1ms");
    assert_valid("result", &result);
}

#[test]
fn a_result_with_a_key_more_or_less_or_of_another_type_is_refused() {
    let schema = schema("result");
    let text = format!("{}[[run]]\nmode = 'sync'\n", MODES.split("[[run]]").next().unwrap());
    let sound = result("schema_refuses", &text, &[]);
    let changed = |change: fn(&mut Value)| {
        let mut result = sound.clone();
        change(&mut result);
        mistakes(&schema, &result).join("; ")
    };
    assert_eq!(changed(|_| {}), "");
    let one_more = changed(|result| result["runs"][0]["staleness"]["p42"] = json!(1));
    assert!(one_more.contains("/runs/0/staleness/p42: nothing may be here"), "{one_more}");
    let one_less = changed(|result| {
        result["runs"][0].as_object_mut().unwrap().remove("seconds");
    });
    assert_eq!(one_less, "/runs/0: `seconds` is missing");
    let another = changed(|result| result["runs"][0]["bytes_sent"]["ps:0"] = json!("many"));
    assert_eq!(another, r#"/runs/0/bytes_sent/ps:0: "many" is no "integer""#);
    let unknown = changed(|result| result["runs"][0]["end"] = json!("perhaps"));
    assert!(unknown.starts_with(r#"/runs/0/end: "perhaps" is none of"#), "{unknown}");
    let unknown = changed(|result| result["runs"][0]["critical_path"]["causes"]["luck"] = json!(1));
    assert!(unknown.contains(r#""luck" is none of"#), "{unknown}");
}
