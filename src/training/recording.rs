//! The recording of a run, kept for the report and shown while the run goes on.

mod own_copies;
mod shared;
mod watch;

use std::sync::Arc;

use crate::checkpoint::SavedVariable;
use crate::cluster::TaskName;
use crate::units::Time;

use super::record::{
    Beginning, BegunAnew, Ending, Evaluation, Fact, FailedCheckpoint, Formed, Restore, StepStats,
};
use super::step_log::StepLog;
pub use shared::SharedRecording;
pub use watch::Watch;

/// The record of a run so far.
#[derive(Default)]
pub struct Recording {
    /// The model that was trained. None if the run ended before it was known.
    pub beginning: Option<Beginning>,
    /// The steps as they were reported, in that order.
    pub(crate) log: StepLog,
    /// The greatest global step of those that are no longer in the log.
    forgotten: u64,
    /// The returns to checkpoints, in order.
    pub restored: Vec<Restore>,
    /// The global step at which the chief took the training over, if nothing is recorded of before.
    pub(crate) taken_over: Option<u64>,
    /// The workers whose own values began anew, in order.
    pub begun_anew: Vec<BegunAnew>,
    /// The formations of an all-reduce, in order.
    pub formed: Vec<Formed>,
    /// The evaluations on the test split, in order.
    pub evaluations: Vec<Evaluation>,
    /// The last look at the model, if only shapes are computed.
    looked: Option<Time>,
    /// The checkpoints that could not be written, in order.
    pub failed_checkpoints: Vec<FailedCheckpoint>,
    /// The global step of the last checkpoint that is saved, as its chief knows it, and when.
    saved: Option<(u64, Time)>,
    /// Whether the task came when the training had ended.
    pub(crate) is_after_the_end: bool,
    /// The times in which workers may have taken steps that nobody was told of.
    pub(crate) unheard: Vec<Unheard>,
    /// The tapes that could not be written to their end, each with the reason.
    pub cut_tapes: Vec<String>,
    /// The end of the training. None if the chief did not get there.
    pub ending: Option<Ending>,
    /// The trained variables at that end. None if nobody wants them, or only shapes are computed.
    pub(crate) weights: Option<Vec<SavedVariable>>,
}

/// The last time of a process that was killed: from the last step that it had told of, or from its
/// beginning, to its death.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unheard {
    pub(crate) worker: TaskName,
    pub(crate) since: Time,
    pub(crate) until: Time,
}

shown!(Recording);

impl Recording {
    /// Adds `fact`.
    pub(crate) fn add(&mut self, fact: Fact) {
        match fact {
            Fact::Began(beginning) => self.beginning = Some(beginning),
            Fact::Step(step) => self.log.push(&step),
            Fact::Restored(restore) => {
                self.forgotten = self.forgotten.min(restore.global_step);
                // What was saved later could not be restored.
                if let Some((saved, at)) = &mut self.saved
                    && *at <= restore.at
                {
                    *saved = restore.global_step.min(*saved);
                }
                self.restored.push(restore);
            }
            Fact::TakenOver(step) if step > 0 && self.is_empty() => self.taken_over = Some(step),
            Fact::TakenOver(_) | Fact::EndsAt(_) => {}
            Fact::BegunAnew(begun) => self.begun_anew.push(begun),
            Fact::Formed(formed) => self.formed.push(formed),
            Fact::Evaluated(evaluation) => self.evaluations.push(evaluation),
            Fact::Looked(at) => self.looked = Some(at),
            Fact::Saved { global_step, at } => self.saved = Some((global_step, at)),
            Fact::NotSaved(failed) => self.add_failed(failed),
            Fact::NothingToDo => self.is_after_the_end = true,
            Fact::TapeCut(which) => self.cut_tapes.push(which),
            Fact::Ended(ending) => self.ending = Some(ending),
        }
    }

    /// Whether no part of a training is recorded.
    fn is_empty(&self) -> bool {
        self.log.is_empty() && self.forgotten == 0 && self.restored.is_empty()
    }

