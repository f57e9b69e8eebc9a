//! The scenario that compares the modes: each reaches its target.

use std::process::Command;

#[test]
fn every_mode_reaches_the_target_and_accounts_for_its_gradients_and_its_bytes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    let output = command.args(["sim", "sims/modes.toml", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 7);
    for run in runs {
        let name = run["name"].as_str().unwrap();
        assert!(run["seconds_to_target"].as_f64().is_some(), "{name} did not reach the target");
        let gradients = |what: &str| run["gradients"][what].as_u64().unwrap();
        assert_eq!(gradients("computed"), gradients("applied") + gradients("dropped"), "{name}");
        assert!(run["bytes_sent"].as_object().unwrap().values().all(|bytes| bytes.as_u64() > Some(0)), "{name}");
    }
}
