//! What chaos draws and writes repeats; bugs that are put in on purpose are found.

mod dates;
mod evaluators;
mod mended;
mod own_values;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::arena::Attempt;
use super::*;
use crate::cluster::TaskName;
use crate::planted::{self, Bug};
use crate::runtime::Code;
use crate::scenario;
use crate::scenario::written_faults;
use crate::simulation::{FaultKind, Trigger};
use crate::training::{Ending, Recording, train};
use crate::units::Time;

/// The number of drawn timelines that have one that is restored with messages under way.
const RESTORES: u64 = 200;

/// The simulated world, with the built-in trainer.
fn in_simulation() -> InSimulation<impl Trainer> {
    InSimulation::new(train, Arc::default())
}

/// A short training of three workers that counts its updates.
const SHORT: &str = r#"
    seed = 5
    [cluster]
    ps = 2
    worker = 3
    [network]
    silence = "1s"
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
    let arena = in_simulation();
    let judge = Judge::new(&trials[0], &arena).unwrap().expect("nobody asks to stop");
    for seed in 0..50 {
        let drawn = draw::faults(&judge, seed);
        assert_eq!(drawn, draw::faults(&judge, seed));
        let text = format!("fault = {}\n{SHORT}", written_faults(&drawn));
        assert_eq!(scenario::parse(&text, "s").unwrap().faults.once.list, drawn, "{text}");
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

/// A training whose steps take longer than the usual limit of an operation.
const SLOW: &str = r#"
    [cluster]
    ps = 1
    worker = 2
    [compute]
    step_time = { law = "constant", value = "1h" }
    [stop]
    steps = 4
    [[run]]
    mode = "async"
"#;

#[test]
fn what_takes_long_undisturbed_may_do_so_under_faults() {
    // Of the second one, the evaluation at the end takes longest. The servers are not slow: those
    // that come back would be given up after `network.recovery`.
    let slow_memory = SLOW.replace(
        "step_time = { law = \"constant\", value = \"1h\" }",
        "tasks.worker.memory = \"50B/s\"\n[program]\nbatch = 1",
    );
    for text in [SLOW, &slow_memory] {
        let report = Experiment::parse(text).unwrap().chaos(train, 30, |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.runs);
        let failed = &report.runs[0].failed;
        assert_eq!(failed.get("DeadlineExceeded"), None, "{failed:?}");
    }
}

#[test]
fn a_step_that_reaches_its_limit_says_how_long_that_is_and_what_raises_it() {
    let fault =
        "fault = [{ at = \"1h\", slow_task = \"worker:1\", factor = 1.5, for = \"1ms\" }]\n";
    let ended = |recovery: &str| {
        let text = format!("{fault}[network]\nrecovery = \"{recovery}\"\n{SLOW}");
        Experiment::parse(&text).unwrap().trials().unwrap()[0].simulate(&train).outcome.result
    };
    let error = ended("1min").unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    for said in ["longer than the 300s that it was given", "raise `network.recovery`"] {
        assert!(error.message.contains(said), "{error}");
    }
    assert!(ended("30min").is_ok());
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

#[test]
fn the_progress_counts_the_scenarios_own_faults_as_a_timeline() {
    let own = "fault = [{ at = \"1ms\", freeze = \"ps:0\", for = \"1ms\" }]\n";
    for (own, seeds, expected) in [("", 2, 2), (own, 2, 3), (own, 0, 1)] {
        let told = Mutex::new(Vec::new());
        let progress = |run: &ChaosRun, total| told.lock().unwrap().push((run.tried, total));
        let experiment = Experiment::parse(format!("{own}{SHORT}")).unwrap();
        experiment.chaos(train, seeds, progress).unwrap();
        let expected: Vec<(u64, u64)> = (1..=expected).map(|done| (done, expected)).collect();
        assert_eq!(told.into_inner().unwrap(), expected);
    }
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
fn a_fuzzy_checkpoint_need_not_hold_whole_steps() {
    let fault =
        "fault = [{ at = \"1us\", slow_task = \"worker:0\", factor = 1.001, for = \"1us\" }]";
    let text = format!(
        "{fault}\nseed = 1\n[cluster]\nworker = 4\nps = 3\n[network.tasks]\n\
         \"ps:1\" = {{ latency = \"2ms\" }}\n[checkpoint]\nevery_steps = 1\nfuzzy = true\n\
         [compute]\nstep_time = {{ law = \"exponential\", mean = \"2ms\" }}\n\
         [program]\nmodel = \"count\"\n[stop]\nsteps = 4\n[[run]]\nmode = \"async\"\n"
    );
    let report = Experiment::parse(text).unwrap().chaos(train, 0, |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.runs);
}

#[test]
fn a_vote_that_is_lost_is_found_and_shrunk_to_two_faults() {
    let mode = "{ sync = { backups = 1 } }";
    assert_is_found(Bug::LosesVotes, mode, 120, &[Promise::Ends, Promise::Explains]);
}

#[test]
fn a_step_that_counts_again_as_it_is_taken_again_is_found_and_shrunk_to_two_faults() {
    for mode in ["{ sync = { backups = 1 } }", "{ k_async = { k = 2 } }"] {
        assert_is_found(Bug::CountsAgain, mode, 150, &[Promise::Counts]);
    }
}

/// An arena in which a timeline that slows a task ends with other weights, every second time; if
/// tasks are to be silent, they are under faults, and perhaps undisturbed.
///
/// The user may ask to stop after so many trainings under faults.
#[derive(Default)]
struct Flaky {
    trains: AtomicU64,
    stops_after: Option<u64>,
    is_silent: bool,
    is_always_silent: bool,
}

impl Arena for Flaky {
    fn train(&self, _: &Trial, faults: &[Fault], _: Option<Time>) -> Option<Attempt> {
        let is_slow = |fault: &Fault| matches!(fault.kind, FaultKind::SlowTask { .. });
        let count = self.trains.fetch_add(u64::from(!faults.is_empty()), Ordering::Relaxed);
        if !faults.is_empty() && self.stops_after.is_some_and(|last| count >= last) {
            return None;
        }
        let is_broken = faults.iter().any(is_slow) && count.is_multiple_of(2);
        let last_words = BTreeMap::from([(TaskName::new("ps", 0), "so it goes".to_owned())]);
        let ended = Time::ZERO.after(Duration::from_secs(1));
        let weights_digest = Some(u64::from(is_broken));
        let mut recording = Recording::default();
        recording.ending = Some(Ending { weights_digest });
        let is_silent = self.is_always_silent || self.is_silent && !faults.is_empty();
        let silent = (TaskName::new("worker", 1), Duration::from_secs(30));
        let silent = is_silent.then_some(silent).into_iter().collect();
        Some(Attempt { ended, recording, last_words, silent, ..Attempt::default() })
    }

    fn has(&self, _: &Trial, kind: &FaultKind) -> bool {
        !matches!(kind, FaultKind::Crash { .. } | FaultKind::Freeze { .. })
    }

    fn jobs(&self) -> usize {
        1
    }

    fn repetitions(&self) -> u32 {
        3
    }

    fn first_seed(&self, trial: &Trial) -> u64 {
        trial.cluster.seed
    }

    fn undoes_steps(&self) -> bool {
        false
    }
}

#[test]
fn where_a_failure_does_not_always_repeat_it_is_tried_again_and_shrunk_all_the_same() {
    let trials = Experiment::parse(SHORT).unwrap().trials().unwrap();
    let flaky = Flaky::default();
    let runs = try_runs(&trials, &flaky, 30, |_, _| {}).unwrap().runs;
    let (run, broken) = (&runs[0], &runs[0].broken);
    assert!(run.tried == 30 && !broken.is_empty() && broken.len() < 30, "{run:?}");
    assert!(broken.iter().any(|one| one.drawn > 1), "{broken:?}");
    for one in broken {
        assert_eq!(one.breaches[0].promise, Promise::Weights, "{one:?}");
        assert!(one.faults.matches("at =").count() == 1 && one.faults.contains("slow_task"));
        assert!(one.repeats.is_some_and(|repeats| repeats.tries == 3 && repeats.again > 0));
        assert_eq!(one.last_words["ps:0"], "so it goes");
        assert!(one.seed.is_some_and(|seed| (5..35).contains(&seed)), "{one:?}");
    }
}

#[test]
fn a_timeline_that_is_cut_short_counts_the_tries_that_were_made() {
    let trials = Experiment::parse(SHORT).unwrap().trials().unwrap();
    let task = TaskName::new("ps", 0);
    let slow = |millis| Fault {
        at: Trigger::Time(Time::ZERO.after(Duration::from_millis(millis))),
        kind: FaultKind::SlowTask { task: task.clone(), factor: 2.0, lasts: Duration::ZERO },
    };
    let faults = [slow(1), slow(2)];
    // It breaks at first, and then in one of three tries; the first fault can be spared.
    for (stops_after, again, is_cut_short, left) in [
        (1, None, true, 2),
        (2, Some((0, 1)), true, 2),
        (3, Some((1, 2)), true, 2),
        (4, Some((1, 3)), true, 2),
        (5, Some((1, 3)), false, 1),
    ] {
        let arena = Flaky { stops_after: Some(stops_after), ..Flaky::default() };
        let judge = Judge::new(&trials[0], &arena).unwrap().expect("nobody asks to stop yet");
        let tried = try_one(&judge, None, &faults).expect("the first one was tried");
        let Tried::Broken(broken) = tried else { panic!("it breaks a promise") };
        let repeats = again.map(|(again, tries)| Repeats { again, tries });
        assert_eq!((broken.repeats, broken.is_cut_short), (repeats, is_cut_short), "{broken:?}");
        assert_eq!(broken.faults.matches("at =").count(), left, "{broken:?}");
    }
    let arena = Flaky { stops_after: Some(1), ..Flaky::default() };
    let judge = Judge::new(&trials[0], &arena).unwrap().expect("nobody asks to stop yet");
    let alone = try_one(&judge, None, &faults[..1]);
    let is_whole = |tried| matches!(tried, Tried::Broken(broken) if !broken.is_cut_short);
    assert!(alone.is_some_and(is_whole), "one fault can't be spared");
    let arena = Flaky { stops_after: Some(0), ..Flaky::default() };
    let judge = Judge::new(&trials[0], &arena).unwrap().expect("nobody asks to stop yet");
    assert!(try_one(&judge, None, &faults).is_none());
}

#[test]
fn drawn_timelines_find_a_restore_that_lets_an_old_step_go_on() {
    let scenario = Experiment::parse(include_str!("../../../sims/chaos.toml")).unwrap();
    let only = scenario.only("async");
    let try_all = || only.clone().chaos(train, RESTORES, |_, _| {}).unwrap().runs.remove(0).broken;
    assert_eq!(try_all(), [], "without the bug");
    planted::plant(Some(Bug::KeepsOldSteps));
    let found = try_all();
    planted::plant(None);
    let faults = found.iter().map(|one| one.faults.matches("at =").count());
    assert!(faults.min().is_some_and(|fewest| fewest <= 2), "{found:?}");
}

#[test]
fn a_process_that_waits_in_silence_breaks_a_promise_unless_steps_are_as_long() {
    let trials = Experiment::parse(SHORT).unwrap().trials().unwrap();
    let broken = |arena: &Flaky| {
        let faults = FaultKind::Freeze { task: TaskName::new("ps", 0), lasts: Duration::ZERO };
        let faults = [Fault { at: Trigger::Time(Time::ZERO), kind: faults }];
        let judge = Judge::new(&trials[0], arena).unwrap().expect("nobody asks to stop");
        judge.judgement(&faults).expect("nobody asks to stop").breaches
    };
    assert_eq!(broken(&Flaky::default()), []);
    let found = broken(&Flaky { is_silent: true, ..Flaky::default() });
    assert_eq!((found.len(), found[0].promise), (1, Promise::Tells));
    assert!(found[0].to_string().contains("worker:1 logged nothing for 30s"), "{found:?}");
    assert_eq!(broken(&Flaky { is_always_silent: true, ..Flaky::default() }), []);
}
