//! Runs that went on from what an earlier process had trained.

use crate::training::{Recording, Restore};

/// The global step that the training had before any step that is recorded: of a checkpoint, or of
/// the variables that its chief found.
pub(super) fn resumed_from(recording: &Recording) -> Option<u64> {
    let first = recording.restored.iter().min_by_key(|restore| restore.at);
    let is_first = |first: &&Restore| recording.steps().all(|step| first.at <= step.started);
    let restored = first.filter(|first| first.global_step > 0).filter(is_first);
    restored.map(|first| first.global_step).or(recording.taken_over)
}

/// Whether the training was over when the run began: what it went on from reaches the target, and
/// no step was added before that was known. Without a target it is over if no step is begun.
pub(super) fn was_over(resumed: Option<u64>, target_reached_at: Option<u64>, applied: u64) -> bool {
    resumed.is_some() && target_reached_at == resumed && applied == 0
}

/// Whether the time to the target is known: not if the training had ended before, nor of a chief
/// that has taken it over, since its clock began later.
pub(super) fn has_its_own_time(recording: &Recording, resumed_from: Option<u64>) -> bool {
    let has_steps = recording.log.iter().next().is_some();
    resumed_from.is_none() || has_steps && recording.taken_over.is_none()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use crate::experiment::Experiment;
    use crate::experiment::observed::Observed;
    use crate::experiment::summary::tests::step;
    use crate::report::End;
    use crate::training::{Evaluation, Fact, SharedRecording, StepStats};
    use crate::units::Time;

    #[test]
    fn a_chief_that_took_a_training_over_has_no_time_to_the_target_unless_its_first_life_is_known()
    {
        let trial = Experiment::parse("[stop]\nsteps = 999\naccuracy = 0.5\n").unwrap();
        let trial = trial.trials().unwrap().remove(0);
        let summary = |before: &[StepStats]| {
            let shared = SharedRecording::default();
            before.iter().for_each(|step| shared.record(Fact::Step(step.clone())));
            shared.record(Fact::TakenOver(177));
            (0..9).for_each(|n| shared.record(Fact::Step(step(0, n, 178 + n, 2_000 + 100 * n))));
            let at = Time(3_000_000_000);
            let evaluation = Evaluation { global_step: 186, at, loss: 1.0, accuracy: 0.9 };
            shared.record(Fact::Evaluated(evaluation));
            let observed = Observed::deployed(Time(3_000_000_000), BTreeMap::new());
            let run = trial.summarise(&shared.finish(), &observed, Duration::from_secs(3));
            assert_eq!((run.end, run.global_steps), (End::Done, 186));
            (run.resumed_from, run.seconds_to_target)
        };
        assert_eq!(summary(&[]), (Some(177), None));
        assert_eq!(summary(&[step(0, 0, 177, 1_000)]), (None, Some(3.0)), "as a launch has it");
    }

    #[test]
    fn a_chief_that_found_the_variables_at_the_end_has_its_step_and_nothing_to_do() {
        let trial = Experiment::parse("[stop]\nsteps = 177\n").unwrap().trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        shared.record(Fact::TakenOver(177));
        let observed = Observed::deployed(Time(400_000_000), BTreeMap::new());
        let run = trial.summarise(&shared.finish(), &observed, Duration::from_millis(400));
        assert_eq!((run.global_steps, run.end), (177, End::Done));
        assert!(run.had_nothing_to_do() && !run.is_end_saved());
    }
}
