//! Trainings that die and go on from their checkpoints: whole clusters, parameter servers, workers, chiefs.

use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::runtime::Error;
use trainyard::simulation::{Misfortune, Moment};
use trainyard::sync::Mode;
use trainyard::training::checkpoint::Memory;
use trainyard::training::train;

use crate::simulated::{Simulated, Trained};

const STEPS: u64 = 20;

/// A training of the digits that keeps a checkpoint every few steps.
fn training(mode: Mode, store: &Memory) -> Simulated {
    Simulated::new(2, 2, mode).digits().steps(STEPS).checkpoints(store, 3)
}

fn tasks() -> [TaskName; 4] {
    [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)].map(|(job, index)| TaskName::new(job, index))
}

fn crash(task: &TaskName, restart_after: Option<Duration>) -> Misfortune {
    Misfortune::Crash { task: task.clone(), restart_after }
}

#[track_caller]
fn weights(trained: &Trained) -> u64 {
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    trained.ending.expect("the chief has ended").weights_digest.expect("there are numbers")
}

#[test]
fn a_synchronous_training_killed_at_any_event_and_begun_again_ends_with_the_same_weights() {
    let mode = Mode::Sync { backups: 0 };
    let undisturbed = training(mode, &Memory::default()).run();
    let expected = weights(&undisturbed);
    let mut resumed = 0;
    for event in 0..undisturbed.outcome.events {
        let store = Memory::default();
        let mut killed = training(mode, &store);
        for task in tasks() {
            killed = killed.fault(Moment::Event(event), crash(&task, None));
        }
        let killed = killed.run_program(train);
        assert!(killed.outcome.result.is_ok(), "event {event}: {:?}", killed.outcome.result);
        let again = training(mode, &store).run();
        assert_eq!(weights(&again), expected, "killed at event {event}");
        resumed += u64::from(again.steps.len() < undisturbed.steps.len());
    }
    assert!(resumed > undisturbed.outcome.events / 2, "{resumed} trainings went on from a checkpoint");
}

#[test]
fn a_parameter_server_that_comes_back_at_any_event_gets_its_variables_and_the_weights_are_the_same() {
    let mode = Mode::Sync { backups: 0 };
    let undisturbed = training(mode, &Memory::default()).run();
    let expected = weights(&undisturbed);
    let mut after_the_end = 0;
    for event in (0..undisturbed.outcome.events).step_by(3) {
        let ps = &tasks()[(event % 2) as usize];
        let fault = crash(ps, Some(Duration::from_millis(5)));
        let store = Memory::default();
        let trained = training(mode, &store).fault(Moment::Event(event), fault).run_program(train);
        // A worker that had taken its last step has left, and does not take it again.
        if trained.steps.iter().any(|step| step.global_step == STEPS && !step.applied) {
            let named = |error: &Error| error.to_string().contains("begin it again");
            assert!(trained.outcome.result.as_ref().err().is_none_or(named), "{ps} crashed at event {event}");
            after_the_end += 1;
            continue;
        }
        assert_eq!(weights(&trained), expected, "{ps} crashed at event {event}");
        let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
        assert_eq!(applied, 2 * STEPS, "{ps} crashed at event {event}");
    }
    assert!(after_the_end < 20, "{after_the_end} of the crashes came after the last step");
}
