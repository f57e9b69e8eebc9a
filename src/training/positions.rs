//! The positions of a task's inputs in a graph: a variable each, beside the global step, which
//! every training step sets as it is counted. So a checkpoint has those of all workers.
//!
//! Where rounds are of all workers, one variable more has the number of the worker's step that has
//! set them: the first worker whose step ends counts the round, so that the others' positions can
//! be those of the round before the global step.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::checkpoint::{POSITIONS, own_name};
use crate::graph::{Graph, GraphError, Output, Variable};
use crate::runtime::{Code, Error, Result};
use crate::tensor::Tensor;

use super::input::Position;
use super::session::{RequestedStep, Session};
use super::task::Task;

/// The variable of a step's number has this in its name, in place of an input's name.
const STEP: &str = ".step";

/// The positions of the inputs whose elements a graph's training steps take.
#[derive(Default)]
pub(super) struct Positions {
    list: Vec<Known>,
    /// The worker's step that has set the positions, in rounds of all workers.
    step: Option<Counted>,
    /// The number of the worker's steps that have ended, in such rounds.
    steps: Cell<u64>,
    /// Whether the inputs are where the cluster says.
    are_found: Cell<bool>,
}

struct Known {
    input: Rc<dyn Position>,
    counted: Counted,
}

/// A variable that the training steps set.
struct Counted {
    /// The value that a step sets the variable to.
    value: Output,
    read: Output,
}

impl Positions {
    /// Adds what reads the positions to `graph`.
    pub(super) fn new(task: &Task, graph: &Graph) -> Self {
        let Some(replica) = task.replica() else {
            return Self { are_found: Cell::new(true), ..Self::default() };
        };
        let all = graph.counted_with();
        let of = |name: &str| {
            let name = variable_of(name, replica.worker);
            let (variable, value) = all.iter().find(|(variable, _)| variable.name() == name)?;
            Some(Counted { value: value.clone(), read: variable.read_again() })
        };
        let known =
            |input: Rc<dyn Position>| of(input.name()).map(|counted| Known { counted, input });
        let list: Vec<Known> = task.inputs().into_iter().filter_map(known).collect();
        let step = of(STEP);
        let (steps, are_found) = (Cell::default(), Cell::new(list.is_empty()));
        Self { list, step, steps, are_found }
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
        for Known { input, counted } in &self.list {
            step.feed(&counted.value, Tensor::from(input.taken() as i64));
        }
        if let Some(counted) = &self.step {
            step.feed(&counted.value, Tensor::from(self.steps.get() as i64 + 1));
        }
    }

    /// Counts a training step, after which the global step is `global_step`.
    pub(super) fn count(&self, task: &Task, global_step: u64) {
        // A round that others have yet to count is not in the global step. Rounds that were made
        // without this worker are.
        self.steps.set(task.steps_of_this_worker(global_step).max(self.steps.get() + 1));
    }

    /// Moves the inputs to where the cluster's variables say that their worker was, in a training
    /// that is at `global_step`. Where rounds are of all workers, that is the position of the round
    /// after `global_step`: a worker that was lost in a round is needed in the same one again, with
    /// the same element.
    pub(super) async fn find(
        &self,
        task: &Task,
        session: &Session,
        global_step: u64,
    ) -> Result<()> {
        // Where others take the steps, the chief's session finds them.
        if self.list.is_empty() || task.has_executor() {
            return Ok(());
        }
        let by_step = task.steps_of_this_worker(global_step);
        let counted = self.list.iter().map(|known| &known.counted).chain(&self.step);
        let found = counted.fold(session.run(), |run, counted| run.fetch(&counted.read)).await?;
        let number =
            |index| -> Result<u64> { Ok(u64::try_from(found.scalar::<i64>(index)?).unwrap_or(0)) };
        let of_step = self.step.as_ref().map(|_| number(self.list.len())).transpose()?;
        for (index, known) in self.list.iter().enumerate() {
            known.input.seek(position(number(index)?, of_step, by_step));
        }
        self.steps.set(by_step);
        self.are_found.set(true);
        Ok(())
    }
}

