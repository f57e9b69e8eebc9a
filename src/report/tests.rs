//! Tests of the writers, on one fixed report.

use std::collections::BTreeMap;

use super::*;
use crate::cluster::TaskName;
use crate::units::Time;

fn run(name: &str, seconds_to_target: Option<f64>, steps_per_second: f64) -> Run {
    Run {
        name: name.to_owned(),
        mode: "sync, 1 backup".to_owned(),
        parameters: Some(9_610),
        global_steps: 1200,
        samples: 307_200,
        seconds: 2.5,
        wall_seconds: 0.75,
        steps_per_second,
        samples_per_second: 122_880.0,
        step_seconds: StepSeconds::of(&[0.25, 0.75]),
        final_loss: Some(0.125),
        test_accuracy: Some(0.953),
        seconds_to_target,
        staleness: Staleness::of(&BTreeMap::from([(0, 50), (3, 50)])),
        gradients: Gradients { computed: 10_800, applied: 9_600, dropped: 1_200 },
        bytes_sent: [("worker", 10, 1_500_000), ("worker", 9, 500_000), ("ps", 0, 20_000_000)]
            .map(|(job, index, bytes)| (TaskName::new(job, index), bytes))
            .into(),
        step_bytes_sent: [("worker", 10, 1_400_000), ("ps", 0, 19_600_000)]
            .map(|(job, index, bytes)| (TaskName::new(job, index), bytes))
            .into(),
        waiting_seconds: BTreeMap::from([(
            TaskName::new("worker", 0),
            BTreeMap::from([("token".to_owned(), 0.5)]),
        )]),
        events: Some(99),
        digest: Some("00112233aabbccdd".to_owned()),
        weights_digest: Some("0123456789abcdef".to_owned()),
        failed_checkpoints: vec![(40, "the disk is full".to_owned())],
        is_unsaved: false,
        comparison: None,
    }
}

/// A run with only the fields that every run has.
fn bare_run() -> Run {
    Run {
        parameters: None,
        step_seconds: None,
        final_loss: None,
        test_accuracy: None,
        staleness: None,
        gradients: Gradients::default(),
        bytes_sent: BTreeMap::new(),
        step_bytes_sent: BTreeMap::new(),
        waiting_seconds: BTreeMap::new(),
        events: None,
        digest: None,
        weights_digest: None,
        ..run("ssp 4", None, 5.0)
    }
}

fn report() -> Report {
    let runs =
        vec![run("sync", Some(1.83), 480.0), run("sync, 1 backup", Some(1.0), 960.0), bare_run()];
    Report { scenario: "sync-vs-async".to_owned(), seed: 7, world: World::Simulation, runs }
}

