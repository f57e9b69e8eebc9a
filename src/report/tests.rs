//! Tests of the writers, on one fixed report.

mod expectations;
mod limits;
mod missed;
mod tuned;
mod verdicts;

use std::collections::BTreeMap;

use super::*;
use crate::cluster::TaskName;
use crate::training::StepStats;
use crate::units::Time;

fn run(name: &str, seconds_to_target: Option<f64>, steps_per_second: f64) -> Run {
    Run {
        name: name.to_owned(),
        run: name.to_owned(),
        seed: 7,
        repeat: 1,
        settings: Swept::new(),
        end: End::Done,
        mode: "sync, 1 backup".to_owned(),
        parameters: Some(9_610),
        global_steps: 1200,
        resumed_from: None,
        samples: 307_200,
        steps_without: BTreeMap::new(),
        seconds: 2.5,
        wall_seconds: 0.75,
        start_seconds: 0.0,
        steps_per_second,
        samples_per_second: 256.0 * steps_per_second,
        step_seconds: StepSeconds::of(&[0.25, 0.75]),
        final_loss: Some(0.125),
        diverged_at: None,
        test_accuracy: Some(0.953),
        last_look_at: Some(1200),
        target_reached_at: None,
        seconds_to_target,
        seconds_to_target_resolution: seconds_to_target.map(|_| 0.0),
        last_look_seconds: Some(2.5),
        staleness: Staleness::of(&BTreeMap::from([(0, 50), (3, 50)])),
        gradients: Gradients { computed: 10_800, applied: 9_600, dropped: 1_200, stopped: 0 },
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
        critical_path: None,
        usage: BTreeMap::new(),
        events: Some(99),
        digest: Some("00112233aabbccdd".to_owned()),
        weights_digest: Some("0123456789abcdef".to_owned()),
        last_saved: None,
        checkpoint_place: None,
        failed_checkpoints: vec![(40, "the disk is full".to_owned())],
        faults: BTreeMap::new(),
        skipped_faults: vec![SkippedFaultText::new(
            "{ at = \"9s\", crash = \"ps:0\" }",
            "too late",
        )],
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
    Report {
        format: Report::FORMAT,
        trainyard: "0.1.0",
        command: ["trainyard", "sim", "a.toml"].map(str::to_owned).into(),
        scenario: "sync-vs-async".to_owned(),
        seed: 7,
        world: World::Simulation,
        settings: serde_json::json!({"name": "sync-vs-async"}),
        target: Some(0.95),
        tuned: Vec::new(),
        complete: true,
        of_task: None,
        model: None,
        aims: Vec::new(),
        runs,
    }
}

/// The report without a target.
fn untargeted(report: Report) -> Report {
    Report { target: None, ..report }
}

/// Runs of `name` with the seeds from 1, each with its time to the target.
fn seeded(name: &str, times: &[f64]) -> Vec<Run> {
    let of_seed = |(seed, time): (u64, &f64)| Run {
        name: format!("{name} (seed={seed})"),
        run: name.to_owned(),
        seed,
        ..run(name, Some(*time), 100.0)
    };
    (1..).zip(times).map(of_seed).collect()
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

run             to target [s]  seconds  steps  steps/s  samples/s  staleness (p99)  \
dropped  accuracy    loss  MB sent
sync                    1.830    2.500   1200    480.0     122880         1.50 (3)     \
1200    0.9530  0.1250     21.0
sync, 1 backup          1.000    2.500   1200    960.0     245760         1.50 (3)     \
1200    0.9530  0.1250     21.0
ssp 4                       -    2.500   1200     5.00       1280                -        \
0         -       -      0.0

sync, 1 backup reached 0.95 accuracy 1.83 times faster than sync
sync, 1 backup reached 0.95 accuracy at least 2.50 times faster than ssp 4
ssp 4 did not reach 0.95 accuracy in 1200 global steps
(of one seed: `--seeds 10` says how sure that is)
";
    assert_eq!(table::render(&report(), Layout::Plain), expected);
}

#[test]
fn the_same_table_in_markdown_begins_with_a_heading_and_lists_the_remarks() {
    let text = table::render(&report(), Layout::Markdown);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "### sync-vs-async, seed 7: simulation, virtual seconds");
    assert!(lines[2].starts_with("| run | to target \\[s] | seconds | steps |"), "{text}");
    assert!(lines[3].starts_with("| :--- | ---: | ---: |"), "{text}");
    assert!(lines[5].starts_with("| sync, 1 backup | 1.000 | 2.500 | 1200 |"), "{text}");
    let remark = "- sync, 1 backup reached 0.95 accuracy 1.83 times faster than sync";
    assert!(lines.contains(&remark), "{text}");
}

