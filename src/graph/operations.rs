//! Operations that a graph is built from: placeholders, constants and groups, and the checks that
//! their inputs are of the graph.

use std::collections::BTreeSet;

use super::builder::Graph;
use super::error::{GraphError, GraphProblem};
use super::op::Op;
use super::output::{Output, Target};
use super::state::{Name, NewOperation};
use super::variable::Variable;
use super::{Edge, OpId, prune};
use crate::tensor::{DType, PartialShape, Tensor};

impl Graph {
    /// A value that each step is fed. `None` stands for a dimension that only the step knows.
    ///
    /// # Errors
    /// If the name is taken or illegal.
    #[track_caller]
    pub fn placeholder(
        &self,
        name: &str,
        dtype: DType,
        shape: impl Into<PartialShape>,
    ) -> Result<Output, GraphError> {
        let op = Op::Placeholder { dtype, shape: shape.into() };
        Ok(self
            .output(self.add(NewOperation { name: Name::Exactly(name), ..NewOperation::of(op) })?))
    }

    /// The same value in each step.
    #[track_caller]
    pub fn constant(&self, value: impl Into<Tensor>) -> Output {
        self.add_checked(NewOperation::of(Op::Const(value.into())))
    }

    /// An operation that runs all of `targets` (TensorFlow: `tf.group`). The name is numbered if it
    /// is taken.
    ///
    /// # Errors
    /// If the name is illegal, or a target belongs to another graph.
    #[track_caller]
    pub fn group(&self, name: &str, targets: &[&Target]) -> Result<Target, GraphError> {
        self.group_ids(name, &self.ids_of(name, targets)?)
    }

    #[track_caller]
    pub(super) fn group_ids(
        &self,
        name: &str,
        control_inputs: &[OpId],
    ) -> Result<Target, GraphError> {
        let name = Name::Numbered(name);
        let group =
            self.add(NewOperation { name, control_inputs, ..NewOperation::of(Op::NoOp) })?;
        Ok(Target::new(self.clone(), group))
    }

    /// The ids of `targets`, for the operation `operation` that they are to run before.
    #[track_caller]
    pub(super) fn ids_of(
        &self,
        operation: &str,
        targets: &[&Target],
    ) -> Result<Vec<OpId>, GraphError> {
        let own = |target: &&&Target| target.graph().same_as(self);
        match targets.iter().find(|target| !own(target)) {
            None => Ok(targets.iter().map(|target| target.op_id()).collect()),
            Some(foreign) => {
                Err(GraphError::new(operation, GraphProblem::OtherGraph(foreign.name())))
            }
        }
    }

    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Option<Target> {
        let id = self.state().by_name.get(name).copied()?;
        Some(Target::new(self.clone(), id))
    }

    /// Adds an operation of one output for a method that returns no `Result`. A mistake is kept
    /// until [`Graph::snapshot`], and the first input is returned in place of the output.
    pub(crate) fn add_checked(&self, new: NewOperation<'_>) -> Output {
        let stand_in = new.inputs.first().copied();
        let added = self.add(new);
        match (added, stand_in) {
            (Ok(op), _) => self.output(op),
            (Err(error), Some(edge)) => {
                self.defer(error);
                Output::new(self.clone(), edge)
            }
            (Err(error), None) => {
                panic!("an operation without inputs or a name can't be wrong: {error}")
            }
        }
    }

    /// The operations that gather the rows of `variable` that `edges` are computed from.
    pub(super) fn gathers_behind(&self, variable: OpId, edges: &[Edge]) -> Vec<OpId> {
        let state = self.state();
        let gathers = |id: &OpId| {
            let operation = state.def.operation(*id);
            matches!(operation.op, Op::ResourceGather)
                && operation.variables.first() == Some(&variable)
        };
        prune(&state.def, &BTreeSet::new(), edges, &[]).into_iter().filter(gathers).collect()
    }

    /// Refuses `input` to `operation` if it belongs to another graph.
    #[track_caller]
    pub(crate) fn check_own(&self, operation: &str, input: &Output) -> Result<(), GraphError> {
        if self.same_as(input.graph()) {
            return Ok(());
        }
        Err(GraphError::new(operation, GraphProblem::OtherGraph(input.name())))
    }

    /// Refuses `variable` to `operation` if it belongs to another graph.
    #[track_caller]
    pub(crate) fn check_own_variable(
        &self,
        operation: &str,
        variable: &Variable,
    ) -> Result<(), GraphError> {
        if self.same_as(variable.graph()) {
            return Ok(());
        }
        Err(GraphError::new(operation, GraphProblem::OtherGraph(variable.name())))
    }

    pub(crate) fn output(&self, op: OpId) -> Output {
        Output::new(self.clone(), Edge { op, output: 0 })
    }
}
