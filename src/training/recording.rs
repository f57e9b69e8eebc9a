//! The recording of a run, kept for the report and shown while the run goes on.

mod own_copies;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::cluster::TaskName;
use crate::units::Time;

use super::record::{
    Beginning, BegunAnew, Ending, Evaluation, FailedCheckpoint, Formed, Recorder, Restore,
    StepStats,
};
use super::step_log::StepLog;

/// Shows how far a run is.
pub trait Watch {
    /// The run is at `global_step`; `loss` is that of the last worker step, and `now` is the time
    /// on the run's clock. It must be cheap enough for every step.
    #[expect(unused_variables, reason = "their names say what they are")]
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {}

    /// A worker of the run has taken a step.
    fn step(&mut self, step: &StepStats) {
        self.update(step.global_step, step.loss, step.ended);
    }

    /// The model was measured on the test split.
    fn evaluation(&mut self, _: &Evaluation) {}

    /// The training has gone back to a checkpoint.
    fn restored(&mut self, _: &Restore) {}

    /// The process of `task` has logged nothing for so long, though it did not stand still, while
    /// no step was taken.
    fn silent(&mut self, _task: &TaskName, _silence: Duration) {}

    /// The run is over.
    fn finish(self: Box<Self>) {}
}

impl<W: Watch + Send + 'static> From<W> for Box<dyn Watch + Send> {
    fn from(watch: W) -> Self {
        Box::new(watch)
    }
}

/// The record of a run so far.
#[derive(Default)]
pub struct Recording {
    /// The model that was trained. None if the run ended before it was known.
    pub beginning: Option<Beginning>,
    /// The steps as they were reported, in that order.
    pub(crate) log: StepLog,
    /// The returns to checkpoints, in order.
    pub restored: Vec<Restore>,
    /// The workers whose own values began anew, in order.
    pub begun_anew: Vec<BegunAnew>,
    /// The formations of an all-reduce, in order.
    pub formed: Vec<Formed>,
    /// The evaluations on the test split, in order.
    pub evaluations: Vec<Evaluation>,
    /// The checkpoints that could not be written, in order.
    pub failed_checkpoints: Vec<FailedCheckpoint>,
    /// How many of them earlier news has told.
    told_failures: usize,
    /// The global step of the last checkpoint that is saved, as its chief knows it.
    saved: Option<u64>,
    /// Whether the task came when the training had ended.
    pub(crate) is_after_the_end: bool,
    /// The end of the training. None if the chief did not get there.
    pub ending: Option<Ending>,
    watch: Option<Box<dyn Watch + Send>>,
    /// Is told of each step at its end.
    on_step: Option<fn(&StepStats)>,
}

/// A recording that all tasks of a run share.
#[derive(Clone, Default)]
pub struct SharedRecording(Arc<Mutex<Recording>>);

impl SharedRecording {
    /// A recording that shows its progress to `watch`.
    pub fn showing(watch: impl Into<Box<dyn Watch + Send>>) -> Self {
        Self(Arc::new(Mutex::new(Recording { watch: Some(watch.into()), ..Recording::default() })))
    }

    /// Has `on_step` told of each step at its end.
    pub(crate) fn telling(self, on_step: fn(&StepStats)) -> Self {
        self.lock().on_step = Some(on_step);
        self
    }

    /// Takes out what has come since the last call, of all that may become much. None if nothing
    /// has.
    pub(crate) fn take_news(&self) -> Option<Recording> {
        let mut recording = self.lock();
        // They stay: at its end the task asks whether its last checkpoint was written.
        let failed_checkpoints = recording.new_failed_checkpoints().to_vec();
        recording.told_failures = recording.failed_checkpoints.len();
        let Recording { beginning, log, restored, begun_anew, formed, evaluations, .. } =
            &mut *recording;
        let is_nothing = beginning.is_none()
            && log.is_empty()
            && restored.is_empty()
            && begun_anew.is_empty()
            && formed.is_empty()
            && evaluations.is_empty()
            && failed_checkpoints.is_empty();
        (!is_nothing).then(|| Recording {
            beginning: beginning.take(),
            log: std::mem::take(log),
            restored: std::mem::take(restored),
            begun_anew: std::mem::take(begun_anew),
            formed: std::mem::take(formed),
            evaluations: std::mem::take(evaluations),
            failed_checkpoints,
            ..Recording::default()
        })
    }

