//! Fences: operations by which a worker stops all others between two steps, and lets them go on.

use super::builder::Graph;
use super::error::GraphError;
use super::op::{Op, Replica};
use super::output::Target;
use super::state::{Name, NewOperation};

impl Graph {
    /// Puts up a fence for `replica`: completes once every other worker of the training is between
    /// two steps, where it stays until the fence is lifted. What is read meanwhile is of the same
    /// whole steps, on all parameter servers. (TensorFlow has none: a checkpoint of an asynchronous
    /// training is of parts of steps.)
    ///
    /// For a worker whose last step has succeeded. The fence is lifted too where the worker leaves,
    /// is lost, or takes another step. The operation is the same one each time that it is asked
    /// for.
    ///
    /// # Errors
    /// If its name is something else's.
    #[track_caller]
    pub fn fence(&self, replica: Replica) -> Result<Target, GraphError> {
        self.at_global_step(&format!("fence/worker_{}", replica.worker), Op::Fence(replica))
    }

    /// Lifts the fence of `replica`. Fails with [`Code::Aborted`](crate::runtime::Code::Aborted)
    /// where that was lifted before: then what was read behind it may be of different steps. Asked
    /// for as [`Graph::fence`].
    ///
    /// # Errors
    /// If its name is something else's.
    #[track_caller]
    pub fn lift_fence(&self, replica: Replica) -> Result<Target, GraphError> {
        self.at_global_step(
            &format!("lift_fence/worker_{}", replica.worker),
            Op::LiftFence(replica),
        )
    }

    /// The operation called `name`, which runs where the global step is.
    #[track_caller]
    fn at_global_step(&self, name: &str, op: Op) -> Result<Target, GraphError> {
        let existing = self.operation(name);
        if let Some(existing) = existing
            && self.with_operation(existing.op_id(), |operation| operation.op == op)
        {
            return Ok(existing);
        }
        let global_step = self.global_step()?.op_id();
        let new = NewOperation {
            name: Name::Exactly(name),
            variables: &[global_step],
            colocated_with: Some(global_step),
            is_detached: true,
            ..NewOperation::of(op)
        };
        Ok(Target::new(self.clone(), self.add(new)?))
    }
}
