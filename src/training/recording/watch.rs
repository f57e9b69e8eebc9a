//! What shows a run while it goes on: it is told each fact as a task records it.

use std::time::Duration;

use crate::cluster::TaskName;
use crate::training::record::{Evaluation, Fact, FailedCheckpoint, Restore, StepStats};
use crate::units::Time;

/// Shows how far a run is.
pub trait Watch {
    /// A task of the run has recorded `fact`. Calls the method below that is for such a one.
    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Step(step) => self.step(step),
            Fact::Restored(restore) => self.restored(restore),
            Fact::EndsAt(step) => self.ends_at(*step),
            Fact::Evaluated(evaluation) => self.evaluation(evaluation),
            Fact::Saved { global_step, at } => self.saved(*global_step, *at),
            Fact::NotSaved(failed) => self.not_saved(failed),
            _ => {}
        }
    }

    /// The run is at `global_step`; `loss` is that of the last worker step, and `now` is the time
    /// on the run's clock. It must be cheap enough for every step.
    #[expect(unused_variables, reason = "their names say what they are")]
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {}

    /// A worker of the run has taken a step.
    fn step(&mut self, step: &StepStats) {
        self.update(step.global_step, step.loss, step.ended);
    }

    /// The chief's session is to end at the global step `_last`.
    fn ends_at(&mut self, _last: u64) {}

    /// The model was measured on the test split.
    fn evaluation(&mut self, _: &Evaluation) {}

    /// The training has gone back to a checkpoint.
    fn restored(&mut self, _: &Restore) {}

    /// At `_at` the checkpoint of `_global_step` was saved, or restored; it is the last one.
    fn saved(&mut self, _global_step: u64, _at: Time) {}

    /// A checkpoint could not be written.
    fn not_saved(&mut self, _: &FailedCheckpoint) {}

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
