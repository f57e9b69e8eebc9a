//! Writes each step of a run to a board.

use std::sync::Arc;

use super::Board;
use crate::training::{Evaluation, StepStats, Watch};
use crate::units::Time;

/// Writes each step of a run to a board, and shows the run's progress to another watch.
pub(crate) struct Meter {
    board: Arc<Board>,
    batch: u64,
    then: Option<Box<dyn Watch + Send>>,
}

impl Meter {
    /// A meter of a run whose batches are of `batch` samples.
    pub(crate) fn new(board: Arc<Board>, batch: u64, then: Option<Box<dyn Watch + Send>>) -> Self {
        Self { board, batch, then }
    }
}

impl Watch for Meter {
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {
        if let Some(then) = &mut self.then {
            then.update(global_step, loss, now);
        }
    }

    fn step(&mut self, step: &StepStats) {
        self.board.count(step, self.batch);
        if let Some(then) = &mut self.then {
            then.step(step);
        }
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        if let Some(then) = &mut self.then {
            then.evaluation(evaluation);
        }
    }

    fn finish(self: Box<Self>) {
        if let Some(then) = self.then {
            then.finish();
        }
    }
}
