//! Which runs are compared, by what, and how sure that is.

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
    assert!(text.contains("means and 95 % intervals over seeds"), "{text}");
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
    assert!(text.contains("seed 7, means and 95 % intervals over launches"), "{text}");
    assert!(text.contains("2.000 ± 2.484") && text.contains("with 3 launches)"), "{text}");
    let summary = &report.summaries()[0];
    assert_eq!((summary.seeds, summary.runs), (1, 3));
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

#[test]
fn a_run_that_misses_the_target_with_one_seed_is_not_ranked() {
    let mut runs = [seeded("a", &[1.0, 1.0]), seeded("b", &[2.0, 2.0])].concat();
    runs[0].seconds_to_target = None;
    let report = Report { runs, ..report() };
    assert_eq!(report.verdicts(), []);
    assert!(
        table::render(&report, Layout::Plain).contains("a reached 0.95 accuracy with 1 of 2 seeds")
    );
}
