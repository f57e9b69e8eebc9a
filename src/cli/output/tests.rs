//! What is said and written of a training that had ended before this process.

use std::fs;

use super::*;
use crate::cluster::TaskName;
use crate::experiment::Attended;
use crate::runtime::Traffic;
use crate::training::{Fact, Restore, SharedRecording};
use crate::units::Time;

/// What is said of a training that ended at step 9 and records `fact` alone, and what `result.json`
/// in `folder` has then.
fn written(fact: Fact, folder: &Path) -> (String, String) {
    let experiment = Experiment::parse("[stop]\nsteps = 9\n").unwrap();
    let trial = experiment.trials_in(World::Deployment).unwrap().remove(0);
    let shared = SharedRecording::default();
    shared.record(fact);
    let attended = Attended {
        task: TaskName::new("worker", 0),
        recording: shared.finish(),
        result: Ok(()),
        stopped: None,
        lost: None,
        ended: Time(400_000_000),
        sent: Traffic::default(),
    };
    let trials = std::slice::from_ref(&trial);
    let mut report = experiment.report(trials, World::Deployment).unwrap();
    report.add(trial.report_attended(&attended), 1);
    let mut out = Out::beside_earlier(Some(folder), Duration::ZERO, true).unwrap();
    out.append(&report, &trial, &attended.recording, None);
    out.finish(&report);
    (notes(&report).concat(), fs::read_to_string(folder.join("result.json")).unwrap())
}

#[test]
fn an_end_that_no_checkpoint_has_is_not_said_to_be_saved_and_has_a_result() {
    let folder = tempfile::tempdir().unwrap();
    for life in ["first", "second"] {
        let (said, result) = written(Fact::TakenOver(9), folder.path());
        assert!(said.contains("its last, was reached by an earlier process"), "{life}: {said}");
        assert!(result.contains("\"global_steps\": 9"), "{life}: {result}");
        fs::write(folder.path().join("result.json"), life).unwrap();
    }
}

#[test]
fn an_end_that_a_checkpoint_has_is_saved_and_leaves_a_result_that_is_there_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let restored = || Fact::Restored(Restore { global_step: 9, at: Time(1) });
    let (said, result) = written(restored(), folder.path());
    assert!(said.contains("step 9, its last, is saved"), "{said}");
    assert!(result.contains("\"global_steps\": 9"), "the killed chief had left none: {result}");
    fs::write(folder.path().join("result.json"), "of the chief's last life").unwrap();
    assert_eq!(written(restored(), folder.path()).1, "of the chief's last life");
}
