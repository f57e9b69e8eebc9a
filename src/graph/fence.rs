//! Operations by which a worker stops all others between two steps and lets them go on (a fence),
//! or waits until they have left.

use super::builder::Graph;
use super::error::GraphError;
use super::op::{Op, Replica};
use super::output::Target;
use super::state::{Name, NewOperation};

impl Graph {
    /// Puts up a fence for `replica`. It completes once every other worker of the training is
    /// between two steps, where each stays until the fence is lifted. Values that are read
    /// meanwhile, on all parameter servers, are of the same whole steps. (TensorFlow has no fence:
    /// its checkpoint of an asynchronous training mixes parts of steps.)
    ///
    /// The worker's last step must have succeeded. The fence is also lifted if the worker leaves,
    /// is lost, or takes another step. Every call returns the same operation.
    ///
    /// # Errors
    /// If its name belongs to something else.
    #[track_caller]
    pub fn fence(&self, replica: Replica) -> Result<Target, GraphError> {
        self.at_global_step(&format!("fence/worker_{}", replica.worker), Op::Fence(replica))
    }

    /// Lifts the fence of `replica`. Fails with [`Code::Aborted`](crate::runtime::Code::Aborted) if
    /// the fence was lifted before: the values read behind it may then be of different steps. Every
    /// call returns the same operation, as with [`Graph::fence`].
    ///
    /// # Errors
    /// If its name belongs to something else.
    #[track_caller]
    pub fn lift_fence(&self, replica: Replica) -> Result<Target, GraphError> {
        self.at_global_step(
            &format!("lift_fence/worker_{}", replica.worker),
            Op::LiftFence(replica),
        )
    }

    /// Waits until every other worker that trains has left the training of `replica`, or is lost.
    /// It holds nobody: `replica` takes no more steps, and where each step counts by itself no
    /// worker waits for it from then on. Every call returns the same operation.
    ///
    /// # Errors
    /// If its name belongs to something else.
    #[track_caller]
    pub(crate) fn await_departures(&self, replica: Replica) -> Result<Target, GraphError> {
        let name = format!("await_departures/worker_{}", replica.worker);
        self.at_global_step(&name, Op::AwaitDepartures(replica))
    }

    /// The operation called `name`, which runs on the device of the global step.
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
