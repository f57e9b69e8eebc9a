//! Which runs are compared, by what, and how sure that is.

use super::estimate::Estimate;
use super::*;

#[test]
fn without_a_target_the_runs_are_compared_by_the_samples_of_applied_gradients_a_second() {
    let text = table::render(&untargeted(report()), Layout::Plain);
    let expected = "
sync, 1 backup trained on 2.00 times as many samples a second as sync
sync, 1 backup trained on 192.00 times as many samples a second as ssp 4
(of one seed: `--seeds 10` says how sure that is)
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn runs_that_took_as_long_are_as_fast() {
    let runs = vec![run("a", Some(1.0), 1.0), run("b", Some(1.001), 1.0)];
    let text = table::render(&Report { runs, target: Some(0.9), ..report() }, Layout::Plain);
    assert!(text.contains("\na reached 0.9 accuracy as fast as b\n"), "{text}");
}

#[test]
fn a_single_run_is_compared_with_nothing() {
    let alone =
        |seconds_to_target| Report { runs: vec![run("a", seconds_to_target, 1.0)], ..report() };
    assert_eq!(table::render(&alone(Some(1.0)), Layout::Plain).lines().count(), 4);
    assert_eq!(table::render(&untargeted(alone(None)), Layout::Plain).lines().count(), 4);
}

#[test]
fn points_of_a_sweep_are_not_compared_with_each_other() {
    let at = |name: &str, workers: u32, rate| Run {
        name: format!("{name} (cluster.worker={workers})"),
        run: name.to_owned(),
        settings: Swept::from([("cluster.worker".to_owned(), workers.into())]),
        ..run(name, None, rate)
    };
    let runs = vec![at("a", 4, 2.0), at("b", 4, 1.0), at("a", 64, 2.0), at("b", 64, 8.0)];
    let report = untargeted(Report { runs, ..report() });
    let found: Vec<_> = report.verdicts().into_iter().map(|it| (it.faster, it.slower)).collect();
    let pair = |faster: &str, slower: &str, workers: u32| {
        [faster, slower].map(|name| format!("{name} (cluster.worker={workers})")).into()
    };
    assert_eq!(found, [pair("a", "b", 4), pair("b", "a", 64)]);
}

#[test]
fn seeds_are_one_row_with_its_uncertainty_and_are_compared_seed_by_seed() {
    // The seeds differ by much, the runs with one seed always by a third.
    let runs = [seeded("a", &[1.0, 2.0, 3.0]), seeded("b", &[1.5, 3.0, 4.5])].concat();
    let text = table::render(&Report { runs, ..report() }, Layout::Plain);
    assert!(text.contains("means and 95 % intervals over 3 seeds"), "{text}");
    assert!(text.contains("2.000 ± 2.484"), "{text}");
    let expected =
        "\na reached 0.95 accuracy 1.50 times faster than b (1.50 to 1.50 with 3 seeds)\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn launches_of_one_seed_are_one_row_with_its_uncertainty() {
    let launched = |name: &str, times: &[f64]| {
        let of_one_seed = |(repeat, run): (u32, Run)| Run { seed: 7, repeat, ..run };
        (1..).zip(seeded(name, times)).map(of_one_seed).collect::<Vec<_>>()
    };
    let runs = [launched("a", &[1.0, 2.0, 3.0]), launched("b", &[1.5, 3.0, 4.5])].concat();
    let report = Report { runs, world: World::Deployment, ..report() };
    let text = table::render(&report, Layout::Plain);
    assert!(text.contains("seed 7, means and 95 % intervals over 3 launches"), "{text}");
    assert!(text.contains("2.000 ± 2.484") && text.contains("with 3 launches)"), "{text}");
    assert!(text.contains("\n(launches of one seed: how sure that is of others, "), "{text}");
    let summary = &report.summaries()[0];
    assert_eq!((summary.seeds, summary.runs), (1, 3));
    assert_eq!(report.verdicts()[0].times.values, 3, "each launch is a draw of the noise");
}

#[test]
fn times_to_the_target_are_compared_from_the_first_step_on_and_a_long_start_is_told() {
    let started = |name: &str, start_seconds, trained: f64| Run {
        start_seconds,
        ..run(name, Some(start_seconds + trained), 1.0)
    };
    let (report, text) =
        told(vec![started("a", 0.2, 1.0), started("b", 0.1, 2.0), started("c", 0.1, 3.0)]);
    let times: Vec<f64> = report.verdicts().iter().map(|verdict| verdict.times.mean).collect();
    assert!((times[0] - 2.0).abs() < 1e-9 && (times[1] - 3.0).abs() < 1e-9, "{times:?}");
    let says = "\ntimes to the target are compared from the first step on: without the start, \
                0.200 s (`a`)\n";
    assert!(text.contains(says), "{text}");
    let missed = Run { seconds_to_target: None, ..started("b", 0.5, 1.0) };
    let missed = Run { last_look_seconds: Some(4.5), ..missed };
    let (report, _) = told(vec![started("a", 0.5, 1.0), missed]);
    assert!((report.verdicts()[0].times.mean - 4.0).abs() < 1e-9);
    let (_, text) = told(vec![started("a", 0.01, 1.0), started("b", 0.01, 2.0)]);
    assert!(!text.contains("without the start"), "{text}");
}

#[test]
fn a_run_that_went_on_from_a_checkpoint_is_ranked_with_those_alone_that_did_from_the_same() {
    let ranked = |from: [Option<u64>; 3]| {
        let runs = [("a", 1.0), ("b", 2.0), ("c", 3.0)].into_iter().zip(from);
        let runs = runs.map(|((name, seconds), resumed_from)| Run {
            resumed_from,
            ..run(name, Some(seconds), 100.0)
        });
        told(runs.collect())
    };
    let pairs = |report: &Report| {
        let verdicts = report.verdicts().into_iter();
        verdicts.map(|verdict| verdict.faster + &verdict.slower).collect::<Vec<_>>()
    };
    let (report, text) = ranked([Some(1_570), None, None]);
    assert_eq!(pairs(&report), ["bc"]);
    let says = "\nsome went on from a checkpoint that others did not, so that only these are \
                compared with each other: `a` (from step 1570) | `b`, `c`\n";
    assert!(text.contains(says), "{text}");
    let (report, text) = ranked([Some(1_570), Some(1_570), Some(1_600)]);
    assert_eq!(pairs(&report), ["ab"]);
    assert!(text.contains(": `a` (from step 1570), `b` (from step 1570) | `c` (from step 1600)\n"));
    let (report, text) = ranked([Some(1_570); 3]);
    assert_eq!(pairs(&report), ["ab", "ac"]);
    assert!(!text.contains("went on from a checkpoint"), "{text}");
}

#[test]
fn a_run_that_reached_its_target_at_a_time_that_is_not_known_has_not_missed_it() {
    let misses = |resumed_from| {
        let (_, text) = told(vec![Run { resumed_from, ..run("a", None, 100.0) }]);
        text.contains("did not reach")
    };
    assert_eq!([None, Some(177)].map(misses), [true, false]);
    let mut runs = seeded("a", &[1.0, 1.0, 1.0]);
    (0..2).for_each(|run| runs[run].seconds_to_target = None);
    runs[0].resumed_from = Some(177);
    let (_, text) = told(runs);
    assert!(text.contains("\na reached 0.95 accuracy with 1 of 2 seeds"), "{text}");
}

#[test]
fn launches_that_went_on_from_different_checkpoints_are_like_no_others() {
    let mut runs = [seeded("a", &[1.0, 1.0]), seeded("b", &[2.0, 2.0])].concat();
    (runs[1].resumed_from, runs[3].resumed_from) = (Some(40), Some(40));
    let (report, text) = told(runs);
    assert_eq!(report.verdicts(), []);
    assert!(text.contains(": `a` (from steps 0, 40) | `b` (from steps 0, 40)\n"), "{text}");
}

#[test]
fn a_run_that_found_its_training_finished_is_not_ranked() {
    let done = |name: &str, seconds| Run {
        resumed_from: Some(1_200),
        gradients: Gradients::default(),
        ..run(name, Some(seconds), 0.0)
    };
    let (report, _) = told(vec![done("a", 0.2), done("b", 0.3)]);
    assert_eq!(report.verdicts(), []);
    let begun = |name: &str| run(name, Some(1.0), 100.0);
    let (report, text) = told(vec![done("a", 0.2), begun("b"), begun("c")]);
    assert_eq!(report.verdicts().len(), 1);
    assert!(!text.contains("are compared with each other"), "{text}");
}

/// Launches of `name` with two seeds, of whose times to the target each is a list.
fn launched_with_two_seeds(name: &str, times: [&[f64]; 2]) -> Vec<Run> {
    let of_seed = |(seed, times): (u64, &[f64])| {
        let launch = |(repeat, seconds): (u32, &f64)| Run {
            name: format!("{name} (seed={seed}, {repeat})"),
            run: name.to_owned(),
            seed,
            repeat,
            ..run(name, Some(*seconds), 100.0)
        };
        (1..).zip(times).map(launch).collect::<Vec<_>>()
    };
    (1..).zip(times).flat_map(of_seed).collect()
}

#[test]
fn launches_of_a_seed_are_one_value_where_there_are_several_seeds() {
    // Each launch of a is 1.5 or 2 times as fast, by its seed: of six values that would be sure.
    let runs = [
        launched_with_two_seeds("a", [&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]]),
        launched_with_two_seeds("b", [&[1.5, 1.5, 1.5], &[2.0, 2.0, 2.0]]),
    ];
    let (report, text) = told(runs.concat());
    let [verdict] = &report.verdicts()[..] else { panic!("two runs") };
    assert_eq!((verdict.times.values, verdict.is_sure), (2, Some(false)));
    let ratios = [1.5_f64.ln(), 2.0_f64.ln()];
    let expected = Estimate::of(&ratios).unwrap().map(f64::exp);
    assert!((verdict.times.mean - expected.mean).abs() < 1e-9, "{verdict:?}");
    assert!((verdict.times.low.unwrap() - expected.low.unwrap()).abs() < 1e-9, "{verdict:?}");
    let of_b = &report.summaries()[1];
    assert_eq!((of_b.seeds, of_b.runs), (2, 6));
    let seconds = of_b.seconds_to_target.unwrap();
    assert_eq!((seconds.mean, seconds.values), (1.75, 2));
    let title = "means and 95 % intervals over 2 seeds, of each the mean of its launches, ";
    assert!(text.contains(title) && text.contains(" with 2 seeds)\n"), "{text}");
    assert!(!text.contains("(2 of 6)"), "all reached it: {text}");
}

