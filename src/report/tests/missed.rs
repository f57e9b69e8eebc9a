//! Runs that missed the target: with all seeds, or at their last look.

use super::*;

#[test]
fn a_run_that_never_reached_the_target_and_ended_early_is_not_told_to_be_much_like_the_other() {
    let missed = |run: Run| Run {
        last_look_seconds: run.seconds_to_target,
        seconds_to_target: None,
        seconds_to_target_resolution: None,
        ..run
    };
    let never = |times: &[f64]| seeded("b", times).into_iter().map(missed);
    let told = |runs: Vec<Run>| {
        let report = Report { runs, ..report() };
        (report.verdicts()[0].is_sure, table::render(&report, Layout::Plain))
    };
    let early = "\nb never reached 0.95 accuracy, and ended too early for a comparison of times \
                 with a\n";
    let several = seeded("a", &[1.0, 2.0, 3.0]).into_iter().chain(never(&[2.0, 2.0, 2.0]));
    let single = [run("a", Some(2.0), 1.0), missed(run("b", Some(1.0), 1.0))];
    for runs in [several.collect(), single.to_vec()] {
        let (is_sure, text) = told(runs);
        assert_eq!(is_sure, Some(false));
        assert!(text.contains(early) && !text.contains("told apart"), "{text}");
    }
    let late = seeded("a", &[1.0, 1.1, 1.0]).into_iter().chain(never(&[4.0, 4.4, 4.0]));
    let (is_sure, text) = told(late.collect());
    assert_eq!(is_sure, Some(true));
    let surely = "\na reached 0.95 accuracy at least 4.00 times faster than b (4.00 or more ";
    assert!(text.contains(surely), "{text}");
}

#[test]
fn an_accuracy_that_is_shown_below_the_target_that_was_reached_is_explained() {
    let told = |last: f64, seeds: u64| {
        let seen = |seed| Run {
            seed,
            test_accuracy: Some(last),
            last_look_at: Some(782),
            target_reached_at: Some(775),
            ..run("a", Some(1.0), 1.0)
        };
        table::render(&Report { runs: (0..seeds).map(seen).collect(), ..report() }, Layout::Plain)
    };
    let one = told(0.949_83, 1);
    let says = "\na reached 0.95 accuracy at step 775; the last look, at step 782, has 0.9498\n";
    assert!(one.contains(says), "{one}");
    let several = told(0.949_83, 3);
    let says = "\na reached 0.95 accuracy, but the last look of 3 of 3 seeds has less\n";
    assert!(several.contains(says), "{several}");
    assert!(!told(0.95, 1).contains("the last look"));
}