    /// Adds a checkpoint that could not be written. One that was tried again in vain counts once.
    fn add_failed(&mut self, failed: FailedCheckpoint) {
        match self.failed_checkpoints.last_mut() {
            Some(last) if last.global_step == failed.global_step => {
                *last = FailedCheckpoint { is_last: last.is_last || failed.is_last, ..failed };
            }
            _ => self.failed_checkpoints.push(failed),
        }
    }

    /// Takes out the steps, and keeps how far they came.
    fn forget_steps(&mut self) -> StepLog {
        self.forgotten = self.global_step();
        std::mem::take(&mut self.log)
    }

    /// A row for each step, in the order in which the steps were reported. A gradient counts as
    /// dropped that a restored checkpoint undid, and one of a worker's own copy that no exchange
    /// has brought to the others.
    pub fn steps(&self) -> impl Iterator<Item = StepStats> + Clone {
        let lost: Arc<[bool]> = self.lost_with_their_copy().into();
        self.log.iter().enumerate().map(move |(row, mut step)| {
            let is_lost = lost.get(row).is_some_and(|is_lost| *is_lost);
            step.applied &= !is_lost && !self.has_undone(&step);
            step
        })
    }

    /// Leaves out the beginnings of the training, which have undone nothing.
    pub(crate) fn leave_out_beginnings(&mut self) {
        let Self { restored, log, evaluations, .. } = self;
        restored.retain(|restore| {
            restore.global_step > 0
                || log.iter().any(|step| restore.undoes(&step))
                || evaluations.iter().any(|evaluation| restore.undoes_evaluation(evaluation))
        });
    }

    /// The greatest global step, without what a return to a checkpoint has undone.
    pub fn global_step(&self) -> u64 {
        let steps = self.log.iter().filter(|step| !self.has_undone(step));
        let evaluations = self.evaluations.iter().filter(|look| !self.has_undone_look(look));
        let restored = self.restored.last().map(|restore| restore.global_step);
        let restored = restored.or(self.taken_over);
        let known = steps.map(|step| step.global_step);
        let known = known.chain(evaluations.map(|evaluation| evaluation.global_step));
        let saved = self.saved.map(|(saved, _)| saved);
        known.chain(saved).chain(restored).fold(self.forgotten, u64::max)
    }

    /// The end of the last step or look, if there was any.
    pub(crate) fn ended(&self) -> Option<Time> {
        let looks = self.evaluations.iter().map(|evaluation| evaluation.at).chain(self.looked);
        self.log.iter().map(|step| step.ended).chain(looks).max()
    }

    /// The global step of the last checkpoint: one that was written, or that was gone back to.
    pub(crate) fn last_saved(&self) -> Option<u64> {
        let written = self.saved.map(|(saved, _)| saved);
        let restored = self.restored.last().map(|restore| restore.global_step);
        written.max(restored.filter(|step| *step > 0))
    }

    /// Whether the training has gone back to a checkpoint before `step`.
    pub(crate) fn has_undone(&self, step: &StepStats) -> bool {
        self.restored.iter().any(|restore| restore.undoes(step))
    }

    /// Whether the training has gone back to a checkpoint before `evaluation`.
    pub(crate) fn has_undone_look(&self, evaluation: &Evaluation) -> bool {
        self.restored.iter().any(|restore| restore.undoes_evaluation(evaluation))
    }

    /// The formation of an all-reduce that took `step`.
    pub(crate) fn formation_of(&self, step: &StepStats) -> Option<&Formed> {
        self.formed.iter().rev().find(|formed| formed.at <= step.started)
    }

