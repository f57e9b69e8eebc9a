//! What chaos draws and writes repeats; bugs that are put in on purpose are found.

use super::*;
use crate::experiment::scenario;
use crate::experiment::scenario::written_faults;
use crate::planted::{self, Bug};
use crate::training::train;

/// A short training of three workers that counts its updates.
const SHORT: &str = r#"
    seed = 5
    [cluster]
    ps = 2
    worker = 3
    [program]
    model = "count"
    [checkpoint]
    every_steps = 2
    [stop]
    steps = 5
    [[run]]
    mode = "sync"
"#;

#[test]
fn a_drawn_timeline_is_written_as_the_scenarios_key_and_repeats_by_its_seed() {
    let trials = Experiment::parse(SHORT).unwrap().trials().unwrap();
    let judge = Judge::new(&trials[0], &train).unwrap();
    for seed in 0..50 {
        let drawn = draw::faults(&judge, seed);
        assert_eq!(drawn, draw::faults(&judge, seed));
        let text = format!("fault = {}\n{SHORT}", written_faults(&drawn));
        assert_eq!(scenario::parse(&text, "s").unwrap().faults.list, drawn, "{text}");
    }
}

#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    let report = || {
        let report = Experiment::parse(SHORT).unwrap().chaos(train, 40, |_, _| {}).unwrap();
        serde_json::to_value(report).unwrap()
    };
    assert_eq!(report(), report());
}

/// Asserts that of `seeds` timelines of a run of `mode`, some break one of `promises` with `bug`
/// that are clean without it, and that one is shrunk to two faults at most.
#[track_caller]
fn assert_is_found(bug: Bug, mode: &str, seeds: u64, promises: &[Promise]) {
    let experiment = Experiment::parse(SHORT).unwrap().set(&format!("run.0.mode={mode}")).unwrap();
    let try_all = || experiment.chaos(train, seeds, |_, _| {}).unwrap().runs.remove(0).broken;
    let before: Vec<Option<u64>> = try_all().iter().map(|broken| broken.seed).collect();
    planted::plant(Some(bug));
    let found = try_all();
    planted::plant(None);
    let shows = |one: &&Broken| {
        let breaks = one.breaches.iter().any(|breach| promises.contains(&breach.promise));
        breaks && !before.contains(&one.seed)
    };
    let faults = |one: &Broken| one.faults.matches("at =").count();
    let fewest = found.iter().filter(shows).map(faults).min();
    assert!(fewest.is_some_and(|fewest| fewest <= 2), "{bug:?}: {fewest:?} of {found:?}");
}

#[test]
fn a_gradient_that_is_applied_twice_after_a_retry_is_found_and_shrunk_to_two_faults() {
    assert_is_found(Bug::AppliesTwice, "async", 150, &[Promise::Checkpoints]);
}

/// A parameter server dies and is back, so that the training is restored, while what a worker has
/// sent to the other one is still on its way; a slow task and a slow link have no part in it.
fn restore_while_a_gradient_is_under_way(millis: u64) -> String {
    let (later, long) = (millis + 15, "for = \"900ms\"");
    format!(
        r#"[{{ at = "{millis}ms", partition = ["ps:0", "worker:2"], {long} }},
            {{ at = "{millis}ms", slow_task = "worker:1", factor = 2.0, {long} }},
            {{ at = "{later}ms", crash = "ps:1", restart_after = "5ms" }},
            {{ at = "{later}ms", slow_link = ["ps:1", "worker:1"], factor = 2.0, {long} }}]"#
    )
}

#[test]
fn a_restore_that_lets_an_old_step_go_on_is_found_and_shrunk_to_two_faults() {
    let scenario = Experiment::parse(include_str!("../../../sims/chaos.toml")).unwrap();
    let scenario = scenario.only("async");
    let broken = |millis| {
        let faults = restore_while_a_gradient_is_under_way(millis);
        let experiment = scenario.clone().set(&format!("fault={faults}")).unwrap();
        experiment.chaos(train, 0, |_, _| {}).unwrap().runs.remove(0).broken
    };
    let mut fewest = None;
    for millis in (60..160).step_by(20) {
        assert_eq!(broken(millis), [], "without the bug");
        planted::plant(Some(Bug::KeepsOldSteps));
        let found = broken(millis);
        planted::plant(None);
        let is_counted = |one: &&Broken| {
            one.breaches.iter().any(|breach| breach.promise == Promise::Checkpoints)
        };
        let faults = found.iter().filter(is_counted).map(|one| one.faults.matches("at =").count());
        fewest = faults.chain(fewest).min();
    }
    assert_eq!(fewest, Some(2));
}

#[test]
fn a_vote_that_is_lost_is_found_and_shrunk_to_two_faults() {
    let mode = "{ sync = { backups = 1 } }";
    assert_is_found(Bug::LosesVotes, mode, 120, &[Promise::Ends, Promise::Explains]);
}

