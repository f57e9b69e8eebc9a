//! Writes each step of a run to a board.

use std::sync::Arc;

use super::Board;
use crate::cluster::TaskName;
use crate::training::{Evaluation, FailedCheckpoint, Restore, StepStats, Watch};
use crate::units::Time;

/// Writes each step of a run to a board.
pub(crate) struct Meter {
    board: Arc<Board>,
    batch: u64,
    /// The task whose steps these are, if it is the only one in this process.
    task: Option<TaskName>,
}

impl Meter {
    /// A meter of a run whose batches are of `batch` samples.
    pub(crate) fn new(board: Arc<Board>, batch: usize) -> Self {
        Self { board, batch: batch as u64, task: None }
    }

    /// The same, of the steps of `task` alone.
    pub(crate) fn of_task(self, task: TaskName) -> Self {
        Self { task: Some(task), ..self }
    }
}

impl Watch for Meter {
    fn step(&mut self, step: &StepStats) {
        self.board.count(step, self.batch, self.task.as_ref());
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        self.board.evaluate(evaluation, self.task.as_ref());
    }

    fn restored(&mut self, restore: &Restore) {
        self.board.restore(restore.global_step, self.task.as_ref());
    }

    fn saved(&mut self, global_step: u64, at: Time) {
        if let Some(task) = &self.task {
            self.board.save(task, (global_step, at));
        }
    }

    fn not_saved(&mut self, _: &FailedCheckpoint) {
        if let Some(task) = &self.task {
            self.board.count_failed_save(task);
        }
    }
}
