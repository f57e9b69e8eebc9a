//! What tasks leave in the folder of `--out`, and how an evaluator that no cluster lists ends.

use std::fs;

use super::waits::endless;
use super::*;
use crate::support::binary::wait_for_a_loss;

/// A task that trains alone.
fn alone() -> Value {
    json!({"task": {"type": "worker", "index": 0}})
}

/// A training of `stop` with checkpoints.
fn saved(stop: &str) -> String {
    text("sync", stop) + "[checkpoint]\nevery_steps = 10\ndirectory = 'saved'\n"
}

#[test]
fn a_training_that_goes_on_keeps_its_earlier_results_and_one_with_nothing_to_do_writes_nothing() {
    let folder = with_certificates("results_kept");
    let path = scenario("results_kept", &saved("steps = 10"));
    let train = |more: &[&str]| {
        let said = run_with(&folder, &path, &alone(), &[&["--out", "out"], more].concat()).end();
        assert_eq!(said.code, 0, "{}", said.err);
        said
    };
    let read = |name: &str| fs::read_to_string(folder.join("out").join(name)).unwrap();
    let events = || fs::read_dir(folder.join("out/events/only")).unwrap().count();
    train(&[]);
    let (rows, result) = (read("steps.csv"), read("result.json"));
    assert!(train(&[]).out.contains("nothing was left to do"));
    assert_eq!((read("steps.csv"), read("result.json")), (rows.clone(), result.clone()));
    assert!(!folder.join("out/earlier-1").exists() && events() == 1);
    let said = train(&["--set", "stop.steps=20"]);
    assert!(said.err.contains("goes on from step 10 of the checkpoint"), "{}", said.err);
    assert!(said.err.contains("out/earlier-1"), "{}", said.err);
    assert_eq!((read("earlier-1/steps.csv"), read("earlier-1/result.json")), (rows, result));
    assert!(read("steps.csv").contains(",20,") && events() == 2);
}

#[test]
fn a_place_that_can_not_hold_results_is_told_before_the_training() {
    let folder = with_certificates("results_unfit");
    let path = scenario("results_unfit", &saved("steps = 10"));
    let said = run_with(&folder, &path, &alone(), &["--out", &path]).end();
    assert_eq!((said.code, &*said.out), (9, ""), "{}", said.err);
    assert!(!folder.join("saved").exists());
}

#[test]
fn an_evaluator_that_no_cluster_lists_ends_with_the_training_or_when_no_checkpoint_comes() {
    let folder = with_certificates_of("results_evaluator", "worker:0,evaluator:0");
    // Five times as long is more than the 10 s after which it says for what it waits.
    let path =
        scenario("results_evaluator", &(saved("time = '1s'") + "[network]\nrecovery = '2200ms'\n"));
    let cluster = json!({"chief": ["a:1"], "ps": ["a:2"], "worker": ["a:3"]});
    let evaluator = json!({"cluster": cluster, "task": {"type": "evaluator", "index": 0}});
    let said = run(&folder, &path, &evaluator).end();
    assert_eq!(said.code, 138, "{}", said.err);
    assert!(said.err.contains("evaluator:0 waits for a checkpoint"), "{}", said.err);
    assert!(said.err.lines().last().unwrap().contains("no whole checkpoint in saved/only"));
    let said = run(&folder, &path, &alone()).end();
    assert_eq!(said.code, 0, "{}", said.err);
    let said = run(&folder, &path, &evaluator).end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("accuracy 0."), "each evaluation has a line: {}", said.err);
}

#[test]
fn a_chief_that_loses_a_parameter_server_for_good_keeps_what_it_has_recorded() {
    let tasks = ThreeTasks::new("results_lost", &endless("1s"));
    let ps = tasks.start("ps", 0);
    let mut chief = tasks.start_with("worker", 0, &["--out", "out"]);
    let _other = tasks.start("worker", 1);
    chief.line_with(" steps, ");
    let events = tasks.folder.join("out/events/only");
    wait_for_a_loss(&events); // while it trains
    drop(ps); // kills it
    let chief = chief.end();
    assert_eq!(fs::read_dir(events).unwrap().count(), 1);
    assert_eq!(chief.code, 138, "{}", chief.err);
    let read = |name: &str| fs::read_to_string(tasks.folder.join("out").join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!(result["runs"][0]["end"], "unfinished");
    assert!(read("steps.csv").lines().count() > 10);
    assert!(chief.out.contains("deployment, seconds of the wall clock"), "{}", chief.out);
}

#[test]
fn an_evaluator_that_can_not_measure_the_last_checkpoint_says_so_and_keeps_what_it_measured() {
    let folder = with_certificates_of("results_damaged", "worker:0,evaluator:0");
    let path =
        scenario("results_damaged", &(saved("steps = 20") + "[network]\nrecovery = '500ms'\n"));
    let said = run(&folder, &path, &alone()).end();
    assert_eq!(said.code, 0, "{}", said.err);
    let last = folder.join("saved/only/model.ckpt-20-00000-of-00001.safetensors");
    let mut bytes = fs::read(&last).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&last, bytes).unwrap();
    let cluster = json!({"chief": ["a:1"], "ps": ["a:2"], "worker": ["a:3"]});
    let evaluator = json!({"cluster": cluster, "task": {"type": "evaluator", "index": 0}});
    let said = run_with(&folder, &path, &evaluator, &["--out", "out"]).end();
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(said.err.lines().last().unwrap().contains("step 20 in saved/only"), "{}", said.err);
    let rows = fs::read_to_string(folder.join("out/evaluations.csv")).unwrap();
    assert!(rows.contains(",10,"), "{rows}");
}

/// Whether SIGHUP is ignored here, as under `nohup`: what is started here then ignores it, too.
#[cfg(target_os = "linux")]
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_chief_whose_terminal_closes_saves_and_may_go_on_later() {
    if ignores_hangups() {
        return;
    }
    let folder = with_certificates("results_hangup");
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let path = scenario("results_hangup", &(endless("10s") + saving));
    let mut chief = run_with(&folder, &path, &alone(), &["--out", "out"]);
    chief.line_with(" steps, ");
    chief.signal("HUP");
    let chief = chief.end();
    assert_eq!(chief.code, 143, "{}", chief.err);
    assert!(chief.out.contains("is not finished: it stopped at step"), "{}", chief.out);
    let result = fs::read_to_string(folder.join("out/result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let end = (&result["complete"], &result["runs"][0]["end"]);
    assert_eq!(end, (&json!(false), &json!("unfinished")));
    let saved = trainyard_in(&folder, &["checkpoint", "list", "saved/only"], &[]);
    assert!(saved.out.lines().count() > 2, "one of the beginning, one of the end: {}", saved.out);
}
