//! Timelines of trainings with an evaluator that once broke a promise.

use super::mended::{SOFTMAX, try_again};

/// Tries `run` of `sims/chaos.toml` with an evaluator under `faults`.
fn try_evaluated(run: &str, faults: &str) {
    let folder = tempfile::tempdir().unwrap();
    let directory = format!("checkpoint.directory={:?}", folder.path().display().to_string());
    try_again(5, &["cluster.evaluator=1", &directory, SOFTMAX], run, faults);
}

#[test]
fn a_restore_waits_for_no_dead_evaluator() {
    let faults = r#"[{ at = "60ms", crash = "evaluator:0" },
                     { at = "150ms", crash = "ps:1", restart_after = "10ms" }]"#;
    try_evaluated("sync", faults);
}

#[test]
fn an_evaluator_ends_with_the_training_though_it_has_outlived_a_stop_of_a_parameter_server() {
    // No worker has begun to train before all are asked to stop, so that none says it leaves.
    let faults = r#"[{ at = "0us", freeze = "ps:0", for = "100ms" },
                     { at = "2939us", stop = "ps:1", restart_after = "500us" }]"#;
    try_evaluated("async", faults);
}

#[test]
fn an_evaluator_whose_earlier_life_alone_was_told_of_the_end_hears_of_it_again() {
    let faults = r#"[{ at = "1ms", freeze = "evaluator:0", for = "900ms" },
                     { at = "2ms", stop = "evaluator:0", restart_after = "1s" }]"#;
    try_evaluated("async", faults);
}

#[test]
fn an_evaluator_that_comes_back_after_all_were_stopped_for_good_says_whom_it_misses() {
    let faults = r#"[{ at = "1ms", crash = "evaluator:0", restart_after = "3s" },
                     { at = "60ms", stop = "ps:1" }]"#;
    try_evaluated("sync", faults);
}
