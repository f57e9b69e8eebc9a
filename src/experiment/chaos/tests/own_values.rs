//! A training may end with other weights where a worker's own values began anew, and only there.

use super::in_simulation;
use crate::experiment::chaos::arena::{Arena, Attempt};
use crate::experiment::chaos::judge::{Breach, Judge, Promise};
use crate::experiment::{Experiment, Trial};
use crate::planted::{self, Bug};
use crate::simulation::{Fault, FaultKind};
use crate::units::Time;

/// `worker:1` waits for the end of an exchange that is counted, and so can't say what it has when
/// the checkpoint of that step is written; `ps:0` dies, so that the training goes back to it.
const BEFORE_THE_ANSWER: &str = r#"
    [{ at = "118544us", one_way = ["ps:0", "worker:0"], for = "157237us" },
     { at = "300785us", partition = ["ps:1", "worker:1"], for = "428710us" },
     { at = "330596us", crash = "ps:0", restart_after = "26692us" }]"#;
/// The training goes back to a whole checkpoint.
const WHOLE: &str = r#"[{ at = "250ms", crash = "ps:0", restart_after = "20ms" }]"#;

/// The simulated world, of which a report does not say whose own values began anew.
struct Concealing<A>(A);

impl<A: Arena> Arena for Concealing<A> {
    fn train(&self, trial: &Trial, faults: &[Fault], latest: Option<Time>) -> Option<Attempt> {
        let mut attempt = self.0.train(trial, faults, latest)?;
        attempt.recording.begun_anew.clear();
        Some(attempt)
    }

    fn has(&self, trial: &Trial, kind: &FaultKind) -> bool {
        self.0.has(trial, kind)
    }

    fn jobs(&self) -> usize {
        self.0.jobs()
    }

    fn repetitions(&self) -> u32 {
        self.0.repetitions()
    }

    fn first_seed(&self, trial: &Trial) -> u64 {
        self.0.first_seed(trial)
    }

    fn undoes_steps(&self) -> bool {
        self.0.undoes_steps()
    }
}

/// The training goes back, and its chief has come to the end, when `worker:1` is back there.
const AFTER_THE_CHIEF: &str = r#"[{ at = "210149us", crash = "ps:0", restart_after = "1375us" }]"#;

/// A training of local SGD under `faults`.
fn trial(faults: &str) -> Trial {
    trial_of("local SGD, weights", faults)
}

fn trial_of(run: &str, faults: &str) -> Trial {
    let scenario = Experiment::parse(include_str!("../../../../sims/chaos.toml")).unwrap();
    let experiment = scenario.only(run).set(&format!("fault={faults}")).unwrap();
    experiment.trials().unwrap().remove(0)
}

/// What `trial` breaks in `arena`, and the workers that began anew in it.
fn judged(trial: &Trial, arena: &impl Arena) -> (Vec<Breach>, Vec<String>) {
    let faults = &trial.cluster.faults.list;
    let judge = Judge::new(trial, arena).unwrap().expect("nobody asks to stop");
    let attempt = arena.train(trial, faults, None).expect("nobody asks to stop");
    let recording = attempt.recording;
    assert!(!recording.restored.is_empty(), "the training has gone back to a checkpoint");
    let anew = recording.begun_anew.iter().map(|begun| begun.worker.to_string());
    let judgement = judge.judgement(faults).expect("nobody asks to stop");
    (judgement.breaches, anew.collect())
}

fn promises(breaches: &[Breach]) -> Vec<Promise> {
    breaches.iter().map(|breach| breach.promise).collect()
}

#[test]
fn a_training_that_says_whose_own_values_its_checkpoint_lacked_may_end_with_other_weights() {
    let trial = trial(BEFORE_THE_ANSWER);
    assert_eq!(judged(&trial, &in_simulation()), (Vec::new(), vec!["worker:1".to_owned()]));
    let (breaches, _) = judged(&trial, &Concealing(in_simulation()));
    assert!(promises(&breaches).contains(&Promise::Weights), "{breaches:?}");
}

#[test]
fn a_training_that_went_back_to_a_whole_checkpoint_is_held_to_the_weights() {
    let trial = trial(WHOLE);
    assert_eq!(judged(&trial, &in_simulation()), (Vec::new(), Vec::new()));
    planted::plant(Some(Bug::ForgetsOwnValues));
    let (said, anew) = judged(&trial, &in_simulation());
    let (unsaid, _) = judged(&trial, &Concealing(in_simulation()));
    planted::plant(None);
    assert_eq!(anew.len(), 3, "{anew:?}");
    assert_eq!(promises(&said), [Promise::Checkpoints; 3], "{said:?}");
    assert!(said[0].how.contains("steps, and its checkpoint has what it had"), "{said:?}");
    assert!(promises(&unsaid).contains(&Promise::Weights), "{unsaid:?}");
}

#[test]
fn a_worker_whose_chief_has_ended_can_ask_nobody_for_its_own_values_and_nobody_needs_them() {
    let trial = trial_of("elastic averaging, every 2, alpha 0.3", AFTER_THE_CHIEF);
    assert_eq!(judged(&trial, &in_simulation()), (Vec::new(), Vec::new()));
}