    /// The checkpoint that a stop of the training now leaves unwritten, while the task's program
    /// waits for `waits`; none if one has all steps.
    fn lost_by_a_stop(&self, waits: &[String]) -> Option<FailedCheckpoint> {
        let (global_step, (saved, _)) = (self.global_step(), self.saved?);
        if self.ending.is_some() || saved >= global_step {
            return None;
        }
        let tried = self.failed_checkpoints.last().filter(|failed| failed.global_step > saved);
        let tried = tried.map(|FailedCheckpoint { global_step, why, .. }| {
            format!("; before that, step {global_step} could not be saved: {why}")
        });
        let cause = match waits {
            [] => "before all tasks had answered".to_owned(),
            waits => format!("while {}", waits.join(", and ")),
        };
        let why = format!(
            "the training was stopped {cause}; step {saved} is the last that is saved, from which \
             it goes on when it is started again{}",
            tried.unwrap_or_default()
        );
        Some(FailedCheckpoint { global_step, why, is_last: true })
    }

    /// Whether the training ended and is recorded, but its last checkpoint could not be written.
    pub fn is_unsaved(&self) -> bool {
        self.ending.is_some() && self.failed_checkpoints.iter().any(|failed| failed.is_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn step(number: u64) -> StepStats {
        let times = (Time(10 * number), Time(10 * number + 10));
        StepStats::applied(0, (number, number + 1), times)
    }

    #[test]
    fn a_checkpoint_of_a_later_step_than_the_tasks_own_counts_unless_it_is_undone() {
        let mut recording = Recording::default();
        recording.add(Fact::Step(step(1)));
        recording.add(Fact::Saved { global_step: 5, at: Time(30) });
        assert_eq!(recording.global_step(), 5, "others have taken steps");
        recording.add(Fact::Restored(Restore { global_step: 2, at: Time(40) }));
        assert_eq!(recording.global_step(), 2, "the checkpoint was torn");
        assert_eq!(recording.last_saved(), Some(2));
    }

    #[test]
    fn a_gradient_that_a_restored_checkpoint_undid_counts_as_dropped() {
        let shared = SharedRecording::default();
        (0..4).for_each(|number| shared.record(Fact::Step(step(number))));
        shared.record(Fact::Restored(Restore { global_step: 2, at: Time(45) }));
        let again = StepStats { started: Time(50), ended: Time(60), ..step(2) };
        shared.record(Fact::Step(again));
        let applied: Vec<bool> = shared.finish().steps().map(|step| step.applied).collect();
        assert_eq!(applied, [true, true, false, false, true]);
    }

    #[test]
    fn first_values_undo_what_an_earlier_life_has_done_and_are_no_return_otherwise() {
        let begin = |at| Restore { global_step: 0, at: Time(at) };
        let shared = SharedRecording::default();
        shared.record(Fact::Restored(begin(0)));
        (0..2).for_each(|number| shared.record(Fact::Step(step(number))));
        shared.record(Fact::Restored(begin(25)));
        let again = StepStats { started: Time(30), ended: Time(40), ..step(0) };
        shared.record(Fact::Step(again));
        let recording = shared.finish();
        assert_eq!(recording.restored, [begin(25)]);
        let applied: Vec<bool> = recording.steps().map(|step| step.applied).collect();
        assert_eq!((applied, recording.global_step()), (vec![false, false, true], 1));
    }

    #[test]
    fn what_a_restored_checkpoint_undid_is_no_global_step() {
        let evaluated = |global_step, at| {
            Fact::Evaluated(Evaluation { global_step, at: Time(at), loss: 1.0, accuracy: 0.5 })
        };
        let shared = SharedRecording::default();
        (0..4).for_each(|number| shared.record(Fact::Step(step(number))));
        shared.record(evaluated(4, 42));
        shared.record(Fact::Restored(Restore { global_step: 2, at: Time(45) }));
        assert_eq!(shared.lock().recording.global_step(), 2);
        let again = StepStats { started: Time(50), ended: Time(60), ..step(2) };
        shared.record(Fact::Step(again));
        shared.record(evaluated(3, 65));
        assert_eq!(shared.finish().global_step(), 3);
    }

    #[test]
    fn a_stop_that_loses_steps_is_a_checkpoint_that_could_not_be_written() {
        let stopped = |saved, ending: Option<Ending>, is_told| {
            let shared = SharedRecording::default().telling();
            (0..4).for_each(|number| shared.record(Fact::Step(step(number))));
            shared.record(Fact::Saved { global_step: saved, at: Time(20) });
            if is_told {
                shared.take_unsent();
            }
            ending.into_iter().for_each(|ending| shared.record(Fact::Ended(ending)));
            let lost = shared.note_stop(&[]).map(|failed| (failed.global_step, failed.why));
            (lost, shared.finish().is_unsaved())
        };
        for is_told in [false, true] {
            let (lost, is_unsaved) = stopped(3, None, is_told);
            let (global_step, why) = lost.unwrap();
            assert!(global_step == 4 && why.contains("step 3 is the last that is saved"), "{why}");
            assert!(!is_unsaved, "the training has not come to its end");
            assert_eq!(stopped(4, None, is_told), (None, false));
            let ending = Some(Ending { weights_digest: None });
            assert_eq!(stopped(3, ending, is_told), (None, false));
        }
    }

    #[test]
    fn steps_that_are_told_and_undone_are_no_global_step() {
        let shared = SharedRecording::default().telling();
        (0..4).for_each(|number| shared.record(Fact::Step(step(number))));
        shared.take_unsent();
        assert_eq!(shared.lock().recording.global_step(), 4);
        shared.record(Fact::Restored(Restore { global_step: 2, at: Time(45) }));
        assert_eq!(shared.lock().recording.global_step(), 2);
    }

    #[test]
    fn each_fact_is_told_once() {
        let shared = SharedRecording::default().telling();
        assert!(shared.take_unsent().is_empty());
        let steps = [0, 1].map(|number| Fact::Step(step(number)));
        steps.iter().for_each(|step| shared.record(step.clone()));
        assert_eq!(shared.take_unsent(), steps);
        let restored = Fact::Restored(Restore { global_step: 0, at: Time(30) });
        shared.record(restored.clone());
        assert_eq!(shared.take_unsent(), [restored]);
        assert!(shared.take_unsent().is_empty());
    }

    #[test]
    fn a_checkpoint_that_could_not_be_written_is_told_once_and_stays_recorded() {
        let failed = |global_step, is_last| FailedCheckpoint {
            global_step,
            why: "the disk is full".to_owned(),
            is_last,
        };
        let shared = SharedRecording::default().telling();
        shared.record(Fact::NotSaved(failed(10, false)));
        assert_eq!(shared.take_unsent(), [Fact::NotSaved(failed(10, false))]);
        shared.record(Fact::NotSaved(failed(20, true)));
        assert_eq!(shared.take_unsent(), [Fact::NotSaved(failed(20, true))]);
        shared.record(Fact::Ended(Ending { weights_digest: None }));
        let recording = shared.finish();
        assert_eq!(recording.failed_checkpoints, [failed(10, false), failed(20, true)]);
        assert!(recording.is_unsaved());
    }

    #[test]
    fn a_checkpoint_that_is_tried_again_in_vain_counts_once_and_a_stop_names_why_it_failed() {
        let failed = |is_last, why: &str| {
            Fact::NotSaved(FailedCheckpoint { global_step: 3, why: why.to_owned(), is_last })
        };
        let shared = SharedRecording::default();
        (0..3).for_each(|number| shared.record(Fact::Step(step(number))));
        shared.record(Fact::Saved { global_step: 1, at: Time(20) });
        shared.record(failed(false, "the disk is full"));
        let waits = ["worker:0 waits for a disk".to_owned()];
        let why = shared.note_stop(&waits).expect("step 3 is not saved").why;
        assert!(
            why.starts_with("the training was stopped while worker:0 waits for a disk; "),
            "{why}"
        );
        assert!(why.ends_with("step 3 could not be saved: the disk is full"), "{why}");
        shared.record(failed(true, "the disk is still full"));
        let recording = shared.finish();
        let [last] = recording.failed_checkpoints.as_slice() else { panic!("it is one") };
        assert!(last.is_last && last.why == "the disk is still full", "{last:?}");
    }
}