    /// Ends the recording.
    pub fn finish(self) -> Recording {
        let mut recording = std::mem::take(&mut *self.lock());
        if let Some(watch) = recording.watch.take() {
            watch.finish();
        }
        recording.leave_out_beginnings();
        recording
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().expect("nobody panics while recording")
    }
}

impl Recording {
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
        let undone = |evaluation: &&Evaluation| {
            self.restored.iter().any(|restore| restore.undoes_evaluation(evaluation))
        };
        let evaluations = self.evaluations.iter().filter(|evaluation| !undone(evaluation));
        let restored = self.restored.last().map(|restore| restore.global_step);
        let known = steps.map(|step| step.global_step);
        let known = known.chain(evaluations.map(|evaluation| evaluation.global_step));
        known.chain(restored).max().unwrap_or(0)
    }

    /// Whether the training has gone back to a checkpoint before `step`.
    pub(crate) fn has_undone(&self, step: &StepStats) -> bool {
        self.restored.iter().any(|restore| restore.undoes(step))
    }

    /// The formation of an all-reduce that took `step`.
    pub(crate) fn formation_of(&self, step: &StepStats) -> Option<&Formed> {
        self.formed.iter().rev().find(|formed| formed.at <= step.started)
    }

    /// The checkpoints that could not be written, without those of earlier news.
    pub(crate) fn new_failed_checkpoints(&self) -> &[FailedCheckpoint] {
        &self.failed_checkpoints[self.told_failures..]
    }

    /// The training was stopped: if that has lost steps which no checkpoint has, notes so as a
    /// checkpoint that could not be written, and returns it.
    pub(crate) fn note_stop(&mut self) -> Option<&FailedCheckpoint> {
        let (global_step, saved) = (self.global_step(), self.saved?);
        if self.ending.is_some() || saved >= global_step {
            return None;
        }
        let why = format!(
            "the training was stopped before all tasks had answered; step {saved} is the last that \
             is saved, from which it goes on when it is started again"
        );
        self.failed_checkpoints.push(FailedCheckpoint { global_step, why, is_last: true });
        self.failed_checkpoints.last()
    }

    /// Whether the training ended and is recorded, but its last checkpoint could not be written.
    pub fn is_unsaved(&self) -> bool {
        self.ending.is_some() && self.failed_checkpoints.iter().any(|failed| failed.is_last)
    }
}

impl Recorder for SharedRecording {
    fn beginning(&self, beginning: Beginning) {
        self.lock().beginning = Some(beginning);
    }

    fn step(&self, stats: StepStats) {
        let mut recording = self.lock();
        if let Some(watch) = &mut recording.watch {
            watch.step(&stats);
        }
        if let Some(tell) = recording.on_step {
            tell(&stats);
        }
        recording.log.push(&stats);
    }

    fn restored(&self, restore: Restore) {
        let mut recording = self.lock();
        if let Some(watch) = &mut recording.watch {
            watch.restored(&restore);
        }
        recording.restored.push(restore);
    }

    fn begun_anew(&self, begun: BegunAnew) {
        self.lock().begun_anew.push(begun);
    }

    fn formed(&self, formed: Formed) {
        self.lock().formed.push(formed);
    }

    fn evaluation(&self, evaluation: Evaluation) {
        let mut recording = self.lock();
        if let Some(watch) = &mut recording.watch {
            watch.evaluation(&evaluation);
        }
        recording.evaluations.push(evaluation);
    }

    fn checkpoint_saved(&self, global_step: u64) {
        self.lock().saved = Some(global_step);
    }

    fn checkpoint_failed(&self, failed: FailedCheckpoint) {
        self.lock().failed_checkpoints.push(failed);
    }

    fn nothing_to_do(&self) {
        self.lock().is_after_the_end = true;
    }

