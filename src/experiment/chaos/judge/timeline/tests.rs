//! What faults excuse, by hand-written timelines.

use super::*;
use crate::experiment::Experiment;
use crate::simulation::Trigger;

fn worker(index: u32) -> TaskName {
    TaskName::new("worker", index)
}

fn crash(task: TaskName, back: Option<u64>) -> Fault {
    let restart_after = back.map(Duration::from_millis);
    Fault { at: Trigger::Time(Time(1)), kind: FaultKind::Crash { task, restart_after } }
}

/// From `at` on, the two can't reach each other for so many milliseconds.
fn cut(at: u64, one: TaskName, other: TaskName, millis: u64) -> Fault {
    let at = Trigger::Time(Time::ZERO.after(Duration::from_millis(at)));
    let (tasks, lasts) = (vec![one, other], Duration::from_millis(millis));
    Fault { at, kind: FaultKind::Partition { tasks, lasts } }
}

/// Whether a training that ends under `faults`, as `lost` does not answer, breaks a promise.
fn breaks(trial: &Trial, lost: &TaskName, faults: &[Fault]) -> bool {
    let (timeline, mut found) = (Timeline { faults, trial }, Breaches::default());
    let error = Error::new(Code::DeadlineExceeded, "no answer").on(lost);
    timeline.check_error(&error, &Saved::read(None, false), &mut found);
    !found.0.is_empty()
}

#[test]
fn an_all_reduce_ends_with_its_chief_or_where_two_helpers_are_cut_off_for_long() {
    let text = "[cluster]\nworker = 3\n[program]\nall_reduce = \"ring\"\n[[run]]\nmode = \"sync\"";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let crash = |index, back: Option<u64>| crash(worker(index), back);
    let breaks = |faults: &[Fault]| breaks(&trial, &worker(1), faults);
    assert!(breaks(&[crash(1, None), crash(2, None)]), "the others form anew");
    assert!(breaks(&[crash(0, Some(5)), crash(1, Some(5))]), "all come back");
    assert!(!breaks(&[crash(0, Some(5)), crash(1, None)]), "the chief begins with all or none");
    assert!(!breaks(&[crash(0, None), crash(1, Some(5))]));
    // `network.recovery` is a minute where the scenario does not say.
    assert!(!breaks(&[crash(0, Some(5)), crash(1, Some(70_000))]), "nor is it there in time");
    assert!(!breaks(&[cut(0, worker(1), worker(2), 70_000)]), "no step reaches its end");
    for (millis, keeps_weights) in [(700, true), (70_000, false)] {
        let faults = &[cut(0, worker(0), worker(1), millis)];
        assert!(breaks(faults), "the others go on without it");
        assert_eq!(Timeline { faults, trial: &trial }.keeps_weights(), keeps_weights);
    }
}

#[test]
fn a_training_ends_where_a_task_that_it_needs_is_away_for_longer_than_it_waits() {
    let text = "[cluster]\nps = 1\nworker = 3\nevaluator = 1\n[checkpoint]\n\
                every_steps = 10\ndirectory = \"saved\"\n[network]\nrecovery = \"2s\"\n\
                [[run]]\nmode = \"sync\"";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let (server, evaluator) = (TaskName::new("ps", 0), TaskName::new("evaluator", 0));
    let cut_off = |at, index, millis| cut(at, server.clone(), worker(index), millis);
    let breaks = |faults: &[Fault]| breaks(&trial, &server, faults);
    assert!(!breaks(&[cut_off(0, 1, 3_000)]));
    assert!(!breaks(&[crash(server.clone(), Some(3_000))]));
    assert!(!breaks(&[cut_off(0, 1, 1_500), cut_off(1_600, 1, 1_500)]), "one after the other");
    assert!(breaks(&[cut_off(0, 1, 1_500), cut_off(1_600, 2, 1_500)]), "each is back in time");
    assert!(breaks(&[cut(0, worker(1), worker(2), 3_000)]), "neither needs the other");
    assert!(breaks(&[cut(0, evaluator, worker(0), 3_000)]), "it ends alone");
}

#[test]
fn a_task_that_crashes_amid_a_stop_may_be_away_for_as_long_as_the_stop_says() {
    let text = "[cluster]\nps = 1\nworker = 2\n[checkpoint]\nevery_steps = 10\n\
                [network]\nrecovery = \"20s\"\n[[run]]\nmode = \"sync\"";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let at = |millis| Trigger::Time(Time::ZERO.after(Duration::from_millis(millis)));
    let server = TaskName::new("ps", 0);
    let stop = |task: &TaskName, seconds| {
        let (task, restart_after) = (task.clone(), Some(Duration::from_secs(seconds)));
        Fault { at: at(1), kind: FaultKind::Stop { task, restart_after } }
    };
    // It stood still, so that the stop had yet to reach it.
    let (task, lasts) = (server.clone(), Duration::from_secs(15));
    let freeze = Fault { at: at(0), kind: FaultKind::Freeze { task, lasts } };
    let crash = Fault { at: at(14_000), ..crash(server.clone(), Some(1)) };
    let of = |stop| [freeze.clone(), stop, crash.clone()];
    for (seconds, is_late) in [(2, false), (9, true)] {
        let faults = of(stop(&server, seconds));
        assert_eq!(breaks(&trial, &server, &faults), !is_late, "back after {seconds} s");
    }
    let of_another = of(stop(&worker(1), 9));
    assert!(breaks(&trial, &server, &of_another));
    let end = |stop| Timeline { faults: &of(stop), trial: &trial }.end();
    assert_eq!(end(stop(&server, 9)), Time::ZERO.after(Duration::from_secs(23)));
}

#[test]
fn a_stop_excuses_a_lost_step_only_beside_another_fault_and_other_weights_always() {
    let text = "[cluster]\nps = 1\nworker = 2\n[[run]]\nmode = \"sync\"";
    let trial = &Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let stop = |task| {
        let restart_after = Some(Duration::from_millis(5));
        Fault { at: Trigger::Time(Time(1)), kind: FaultKind::Stop { task, restart_after } }
    };
    let of = |faults: &[Fault]| Timeline { faults, trial }.worker_losses();
    let (server, short) = (TaskName::new("ps", 0), cut(0, worker(0), worker(1), 1));
    assert_eq!(of(&[stop(worker(1))]), [0, 0]);
    assert_eq!(of(&[stop(worker(1)), short.clone()]), [0, 1]);
    assert_eq!(of(&[stop(server.clone()), short.clone()]), [1, 1], "it ends all");
    for (task, ends) in [(worker(1), false), (server, true)] {
        let faults = &[stop(task)];
        let timeline = Timeline { faults, trial };
        assert!(!timeline.keeps_weights());
        assert_eq!(timeline.ends(&worker(0)), ends);
    }
    assert!(Timeline { faults: &[short], trial }.keeps_weights());
}