#[test]
fn launches_of_a_seed_count_as_much_as_fewer_ones_of_another() {
    let runs = launched_with_two_seeds("a", [&[1.0, 1.0, 1.0], &[3.0]]);
    let (report, _) = told(runs);
    assert_eq!(report.summaries()[0].seconds_to_target.unwrap().mean, 2.0);
}

#[test]
fn runs_whose_interval_has_both_as_fast_are_told_to_be_alike() {
    let runs = [seeded("a", &[1.0, 1.2, 1.1]), seeded("b", &[1.1, 1.1, 1.2])].concat();
    let report = Report { runs, ..report() };
    let [verdict] = &report.verdicts()[..] else { panic!("two runs") };
    assert_eq!(verdict.is_sure, Some(false));
    assert!(table::render(&report, Layout::Plain).contains("a and b can't be told apart"));
}

#[test]
fn the_fastest_of_many_runs_is_surer_of_one_other_than_of_one_of_many() {
    // a is 1.01 to 1.66 times as fast as b, which of two that are alike has a chance of 4.6 %.
    let pair = [seeded("a", &[1.0, 1.0, 1.0]), seeded("b", &[1.2, 1.25, 1.45])].concat();
    let verdict_on_b = |others: &[&str]| {
        let slow = others.iter().flat_map(|name| seeded(name, &[9.0, 9.1, 9.2]));
        let runs = pair.iter().cloned().chain(slow).collect();
        let report = Report { runs, ..report() };
        let text = table::render(&report, Layout::Plain);
        let verdict = report.verdicts().remove(0);
        assert_eq!((&*verdict.faster, &*verdict.slower), ("a", "b"));
        assert!(verdict.times.low.unwrap() > 1.0, "{verdict:?}");
        (verdict.is_sure, text.contains("of so many pairs of runs, chance parts one as far"))
    };
    assert_eq!(verdict_on_b(&[]), (Some(true), false));
    assert_eq!(verdict_on_b(&["c", "d"]), (Some(false), true));
}