/// Timelines that once broke a promise, each with its run of `sims/chaos.toml`.
const MENDED: &[(&str, &str)] = &[
    // What a task sent over a connection that its peer had given up was lost without a word.
    (
        "async",
        r#"[{ at = "10542us", freeze = "ps:0", for = "2291759us" },
            { at = "33694us", partition = ["ps:0", "worker:0"], for = "2989090us" }]"#,
    ),
    // A worker that was back when a change of the view ended was not let in.
    (
        "sync",
        r#"[{ at = "226137us", partition = ["ps:0", "ps:1"], for = "196610us" },
            { at = "280896us", crash = "worker:2", restart_after = "120490us" }]"#,
    ),
    // The second attempt at a step that was given up began with the first.
    ("2-async", r#"[{ at = "93914us", one_way = ["ps:0", "ps:1"], for = "2394260us" }]"#),
    ("2-batch-sync", r#"[{ at = "114756us", one_way = ["ps:0", "ps:1"], for = "4471125us" }]"#),
    (
        "2-batch-async",
        r#"[{ at = "9611us", partition = ["ps:0", "worker:0"], for = "149517us" },
            { at = "84760us", one_way = ["ps:0", "ps:1"], for = "2372636us" }]"#,
    ),
    // The vote of a step that was taken again counted as another step's.
    (
        "2-batch-sync",
        r#"[{ at = "251053us", freeze = "ps:1", for = "2165462us" },
            { at = "328040us", freeze = "worker:1", for = "3523754us" }]"#,
    ),
    (
        "sync, 1 backup",
        r#"[{ at = "221799us", freeze = "ps:1", for = "2137474us" },
            { at = "289815us", freeze = "worker:1", for = "3504637us" }]"#,
    ),
    // A parameter server waited for a value that another had sent, and lost the way to it.
    (
        "sync, weights",
        r#"[{ at = "281us", partition = ["ps:0", "worker:0"], for = "34304us" },
            { at = "2473us", one_way = ["ps:0", "ps:1"], for = "1735564us" }]"#,
    ),
    // A worker that had lost a parameter server in the midst of a step counted as at rest.
    ("async", r#"[{ at = "100177us", partition = ["ps:1", "worker:1"], for = "1488619us" }]"#),
    ("async", r#"[{ at = "7442us", partition = ["ps:0", "worker:1"], for = "1114131us" }]"#),
    ("2-batch-async", r#"[{ at = "4886us", partition = ["ps:1", "worker:1"], for = "1297ms" }]"#),
    // A chief that came back to variables with values looked for a checkpoint, and none was whole.
    (
        "sync",
        r#"[{ at = "20ms", torn_checkpoint = "changed" },
            { at = "25ms", crash = "worker:0", restart_after = "50ms" }]"#,
    ),
    // A chief that came back while the disk was full ended the training.
    (
        "sync",
        r#"[{ at = "150ms", full_disk = true, for = "300ms" },
            { at = "160ms", crash = "worker:0", restart_after = "50ms" }]"#,
    ),
    // The error named the task that had been lost first, and not the one that the values were on.
    (
        "async",
        r#"[{ at = "28925us", freeze = "ps:1", for = "457705us" },
            { at = "103979us", freeze = "worker:0", for = "1571065us" },
            { at = "114032us", crash = "ps:1", restart_after = "25985us" }]"#,
    ),
    // A training that no checkpoint could mend asked for a restart, and blamed who was there.
    (
        "sync",
        r#"[{ at = "69854us", torn_checkpoint = "changed" },
            { at = "71734us", freeze = "ps:1", for = "583530us" },
            { at = "257869us", freeze = "worker:0", for = "1767118us" },
            { at = "282803us", crash = "ps:1", restart_after = "44335us" }]"#,
    ),
];

/// The same, with other seeds.
const MENDED_OF_SEEDS: &[(u64, &str, &str)] = &[
    // A worker whose step had ended at the task of the global step, and not elsewhere, was kept
    // from taking it again by a fence, behind which a checkpoint waited for its gradient.
    (
        5000,
        "2-batch-async",
        r#"[{ at = "148724us", freeze = "ps:1", for = "2049623us" },
            { at = "194331us", freeze = "worker:1", for = "3443670us" }]"#,
    ),
];

#[test]
fn timelines_that_once_broke_a_promise_keep_all_of_them() {
    let with_seed_5 = MENDED.iter().map(|(run, faults)| (5, *run, *faults));
    for (seed, run, faults) in with_seed_5.chain(MENDED_OF_SEEDS.iter().copied()) {
        let scenario = Experiment::parse(include_str!("../../../sims/chaos.toml")).unwrap();
        let experiment = scenario.seed(seed).only(run).set(&format!("fault={faults}")).unwrap();
        let report = experiment.chaos(train, 0, |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.runs);
    }
}