fn json_of(report: &Report) -> String {
    let mut text = Vec::new();
    json::write(report, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_table_compares_the_runs_by_their_time_to_the_target() {
    let expected = "\
sync-vs-async, seed 7: simulation, virtual seconds

run             to target [s]  seconds  steps  steps/s  staleness (p99)  dropped  accuracy    \
loss  MB sent
sync                    1.830    2.500   1200    480.0         1.50 (3)     1200    \
0.9530  0.1250     21.0
sync, 1 backup          1.000    2.500   1200    960.0         1.50 (3)     1200    \
0.9530  0.1250     21.0
ssp 4                       -    2.500   1200      5.0                -        0         \
-       -      0.0

sync, 1 backup reached 0.95 accuracy 1.83 times faster than sync
ssp 4 did not reach 0.95 accuracy in 1200 global steps
";
    assert_eq!(table::render(&report(), Some(0.95)), expected);
}

#[test]
fn without_a_target_the_runs_are_compared_by_their_speed() {
    let text = table::render(&report(), None);
    let expected = "
sync, 1 backup made global steps 2.00 times faster than sync
sync, 1 backup made global steps 192.00 times faster than ssp 4
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn runs_that_took_as_long_are_as_fast() {
    let runs = vec![run("a", Some(1.0), 1.0), run("b", Some(1.001), 1.0)];
    let text = table::render(&Report { runs, ..report() }, Some(0.9));
    assert!(text.ends_with("\na reached 0.9 accuracy as fast as b\n"), "{text}");
}

#[test]
fn a_single_run_is_compared_with_nothing() {
    let alone =
        |seconds_to_target| Report { runs: vec![run("a", seconds_to_target, 1.0)], ..report() };
    assert_eq!(table::render(&alone(Some(1.0)), Some(0.9)).lines().count(), 4);
    assert_eq!(table::render(&alone(None), None).lines().count(), 4);
}

#[test]
fn the_table_says_how_large_a_model_is_that_all_runs_train() {
    let same = Report { runs: vec![run("a", None, 1.0), run("b", None, 1.0)], ..report() };
    assert!(
        table::render(&same, None)
            .starts_with("sync-vs-async, seed 7, 9,610 parameters: simulation")
    );
    assert!(table::render(&report(), None).starts_with("sync-vs-async, seed 7: simulation"));
}

#[test]
fn the_json_has_the_documented_keys_in_their_order_whatever_is_absent() {
    let text = json_of(&report());
    let keys_at = |depth: usize| {
        let indent = format!("\n{}\"", "  ".repeat(depth));
        let keys = text
            .split(&indent)
            .skip(1)
            .filter_map(|rest| rest.split_once("\": ").map(|(key, _)| key.to_owned()));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys_at(1), ["scenario", "seed", "world", "runs"]);
    let of_a_run = "name mode parameters global_steps samples seconds wall_seconds \
                    steps_per_second samples_per_second step_seconds final_loss test_accuracy \
                     seconds_to_target staleness gradients bytes_sent step_bytes_sent \
                     waiting_seconds events digest weights_digest failed_checkpoints is_unsaved \
                     comparison";
    let of_all_runs = of_a_run.split_whitespace().cycle().take(3 * 24).collect::<Vec<_>>();
    assert_eq!(keys_at(3), of_all_runs);
    let within = "mean p10 p50 p90 p99 mean p50 p99 max histogram computed applied dropped ps:0 \
                  worker:9 worker:10 ps:0 worker:10 worker:0";
    assert_eq!(keys_at(4)[..19], within.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn the_json_reads_back_as_the_values_of_the_report() {
    let value: serde_json::Value = serde_json::from_str(&json_of(&report())).unwrap();
    assert_eq!(value["world"], "simulation");
    let run = &value["runs"][0];
    assert_eq!(run["step_seconds"]["p90"], 0.75);
    assert_eq!(run["staleness"]["histogram"], serde_json::json!({"0": 50, "3": 50}));
    assert_eq!(
        run["gradients"],
        serde_json::json!({"computed": 10800, "applied": 9600, "dropped": 1200})
    );
    assert_eq!(run["bytes_sent"]["worker:10"], 1_500_000);
    assert_eq!(run["waiting_seconds"], serde_json::json!({"worker:0": {"token": 0.5}}));
    assert_eq!(value["runs"][2]["staleness"], serde_json::Value::Null);
}

#[test]
fn a_diverged_loss_is_null_in_the_json_and_spelt_out_in_the_table() {
    let diverged = Run { final_loss: Some(f64::NAN), ..run("a", None, 1.0) };
    let report = Report { runs: vec![diverged], ..report() };
    let value: serde_json::Value = serde_json::from_str(&json_of(&report)).unwrap();
    assert_eq!(value["runs"][0]["final_loss"], serde_json::Value::Null);
    assert!(table::render(&report, None).contains("NaN"));
}

#[test]
fn a_run_that_diverged_is_last_and_no_other_is_compared_with_it() {
    for loss in [f64::NAN, f64::INFINITY] {
        let fast = Run { final_loss: Some(loss), ..run("wild", Some(0.1), 9999.0) };
        let report = Report { runs: [vec![fast], report().runs].concat(), ..report() };
        for target in [None, Some(0.95)] {
            let text = table::render(&report, target);
            assert_eq!(text.matches("wild").count(), 2, "its row, and that it diverged: {text}");
            assert!(
                text.trim_end().ends_with("wild diverged: its loss is not finite at step 1200")
            );
        }
    }
}

#[test]
fn the_csv_has_one_row_per_worker_step_with_exact_times() {
    let row = StepRow {
        worker: TaskName::new("worker", 3),
        local_step: 4,
        global_step: 31,
        start: Time(1_000_000_001),
        end: Time(1_500_000_000),
        loss: Some(0.5),
        staleness: 2,
        applied: true,
    };
    let dropped = StepRow { loss: None, applied: false, ..row.clone() };
    let mut out = Vec::new();
    let mut steps = csv::Steps::new(&mut out).unwrap();
    steps.append("sync, 1 backup", &[row]).unwrap();
    steps.append("async", &[dropped]).unwrap();
    drop(steps);
    let expected = "\
run,worker,local_step,global_step,start_s,end_s,loss,staleness,applied
\"sync, 1 backup\",worker:3,4,31,1.000000001,1.5,0.5,2,true
async,worker:3,4,31,1.000000001,1.5,,2,false
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