/// The position at which a worker goes on. It has taken `by_step` steps if all workers are equally
/// fast, and its variable has `saved`. In rounds of all workers, `of_step` is the number of its
/// step that has set the variable; later steps are assumed to take as many elements on average.
///
/// A position that no step has set is that of the step: the checkpoint was written without it.
fn position(saved: u64, of_step: Option<u64>, by_step: u64) -> u64 {
    match of_step {
        None if saved > 0 => saved,
        Some(of_step) if of_step > 0 => {
            let position = u128::from(saved) * u128::from(by_step) / u128::from(of_step);
            u64::try_from(position).unwrap_or(u64::MAX)
        }
        _ => by_step,
    }
}

/// The name of the variable with `worker`'s position in the input `name`.
fn variable_of(name: &str, worker: u32) -> String {
    own_name(&format!("{POSITIONS}{name}"), worker)
}

impl Task {
    /// Has the training steps that are built in `graph` from now on count the elements of the
    /// inputs that the task has made, if they do not yet: their positions are in its checkpoints
    /// then. [`Task::minimize`] and its like do so by themselves. A program calls it before what
    /// knows nothing of the task builds its training operation, such as
    /// [`training_graph`](crate::import::training_graph) or an optimizer's own `minimize`.
    ///
    /// A step of [`SyncReplicas`](crate::optimizer::SyncReplicas) is counted by another operation
    /// than the worker's, so that after a restore each input goes on at the element of the step.
    ///
    /// # Errors
    /// If the name of a position belongs to something else.
    // The chief's graph has the positions of all workers, to initialise and to save them.
    #[track_caller]
    pub fn count_inputs(&self, graph: &Graph) -> Result<(), GraphError> {
        let (inputs, Some(replica)) = (self.inputs(), self.replica()) else { return Ok(()) };
        let step = (self.has_barrier() && !inputs.is_empty()).then_some(STEP);
        for name in inputs.iter().map(|input| input.name()).chain(step) {
            if graph.operation(&variable_of(name, replica.worker)).is_some() {
                continue;
            }
            for worker in 0..replica.workers {
                if worker == replica.worker || self.is_chief() {
                    let name = variable_of(name, worker);
                    graph.input_position(&name, worker == replica.worker)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the training steps of `graph` count all inputs, before checkpoints are written
    /// that would lack the positions of some.
    ///
    /// # Errors
    /// If there are steps, and an input that they do not count, or two inputs of one name.
    pub(super) fn check_inputs(&self, graph: &Graph) -> Result<()> {
        let Some(replica) = self.replica().filter(|_| graph.shared_replica().is_some()) else {
            return Ok(());
        };
        let refused =
            |message: String| Err(Error::new(Code::InvalidArgument, message).on(self.name()));
        let (inputs, counted) = (self.inputs(), graph.counted_with());
        let mut names = BTreeSet::new();
        for input in &inputs {
            let name = input.name();
            if !names.insert(name) {
                return refused(format!(
                    "two inputs are called `{name}`, and a checkpoint has one position of that \
                     name; give each a name of its own"
                ));
            }
            let variable = variable_of(name, replica.worker);
            let is_its = |known: &&(Variable, Output)| known.0.name() == variable;
            if !counted.iter().find(is_its).is_some_and(|(_, value)| graph.is_used(value)) {
                return refused(format!(
                    "the input `{name}` would not be in the checkpoints: the training operation \
                     does not count its elements; make the input before `Task::minimize`, or \
                     call `Task::count_inputs` before anything else builds the training operation"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_round_follows_from_that_of_the_round_that_a_worker_has_ended() {
        for elements_a_step in [0, 1, 2, 7] {
            for of_step in 1..20 {
                for round in [of_step - 1, of_step, of_step + 1, of_step + 10] {
                    let saved = elements_a_step * of_step;
                    let found = position(saved, Some(of_step), round);
                    assert_eq!(found, elements_a_step * round, "after {of_step} for {round}");
                }
            }
        }
        assert_eq!(position(10, Some(20), 20), 10, "an element every second step");
        assert_eq!(position(u64::MAX, Some(1), 2), u64::MAX);
    }

    #[test]
    fn a_position_is_as_saved_where_workers_are_free_and_that_of_the_step_where_none_is() {
        assert_eq!(position(7, None, 20), 7);
        assert_eq!([position(0, None, 20), position(0, Some(0), 20)], [20, 20]);
        assert_eq!(position(7, Some(0), 20), 20, "saved by an earlier version");
    }
}