/// The report of these runs, and its text.
fn told(runs: Vec<Run>) -> (Report, String) {
    let report = Report { runs, ..report() };
    let text = table::render(&report, Layout::Plain);
    (report, text)
}

#[test]
fn a_run_that_misses_the_target_with_a_seed_is_compared_by_the_least_it_would_have_taken() {
    let mut runs = [seeded("a", &[1.0, 1.1, 1.0]), seeded("b", &[4.0, 4.4, 4.0])].concat();
    runs[5].seconds_to_target = None;
    // A straggler's last step ends long after the model was looked at for the last time.
    (runs[5].last_look_seconds, runs[5].seconds) = (Some(4.5), 90.0);
    let (report, text) = told(runs);
    let [verdict] = &report.verdicts()[..] else { panic!("two runs") };
    assert_eq!((verdict.slower_missed, verdict.is_sure), (1, Some(true)));
    assert!((verdict.times.mean - (4.0_f64 * 4.0 * 4.5).cbrt()).abs() < 1e-9, "{verdict:?}");
    assert!(verdict.times.low.is_some() && verdict.times.high.is_none(), "{verdict:?}");
    let faster = "\na reached 0.95 accuracy at least 4.16 times faster than b (3.5";
    assert!(text.contains(faster) && text.contains(" or more with 3 seeds)\n"), "{text}");
    let misses = "\nb reached 0.95 accuracy with 2 of 3 seeds: its time to it is the mean of those";
    assert!(text.contains(misses), "{text}");
}