#[test]
fn the_table_says_how_large_a_model_is_that_all_runs_train() {
    let same = Report { runs: vec![run("a", None, 1.0), run("b", None, 1.0)], ..report() };
    assert!(
        table::render(&same, Layout::Plain)
            .starts_with("sync-vs-async, seed 7, 9,610 parameters: simulation")
    );
    assert!(
        table::render(&report(), Layout::Plain).starts_with("sync-vs-async, seed 7: simulation")
    );
}

#[test]
fn the_json_has_the_documented_keys_in_their_order_whatever_is_absent() {
    let whole = json_of(&report());
    let (text, follows) = whole.split_once("\n  \"summaries\"").unwrap();
    assert!(follows.contains("\n  \"verdicts\""));
    let keys_at = |depth: usize| {
        let indent = format!("\n{}\"", "  ".repeat(depth));
        let keys = text
            .split(&indent)
            .skip(1)
            .filter_map(|rest| rest.split_once("\": ").map(|(key, _)| key.to_owned()));
        keys.collect::<Vec<_>>()
    };
    let of_all = "format trainyard command scenario seed world settings complete of_task model \
                  target tuned runs";
    assert_eq!(keys_at(1), of_all.split_whitespace().collect::<Vec<_>>());
    let of_a_run = "name run seed repeat settings end mode parameters global_steps resumed_from \
                    samples steps_without seconds wall_seconds start_seconds steps_per_second \
                    samples_per_second step_seconds final_loss test_accuracy \
                    seconds_to_target seconds_to_target_resolution last_look_seconds staleness \
                    gradients bytes_sent step_bytes_sent waiting_seconds critical_path usage \
                    events digest weights_digest failed_checkpoints faults skipped_faults \
                    comparison";
    let of_a_run: Vec<&str> = of_a_run.split_whitespace().collect();
    assert_eq!(keys_at(3), of_a_run.repeat(report().runs.len()));
    let within = "mean p10 p50 p90 p99 mean p50 p99 max histogram computed applied dropped stopped \
                  ps:0 worker:9 worker:10 ps:0 worker:10 worker:0";
    assert_eq!(keys_at(4)[..20], within.split_whitespace().collect::<Vec<_>>());
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
        serde_json::json!({"computed": 10800, "applied": 9600, "dropped": 1200, "stopped": 0})
    );
    assert_eq!(run["bytes_sent"]["worker:10"], 1_500_000);
    assert_eq!(run["waiting_seconds"], serde_json::json!({"worker:0": {"token": 0.5}}));
    assert_eq!(value["runs"][2]["staleness"], serde_json::Value::Null);
}

#[test]
fn a_diverged_loss_is_null_in_the_json_and_spelt_out_in_the_table() {
    let diverged = Run { final_loss: Some(f64::NAN), end: End::Diverged, ..run("a", None, 1.0) };
    let report = Report { runs: vec![diverged], ..report() };
    let value: serde_json::Value = serde_json::from_str(&json_of(&report)).unwrap();
    assert_eq!(value["runs"][0]["final_loss"], serde_json::Value::Null);
    assert!(table::render(&report, Layout::Plain).contains("NaN"));
}

#[test]
fn a_run_that_diverged_is_last_and_no_other_is_compared_with_it() {
    for loss in [f64::NAN, f64::INFINITY] {
        let (end, diverged_at) = (End::Diverged, Some(10));
        let wild = run("wild", Some(0.1), 9999.0);
        let fast = Run { final_loss: Some(loss), end, diverged_at, ..wild };
        let report = Report { runs: [vec![fast], report().runs].concat(), ..report() };
        for target in [None, Some(0.95)] {
            let text = table::render(&Report { target, ..report.clone() }, Layout::Plain);
            assert_eq!(text.matches("wild").count(), 2, "its row, and that it diverged: {text}");
            assert!(text.contains("wild diverged: its loss is not finite from step 10 on"));
        }
    }
}

