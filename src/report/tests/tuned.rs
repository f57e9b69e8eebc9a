//! Of several learning rates a run keeps one.

use super::*;

#[test]
fn of_several_learning_rates_a_run_keeps_the_one_that_reaches_the_target_first() {
    let tried = |name: &str, rate: f64, seconds: Option<f64>| Run {
        name: format!("{name} at {rate}"),
        settings: [(Report::LEARNING_RATE.to_owned(), rate.into())].into(),
        ..run(name, seconds, 1.0)
    };
    let all = [(0.1, Some(3.0)), (0.2, Some(2.0)), (0.4, None)];
    let both =
        |(rate, seconds)| [tried("async", rate, Some(9.0 - rate)), tried("sync", rate, seconds)];
    let mut report = Report { runs: all.map(both).concat(), ..report() };
    report.keep_best_rates();
    let named = |run: &Run| Run { name: String::new(), ..run.clone() };
    let kept = [run("async", Some(8.6), 1.0), run("sync", Some(2.0), 1.0)];
    let kept = kept.map(|run| Run { name: String::new(), ..run });
    assert!(report.runs.iter().map(named).eq(kept), "{:?}", report.runs);
    let text = table::render(&report, Layout::Plain);
    assert!(text.contains("sync: 0.2 is the best of the learning rates 0.1, 0.2, 0.4\n"), "{text}");
    assert!(
        text.contains("async: 0.4 is the best of the learning rates 0.1, 0.2, 0.4; a gr"),
        "{text}"
    );
    assert!(text.contains("\nthe rates were chosen by these same seeds, so"), "{text}");
}

#[test]
fn a_learning_rate_that_reaches_the_target_with_more_seeds_is_better_whatever_its_loss() {
    let tried = |rate: f64, times: [Option<f64>; 3], loss: f64| {
        (1..).zip(times).map(move |(seed, seconds_to_target)| Run {
            name: format!("DiLoCo at {rate} (seed={seed})"),
            seed,
            settings: [(Report::LEARNING_RATE.to_owned(), rate.into())].into(),
            seconds_to_target,
            final_loss: Some(loss),
            ..run("DiLoCo", None, 1.0)
        })
    };
    let best = |tried: [Vec<Run>; 3]| {
        let mut report = Report { runs: tried.concat(), ..report() };
        report.keep_best_rates();
        report.tuned.remove(0)
    };
    let never = || tried(0.05, [None; 3], 0.1).collect();
    let once = || tried(0.1, [Some(0.5), None, None], 0.2).collect();
    let slow = tried(0.2, [Some(2.4), None, Some(2.4)], 0.3).collect();
    let found = best([never(), once(), slow]);
    let expected = "DiLoCo: 0.2 is the best of the learning rates 0.05, 0.1, 0.2 (0, 1, 2 of 3 \
                    runs reached the target); a greater one may be better";
    assert_eq!((found.learning_rate, found.render()), (0.2, expected.to_owned()));
    // With as many seeds the faster one is better: 0.5 s and twice 2.5 s, or 2.4 and twice 2.5.
    let late = tried(0.2, [Some(2.4), None, None], 0.0).collect();
    assert_eq!(best([never(), once(), late]).learning_rate, 0.1);
    let all_missed = [0.3, 0.1, 0.2].map(|loss| tried(loss, [None; 3], loss).collect());
    assert_eq!(best(all_missed).learning_rate, 0.1, "the least loss");
}

#[test]
fn the_best_learning_rate_is_told_of_each_swept_point() {
    let tried = |workers: u32, rate: f64, seconds: f64| Run {
        settings: [
            ("cluster.worker".to_owned(), workers.into()),
            (Report::LEARNING_RATE.to_owned(), rate.into()),
        ]
        .into(),
        ..run("sync", Some(seconds), 1.0)
    };
    let runs = [(4, 0.1, 1.0), (4, 0.2, 2.0), (8, 0.1, 2.0), (8, 0.2, 1.0)];
    let runs = runs.map(|(workers, rate, seconds)| tried(workers, rate, seconds)).into();
    let mut report = Report { runs, ..report() };
    report.keep_best_rates();
    let text = table::render(&report, Layout::Plain);
    for best in ["sync (cluster.worker=4): 0.1 is the best", "sync (cluster.worker=8): 0.2 is the"]
    {
        assert!(text.contains(best), "{text}");
    }
}

#[test]
fn of_learning_rates_that_all_diverged_none_is_told_to_be_the_best() {
    let diverged = |rate: f64| Run {
        name: format!("async at {rate}"),
        settings: [(Report::LEARNING_RATE.to_owned(), rate.into())].into(),
        final_loss: Some(f64::INFINITY),
        ..run("async", None, 1.0)
    };
    let mut report = Report { runs: [0.2, 0.4].map(diverged).into(), ..report() };
    report.keep_best_rates();
    let text = table::render(&report, Layout::Plain);
    let expected = "async: with none of the learning rates 0.2, 0.4 it came to a finite loss; the \
                    figures are those of 0.2\n";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("best"), "{text}");
}

#[test]
fn of_a_schedule_the_rates_that_it_begins_with_are_told_to_be_that() {
    let schedule = serde_json::json!({ "schedule": "cosine", "decay_steps": 100 });
    let tried = |rate: f64, seconds: f64| Run {
        settings: [
            (Report::LEARNING_RATE.to_owned(), schedule.clone()),
            (Tuned::INITIAL_RATE.to_owned(), rate.into()),
        ]
        .into(),
        ..run("sync", Some(seconds), 1.0)
    };
    let mut report = Report { runs: vec![tried(0.1, 2.0), tried(0.2, 1.0)], ..report() };
    report.keep_best_rates();
    assert_eq!(report.runs.len(), 1);
    assert_eq!(report.runs[0].settings, [(Report::LEARNING_RATE.to_owned(), schedule)].into());
    let tuned = report.tuned.remove(0);
    assert_eq!((tuned.key.as_str(), tuned.learning_rate), (Tuned::INITIAL_RATE, 0.2));
    let text = tuned.render();
    assert!(text.contains(": 0.2 is the best of the initial learning rates 0.1, 0.2; a"), "{text}");
}
