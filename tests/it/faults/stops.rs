//! Tasks that are asked to stop, and start again: they end in good order, and no update is lost or
//! counted twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Listed, Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::models::Model;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::train;
use trainyard::units::Time;

use crate::support::simulated::{Simulated, Trained};

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
const MODES: [Mode; 5] = [
    Mode::Async,
    SYNC,
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
    Mode::KAsync { k: 2 },
];
const STEPS: u64 = 60;
const PAUSE: Duration = Duration::from_millis(200);

/// A training that counts its updates, with a checkpoint at its beginning and one at its end.
fn training(mode: Mode, store: &Memory) -> Simulated {
    Simulated::new(2, 3, mode)
        .model(Model::Count)
        .optimizer(GradientDescent::new(1.0))
        .step_time(Law::Uniform { low: 0.1, high: 0.3 })
        .steps(STEPS)
        .checkpoints(store, 1000)
        .keep_all_checkpoints()
}

fn task(job: &str, index: u32) -> TaskName {
    TaskName::new(job, index)
}

fn stop(task: TaskName, restart_after: Option<Duration>) -> FaultKind {
    FaultKind::Stop { task, restart_after }
}

/// The training of `mode` in which `stopped` is asked to stop after half of the time, and how long
/// it takes without that.
fn stopped_midway(
    mode: Mode,
    store: &Memory,
    stopped: TaskName,
    restart_after: Option<Duration>,
) -> (Trained, Duration) {
    let undisturbed = training(mode, &Memory::default()).run().outcome.ended.since(Time::ZERO);
    let midway = Trigger::Time(Time::ZERO.after(undisturbed / 2));
    let trained = training(mode, store).fault(midway, stop(stopped, restart_after));
    (trained.run_program(train), undisturbed)
}

/// By worker: the number of its lives that have taken a step. One that is dropped may be taken
/// again.
fn lives(trained: &Trained) -> BTreeMap<u32, usize> {
    let (mut lives, mut last) = (BTreeMap::new(), BTreeMap::new());
    for step in &trained.steps {
        let worker = step.worker.index();
        let before = last.insert(worker, step);
        let is_again = before.is_some_and(|before| before.local_step == 0 && !before.applied);
        if step.local_step == 0 && !is_again {
            *lives.entry(worker).or_default() += 1;
        }
    }
    lives
}

/// Asserts that the training has come to its end, that each of its checkpoints holds whole steps,
/// and that all updates of the last one are told, with no more gradients than they have. Returns
/// the steps of the checkpoints.
#[track_caller]
fn check(mode: Mode, trained: &Trained, store: &Memory) -> Vec<u64> {
    assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    let saver = Saver::new(Arc::new(store.clone()), Retention::default());
    let saved = saver.checkpoints().unwrap();
    let whole = |checkpoint: &Listed| {
        let step = checkpoint.global_step;
        let variables = saver.restore(step).unwrap().into_whole();
        let counts: Vec<u64> = variables
            .iter()
            .filter(|(name, _)| name.starts_with("count"))
            .map(|(_, value)| value.item::<f32>().unwrap() as u64)
            .collect();
        let is_whole = !counts.is_empty() && counts.iter().all(|count| *count == step);
        assert!(is_whole, "{mode}: {counts:?} updates at step {step}");
        step
    };
    let saved: Vec<u64> = saved.iter().map(whole).collect();
    let last = *saved.last().expect("the last checkpoint");
    assert!(last >= STEPS, "{mode}: {saved:?}");
    let mut told: BTreeMap<u64, usize> = BTreeMap::new();
    for step in trained.steps.iter().filter(|step| step.applied && step.global_step <= last) {
        *told.entry(step.global_step).or_default() += 1;
    }
    let most = match mode {
        Mode::Async | Mode::BoundedStaleness { .. } => 1,
        Mode::Sync { backups: 0, .. } => 3,
        _ => return saved, // a step may end later than the round that its gradient is in
    };
    assert!(told.keys().copied().eq(1..=last), "{mode}: of {last} updates are told {told:?}");
    assert!(told.values().all(|count| *count <= most), "{mode}: {told:?}");
    saved
}

#[test]
fn a_worker_that_is_asked_to_stop_ends_its_step_and_takes_part_again_in_its_next_life() {
    for mode in MODES {
        let store = Memory::default();
        let (trained, _) = stopped_midway(mode, &store, task("worker", 2), Some(PAUSE));
        check(mode, &trained, &store);
        assert_eq!(lives(&trained), [(0, 1), (1, 1), (2, 2)].into(), "{mode}");
    }
}

#[test]
fn a_worker_that_is_stopped_for_good_ends_no_training() {
    for mode in MODES {
        let store = Memory::default();
        let (trained, _) = stopped_midway(mode, &store, task("worker", 2), None);
        check(mode, &trained, &store);
        assert_eq!(lives(&trained), [(0, 1), (1, 1), (2, 1)].into(), "{mode}");
    }
}

#[test]
fn a_chief_that_is_asked_to_stop_saves_what_is_learnt_and_leads_the_training_again() {
    for mode in MODES {
        let store = Memory::default();
        let (trained, _) = stopped_midway(mode, &store, task("worker", 0), Some(PAUSE));
        let saved = check(mode, &trained, &store);
        assert!(saved.iter().any(|step| (10..STEPS).contains(step)), "{mode}: {saved:?}");
        assert_eq!(lives(&trained), [(0, 2), (1, 1), (2, 1)].into(), "{mode}");
    }
}

#[test]
fn a_parameter_server_that_is_asked_to_stop_ends_all_tasks_and_they_go_on_from_the_checkpoint() {
    for (mode, index) in MODES.into_iter().flat_map(|mode| [(mode, 0), (mode, 1)]) {
        let store = Memory::default();
        let (trained, undisturbed) = stopped_midway(mode, &store, task("ps", index), Some(PAUSE));
        let saved = check(mode, &trained, &store);
        assert!(saved.iter().any(|step| (10..STEPS).contains(step)), "{mode}: {saved:?}");
        assert_eq!(lives(&trained), [(0, 2), (1, 2), (2, 2)].into(), "{mode}");
        // All end at once, and not after the ten seconds of grace.
        let most = Time::ZERO.after(undisturbed + Duration::from_secs(5));
        assert!(trained.outcome.ended < most, "{mode}: {}", trained.outcome.ended);
    }
}

#[test]
fn a_parameter_server_that_is_stopped_for_good_ends_the_training_with_its_name() {
    let store = Memory::default();
    let (trained, _) = stopped_midway(SYNC, &store, task("ps", 1), None);
    let error = trained.outcome.result.unwrap_err();
    assert_eq!((error.code, error.task), (Code::Unavailable, Some(task("ps", 1))));
    assert!(error.message.contains("start all tasks again to go on"), "{}", error.message);
    let again = training(SYNC, &store).run();
    assert!(again.steps.len() < 2 * STEPS as usize, "from the checkpoint of the chief");
}

#[test]
fn a_training_with_a_stop_repeats() {
    let digests = || {
        let (trained, _) = stopped_midway(SYNC, &Memory::default(), task("ps", 0), Some(PAUSE));
        trained.digests()
    };
    assert_eq!(digests(), digests());
}