#[test]
fn a_report_says_whether_runs_are_missing_and_of_which_task_alone_it_is() {
    let under = |report: &Report| table::render(report, Layout::Plain);
    assert!(!under(&report()).contains("not complete") && !under(&report()).contains("alone"));
    let part = Report { complete: false, of_task: Some("worker:0".to_owned()), ..report() };
    let says = [
        "\nnot complete: 3 runs are there, and others are not over, or have failed\n",
        "\nsamples, gradients, waits and MB sent are those of worker:0 alone\n",
    ];
    let mut page = Vec::new();
    html::write(&part, &[], &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    for says in says {
        assert!(under(&part).contains(says) && page.contains(says.trim()), "{says}");
    }
    let value: serde_json::Value = serde_json::from_str(&json_of(&part)).unwrap();
    assert_eq!((&value["complete"], &value["of_task"]), (&false.into(), &"worker:0".into()));
}

#[test]
fn a_training_that_was_finished_before_has_no_rates() {
    let finished =
        Run { resumed_from: Some(3000), gradients: Gradients::default(), ..run("done", None, 0.0) };
    let rows = table::rows(&Report { runs: vec![finished], ..report() });
    let at = rows[0].iter().position(|title| title == "steps/s").unwrap();
    assert_eq!(rows[1][at..at + 2], ["-", "-"]);
}

#[test]
fn a_message_thread_that_is_not_modelled_is_not_shown_as_idle() {
    let page_of = |messages: f64| {
        let usage =
            [(TaskName::new("ps", 0), TaskUsage { messages, ..TaskUsage::default() })].into();
        let one = Run { usage, ..limited(&[(TimeCause::Compute, 1.0)], &["worker:0"]) };
        let mut page = Vec::new();
        html::write(&Report { runs: vec![one], ..report() }, &[], &mut page).unwrap();
        String::from_utf8(page).unwrap()
    };
    assert!(page_of(0.0).contains("<td>not modelled</td>"));
    assert!(page_of(0.25).contains("<td>25.0 %</td>"));
}

#[test]
fn the_csv_has_one_row_per_worker_step_with_exact_times() {
    let times = (Time(1_000_000_001), Time(1_500_000_000));
    let step = StepStats {
        computed: Some((Time(1_100_000_000), Time(1_350_000_000))),
        loss: Some(0.5),
        staleness: 2,
        ..StepStats::applied(3, (4, 31), times)
    };
    let stopped =
        StepStats { loss: None, applied: false, computed: None, is_stopped: true, ..step.clone() };
    let mut out = Vec::new();
    let mut steps = csv::Steps::new(&mut out).unwrap();
    steps.append("sync, 1 backup", [step]).unwrap();
    steps.append("async", [stopped]).unwrap();
    drop(steps);
    let expected = "\
run,worker,local_step,global_step,start_s,end_s,loss,staleness,applied,compute_s,stopped
\"sync, 1 backup\",worker:3,4,31,1.000000001,1.5,0.5,2,true,0.25,false
async,worker:3,4,31,1.000000001,1.5,,2,false,,true
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// A run of ten seconds with these causes, the parts of which are of `tasks` in equal shares.
fn limited(causes: &[(TimeCause, f64)], tasks: &[&str]) -> Run {
    let causes: BTreeMap<TimeCause, f64> = causes.iter().copied().collect();
    let part = |(task, (cause, seconds)): (&&str, (&TimeCause, &f64))| {
        PathPart::new(format!("{task}'s part"), *cause, seconds / tasks.len() as f64)
    };
    let parts = tasks.iter().flat_map(|task| causes.iter().map(move |cause| part((task, cause))));
    let path = CriticalPath::new(causes.clone(), parts.collect());
    Run { critical_path: Some(path), ..run("a", None, 1.0) }
}

#[test]
fn a_run_is_limited_by_the_cause_that_took_most_of_its_time() {
    let causes = [(TimeCause::ServerCard, 6.0), (TimeCause::Compute, 4.0)];
    let one = limited(&causes, &["ps:3"]).limit().unwrap();
    let cards = "limited by the parameter servers' network cards";
    let expected = format!("{cards}, 60 % of the time (60 % ps:3's part); at twice the speed, ");
    assert!(one.starts_with(&expected), "{one}");
    assert!(one.contains("the run would be about 30 % shorter: more parameter servers"), "{one}");
    let advised = |busy: &[f64]| {
        let card = |(index, card_in): (u32, &f64)| {
            let usage = TaskUsage { card_in: *card_in, ..TaskUsage::default() };
            (TaskName::new("ps", index), usage)
        };
        let usage = (0..).zip(busy).map(card).collect();
        Run { usage, ..limited(&causes, &[]) }.limit().unwrap()
    };
    let uneven = advised(&[0.08, 0.43]);
    assert!(uneven.contains("shorter: ps:1 has most of the bytes; cut its variables"), "{uneven}");
    for even in [&[0.4, 0.43][..], &[0.43], &[0.3, 0.5, 0.3]] {
        assert!(advised(even).contains("shorter: more parameter servers"), "{even:?}");
    }
    let causes =
        [(TimeCause::ServerCard, 5.4), (TimeCause::Stragglers, 2.6), (TimeCause::Latency, 2.0)];
    let parts = [("ps:1's network card (sending)", 3.2), ("ps:1's network card (receiving)", 2.2)]
        .map(|(name, seconds)| PathPart::new(name.to_owned(), TimeCause::ServerCard, seconds));
    let path = |parts: &[PathPart]| CriticalPath::new(causes.into(), parts.to_vec());
    let of = |path: CriticalPath| Run { critical_path: Some(path), ..run("a", None, 1.0) }.limit();
    let own = of(path(&parts)).unwrap();
    assert!(
        own.starts_with(&format!("{cards}, 54 % of the time (32 % ps:1's, sending);")),
        "{own}"
    );
    let alike = of(path(&parts.map(|part| PathPart { seconds: 2.5, ..part }))).unwrap();
    assert!(alike.starts_with(&format!("{cards}, 54 % of the time;")), "{alike}");
    let many = limited(&causes, &["ps:0", "ps:1"]).limit().unwrap();
    assert!(many.starts_with(&format!("{cards}, 54 % of the time;")), "{many}");
    let waits =
        [(TimeCause::Compute, 4.0), (TimeCause::Latency, 3.5), (TimeCause::Coordination, 2.5)];
    let waits = of(CriticalPath::new(waits.into(), Vec::new())).unwrap();
    let latency = "limited by the network's latency and that of coordination together, 60 % of";
    assert!(waits.starts_with(latency), "{waits}");
    assert_eq!(run("no step was taken", None, 1.0).limit(), None);
}

#[test]
fn a_run_that_stands_still_between_its_steps_is_told_of_what_it_has() {
    let limit = |cause, pauses| {
        let mut run = limited(&[(cause, 9.0), (TimeCause::Compute, 1.0)], &[]);
        run.critical_path.as_mut().unwrap().pauses = pauses;
        run.limit().unwrap()
    };
    let checkpoints = Some("checkpoint.every_steps");
    let all = Pauses { looks: true, checkpoints, faults: true, takes_backups: true };
    let one = limit(TimeCause::Other, all);
    let name = "limited by evaluations, checkpoints, the way back from faults and sleeps, 90 %";
    assert!(one.starts_with(name), "{one}");
    assert!(one.contains(": fewer evaluations (`stop.evaluate_every`, "), "{one}");
    assert!(
        one.ends_with("checkpoints (`checkpoint.every_steps`); or look at its faults and timers")
    );
    let none = limit(TimeCause::Other, Pauses::default());
    assert!(none.starts_with("limited by evaluations and sleeps, 90 %"), "{none}");
    assert!(none.ends_with(" shorter: look at its timers"), "{none}");
    let faults = limit(TimeCause::Faults, all);
    assert!(faults.starts_with("limited by faults, 90 %"), "{faults}");
    assert!(faults.contains(": a shorter `network.silence`"), "{faults}");
    assert!(faults.contains("backup workers") && !faults.contains("checkpoints"), "{faults}");
    assert!(!limit(TimeCause::Faults, Pauses::default()).contains("backup workers"));
}

#[test]
fn the_page_has_the_table_the_verdicts_and_the_courses_and_opens_offline() {
    let row = |seconds: u64| EvaluationRow {
        seed: 7,
        global_step: seconds,
        samples: 10 * seconds,
        at: Time(seconds * 1_000_000_000),
        loss: 0.5,
        accuracy: 0.1 * seconds as f64,
    };
    let named = Report { scenario: "<a & b>".to_owned(), ..report() };
    let courses = [html::Course::new("sync", std::iter::empty(), &[row(1), row(2), row(3)])];
    let mut page = Vec::new();
    html::write(&named, &courses, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<title>&lt;a &amp; b&gt;: trainyard</title>"), "{page}");
    assert!(page.contains("1.83 times faster than sync"), "{page}");
    for row in table::rows(&named).iter().flatten() {
        assert!(page.contains(&**row), "no `{row}`");
    }
    assert!(page.contains("<title>sync: 0.3 at 3</title>"), "{page}");
    assert!(page.contains("<pre>trainyard sim a.toml</pre>"), "{page}");
    for outside in ["http:", "https:", "<script", "src=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}
