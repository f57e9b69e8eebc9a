//! The positions of a task's inputs in a graph: a variable each, beside the global step, which
//! every training step sets as it is counted. So a checkpoint has those of all workers.

use std::cell::Cell;
use std::rc::Rc;

use crate::checkpoint::{POSITIONS, own_name};
use crate::graph::{Graph, GraphError, Output, Variable};
use crate::runtime::Result;
use crate::tensor::Tensor;

use super::input::Position;
use super::session::{RequestedStep, Session};
use super::task::Task;

/// The positions of the inputs whose elements a graph's training steps take.
#[derive(Default)]
pub(super) struct Positions {
    list: Vec<Known>,
    /// Whether the inputs are where the cluster says.
    are_found: Cell<bool>,
}

struct Known {
    input: Rc<dyn Position>,
    /// The value that a step sets the variable to.
    value: Output,
    read: Output,
}

impl Positions {
    /// Adds what reads the positions to `graph`.
    pub(super) fn new(task: &Task, graph: &Graph) -> Self {
        let known = |(input, (variable, value)): (Rc<dyn Position>, (Variable, Output))| Known {
            input,
            value,
            read: variable.read_again(),
        };
        let list: Vec<Known> =
            task.inputs().into_iter().zip(graph.counted_with()).map(known).collect();
        Self { are_found: Cell::new(list.is_empty()), list }
    }

    /// Whether [`Self::find`] has succeeded since the training last went back, or has nothing to
    /// do.
    pub(super) fn are_found(&self) -> bool {
        self.are_found.get()
    }

    /// The training has gone back to a checkpoint.
    pub(super) fn go_back(&self) {
        self.are_found.set(self.list.is_empty());
    }

    /// Feeds a training step the positions after it.
    pub(super) fn feed(&self, step: &mut RequestedStep) {
        for known in &self.list {
            step.feed(&known.value, Tensor::from(known.input.taken() as i64));
        }
    }

    /// Moves the inputs to where the cluster's variables say that their worker was, in a training
    /// that is at `global_step`. Where rounds are of all workers, the step decides: a worker that
    /// was lost in a round is needed in the same one again, with the same element. A position that
    /// no step has set is that of the step, too: the checkpoint was written without it.
    pub(super) async fn find(
        &self,
        task: &Task,
        session: &Session,
        global_step: u64,
    ) -> Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        let by_step = task.steps_of_this_worker(global_step);
        let run = self.list.iter().fold(session.run(), |run, known| run.fetch(&known.read));
        let found = run.await?;
        for (index, known) in self.list.iter().enumerate() {
            let saved = u64::try_from(found.scalar::<i64>(index)?).unwrap_or(0);
            let is_known = saved > 0 && !task.has_barrier();
            known.input.seek(if is_known { saved } else { by_step });
        }
        self.are_found.set(true);
        Ok(())
    }
}

impl Task {
    /// Has the training steps that are built in `graph` from now on count the task's inputs, if
    /// they do not yet. The chief's graph has the positions of all workers, to initialise and to
    /// save them.
    #[track_caller]
    pub(super) fn count_inputs(&self, graph: &Graph) -> Result<(), GraphError> {
        let Some(replica) = self.replica().filter(|_| graph.counted_with().is_empty()) else {
            return Ok(());
        };
        for input in self.inputs() {
            for worker in 0..replica.workers {
                if worker != replica.worker && !self.is_chief() {
                    continue;
                }
                let name = own_name(&format!("{POSITIONS}{}", input.name()), worker);
                graph.input_position(&name, worker == replica.worker)?;
            }
        }
        Ok(())
    }
}