#[test]
fn a_run_that_misses_the_target_with_a_seed_is_never_the_fastest() {
    let mut runs = [seeded("a", &[1.0, 1.0]), seeded("b", &[2.0, 2.0])].concat();
    runs[0].seconds_to_target = None;
    let (report, text) = told(runs);
    assert_eq!((&*report.verdicts()[0].faster, &*report.verdicts()[0].slower), ("b", "a"));
    assert!(text.contains("b and a can't be told apart by their time to the target"), "{text}");
}

#[test]
fn runs_that_all_miss_the_target_with_a_seed_are_named_as_not_compared() {
    let mut runs = [seeded("a", &[1.0, 1.0]), seeded("b", &[2.0, 2.0])].concat();
    (runs[0].seconds_to_target, runs[3].seconds_to_target) = (None, None);
    let (report, text) = told(runs);
    assert_eq!(report.verdicts(), []);
    let says =
        "\nno run reached 0.95 accuracy with all seeds, so these are not compared: `a`, `b`\n";
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_run_that_diverged_with_a_seed_is_named_as_not_compared() {
    let mut runs = [seeded("a", &[1.0, 1.0]), seeded("b", &[2.0, 2.0])].concat();
    (runs[3].end, runs[3].final_loss) = (End::Diverged, Some(f64::NAN));
    let (report, text) = told(runs);
    assert_eq!(report.verdicts(), []);
    assert!(text.contains("\nb is not compared: it diverged with 1 of 2 seeds\n"), "{text}");
}

#[test]
fn runs_whose_whole_interval_is_shown_as_1_are_as_fast_however_sure_the_difference_is() {
    let (report, text) =
        told([seeded("a", &[1.0, 2.0, 3.0]), seeded("b", &[1.001, 2.002, 3.003])].concat());
    assert_eq!(report.verdicts()[0].is_sure, Some(true));
    let says = "\na reached 0.95 accuracy as fast as b (1.00 to 1.00 with 3 seeds)\n";
    assert!(text.contains(says), "{text}");
}

#[test]
fn runs_that_met_different_faults_are_told_to_have() {
    let runs = [seeded("a", &[1.0, 2.0]), seeded("b", &[2.0, 4.0])].concat();
    let (alike, _) = told(runs.clone());
    assert!(!alike.verdicts()[0].faults_differ);
    let mut runs = runs;
    runs[3].skipped_faults.clear();
    let (report, text) = told(runs);
    assert!(report.verdicts()[0].faults_differ);
    assert!(text.contains("with 2 seeds); not every fault happened in both\n"), "{text}");
}

#[test]
fn single_runs_whose_last_looks_overlap_cant_be_told_apart_and_the_looks_are_told() {
    let seen = |name: &str, seconds, between| Run {
        seconds_to_target_resolution: Some(between),
        ..run(name, Some(seconds), 1.0)
    };
    let (report, text) =
        told(vec![seen("a", 1.0, 0.05), seen("b", 1.2, 0.25), seen("c", 1.5, 0.45)]);
    let sure: Vec<_> = report.verdicts().iter().map(|verdict| verdict.is_sure).collect();
    assert_eq!(sure, [Some(false), None]);
    let says = [
        "\na and b can't be told apart by their time to the target: 1.20 times; the looks at the \
         test split are too far apart\n",
        "\na reached 0.95 accuracy 1.50 times faster than c\n",
        "have been reached earlier than shown, by up to 0.250 s (`b`), 0.450 s (`c`)\n",
    ];
    for says in says {
        assert!(text.contains(says), "{says} in {text}");
    }
}

#[test]
fn a_run_is_surely_faster_with_several_seeds_only_if_it_is_than_the_look_before() {
    let told_with = |between: f64| {
        let slower = seeded("b", &[1.20, 1.21, 1.19]).into_iter();
        let seen = slower.map(|run| Run { seconds_to_target_resolution: Some(between), ..run });
        let (report, text) = told(seeded("a", &[1.0, 1.0, 1.0]).into_iter().chain(seen).collect());
        (report.verdicts()[0].is_sure, text)
    };
    let faster = "\na reached 0.95 accuracy 1.20 times faster than b (1.18 to 1.23 with 3 seeds)\n";
    let (is_sure, text) = told_with(0.1);
    assert_eq!(is_sure, Some(true));
    assert!(text.contains(faster), "{text}");
    let apart = "\na and b can't be told apart by their time to the target: 1.20 times (1.18 to \
                 1.23 with 3 seeds); the looks at the test split are too far apart\n";
    for between in [0.2, 5.0] {
        let (is_sure, text) = told_with(between);
        assert_eq!(is_sure, Some(false));
        assert!(text.contains(apart), "{text}");
    }
}

#[test]
fn looks_that_are_far_apart_are_told_with_the_key_of_who_looks() {
    let seen = |evaluator: bool| {
        let mut run = Run {
            seconds_to_target_resolution: Some(0.5),
            ..run(if evaluator { "b" } else { "a" }, Some(1.0), 1.0)
        };
        run.bytes_sent.extend(evaluator.then(|| (TaskName::new("evaluator", 0), 1)));
        run
    };
    let (chief, checkpoints) =
        ("`stop.evaluate_every`, `stop.evaluate_every_samples`", "`checkpoint.every_steps`");
    for (runs, keys) in [
        (vec![seen(false)], chief.to_owned()),
        (vec![seen(true)], checkpoints.to_owned()),
        (vec![seen(false), seen(true)], format!("{chief}, {checkpoints}")),
    ] {
        let (_, text) = told(runs);
        assert!(text.contains(&format!("were far apart ({keys}); ")), "{text}");
    }
}

#[test]
fn the_table_of_means_has_the_duration_and_the_bytes_and_so_has_the_summary() {
    let mut runs = seeded("a", &[1.0, 2.0]);
    (runs[0].seconds, runs[1].seconds) = (2.0, 4.0);
    let (report, _) = told(runs);
    let rows = table::rows(&report);
    let cell = |title: &str| &*rows[1][rows[0].iter().position(|cell| cell == title).unwrap()];
    assert!(cell("seconds").starts_with("3.000 ± "), "{rows:?}");
    assert_eq!(cell("MB sent"), "21.0 ± 0.0");
    let summary = &report.summaries()[0];
    assert_eq!(summary.step_bytes_sent.map(|bytes| bytes.mean), Some(21e6));
    assert_eq!(summary.seconds.map(|seconds| seconds.mean), Some(3.0));
}

#[test]
fn the_number_of_seeds_is_a_column_where_runs_have_different_ones() {
    let (report, text) = told([seeded("a", &[1.0, 2.0]), seeded("b", &[1.0, 2.0, 3.0])].concat());
    assert!(text.contains("means and 95 % intervals over seeds, "), "{text}");
    let rows = table::rows(&report);
    let seeds: Vec<&str> = rows.iter().map(|row| &*row[1]).collect();
    assert_eq!(seeds, ["seeds", "2", "3"]);
}

#[test]
fn a_run_that_was_stopped_says_so_and_is_neither_complete_nor_compared() {
    let stopped = Run { end: End::Unfinished, ..run("cut", Some(0.1), 9999.0) };
    let mut alone = Report { runs: Vec::new(), ..report() };
    alone.add(stopped.clone(), 1);
    assert!(!alone.complete);
    let text = table::render(&alone, Layout::Plain);
    assert!(text.contains("\ncut is not finished: it stopped at step 1200\n"), "{text}");
    assert!(!text.contains("not complete"), "{text}");
    let saved = Run { last_saved: Some(1193), ..stopped.clone() };
    let text = table::render(&Report { runs: vec![saved], ..report() }, Layout::Plain);
    assert!(text.contains(" stopped at step 1200; its last checkpoint has step 1193\n"), "{text}");
    let others = Report { runs: [vec![stopped], report().runs].concat(), ..report() };
    for verdict in others.verdicts() {
        assert!(verdict.faster != "cut" && verdict.slower != "cut", "{verdict:?}");
    }
}