    fn ending(&self, ending: Ending) {
        self.lock().ending = Some(ending);
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
    fn a_gradient_that_a_restored_checkpoint_undid_counts_as_dropped() {
        let shared = SharedRecording::default();
        (0..4).for_each(|number| shared.step(step(number)));
        shared.restored(Restore { global_step: 2, at: Time(45) });
        shared.step(StepStats { started: Time(50), ended: Time(60), ..step(2) });
        let applied: Vec<bool> = shared.finish().steps().map(|step| step.applied).collect();
        assert_eq!(applied, [true, true, false, false, true]);
    }

    #[test]
    fn first_values_undo_what_an_earlier_life_has_done_and_are_no_return_otherwise() {
        let begin = |at| Restore { global_step: 0, at: Time(at) };
        let shared = SharedRecording::default();
        shared.restored(begin(0));
        (0..2).for_each(|number| shared.step(step(number)));
        shared.restored(begin(25));
        shared.step(StepStats { started: Time(30), ended: Time(40), ..step(0) });
        let recording = shared.finish();
        assert_eq!(recording.restored, [begin(25)]);
        let applied: Vec<bool> = recording.steps().map(|step| step.applied).collect();
        assert_eq!((applied, recording.global_step()), (vec![false, false, true], 1));
    }

    #[test]
    fn what_a_restored_checkpoint_undid_is_no_global_step() {
        let evaluation =
            |global_step, at| Evaluation { global_step, at: Time(at), loss: 1.0, accuracy: 0.5 };
        let shared = SharedRecording::default();
        (0..4).for_each(|number| shared.step(step(number)));
        shared.evaluation(evaluation(4, 42));
        shared.restored(Restore { global_step: 2, at: Time(45) });
        let recording = shared.clone();
        assert_eq!(recording.lock().global_step(), 2);
        shared.step(StepStats { started: Time(50), ended: Time(60), ..step(2) });
        shared.evaluation(evaluation(3, 65));
        assert_eq!(shared.finish().global_step(), 3);
    }

    #[test]
    fn a_stop_that_loses_steps_is_a_checkpoint_that_could_not_be_written() {
        let stopped = |saved, ending| {
            let shared = SharedRecording::default();
            (0..4).for_each(|number| shared.step(step(number)));
            shared.checkpoint_saved(saved);
            shared.lock().ending = ending;
            let mut recording = shared.finish();
            let lost = recording.note_stop().map(|failed| (failed.global_step, failed.why.clone()));
            (lost, recording.is_unsaved())
        };
        let (lost, is_unsaved) = stopped(3, None);
        let (global_step, why) = lost.unwrap();
        assert!(global_step == 4 && why.contains("step 3 is the last that is saved"), "{why}");
        assert!(!is_unsaved, "the training has not come to its end");
        assert_eq!(stopped(4, None), (None, false));
        assert_eq!(stopped(3, Some(Ending { weights_digest: None })), (None, false));
    }

    #[test]
    fn each_part_of_a_recording_is_news_once() {
        let shared = SharedRecording::default();
        assert!(shared.take_news().is_none());
        shared.step(step(0));
        shared.step(step(1));
        let news = shared.take_news().unwrap();
        assert_eq!(news.steps().collect::<Vec<_>>(), [step(0), step(1)]);
        shared.restored(Restore { global_step: 0, at: Time(30) });
        let news = shared.take_news().unwrap();
        assert_eq!((news.log.len(), news.restored.len()), (0, 1));
        assert!(shared.take_news().is_none());
    }

    #[test]
    fn a_checkpoint_that_could_not_be_written_is_news_once_and_stays_recorded() {
        let failed = |global_step, is_last| FailedCheckpoint {
            global_step,
            why: "the disk is full".to_owned(),
            is_last,
        };
        let shared = SharedRecording::default();
        shared.checkpoint_failed(failed(10, false));
        assert_eq!(shared.take_news().unwrap().new_failed_checkpoints(), [failed(10, false)]);
        assert!(shared.take_news().is_none());
        shared.checkpoint_failed(failed(20, true));
        shared.ending(Ending { weights_digest: None });
        let recording = shared.finish();
        assert_eq!(recording.new_failed_checkpoints(), [failed(20, true)]);
        assert_eq!(recording.failed_checkpoints, [failed(10, false), failed(20, true)]);
        assert!(recording.is_unsaved());
    }
}
