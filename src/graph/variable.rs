//! `Variable`: a value that outlives the step, and the operations that read and set it.

use std::fmt;

use super::error::GraphError;
use super::op::{Op, Replica, VariableSpec};
use super::output::{Output, Target};
use super::state::Name;
use super::variable_part::VariablePart;
use crate::cluster::{DeviceSpec, TaskName};

use super::{Edge, Gradient, Graph, NewOperation, OpId};

/// A variable: a named place on the task that the placer puts it on.
#[derive(Clone)]
pub struct Variable {
    graph: Graph,
    op: OpId,
}

impl Variable {
    pub(crate) fn new(graph: Graph, op: OpId) -> Self {
        Self { graph, op }
    }

    /// The operation that declares it.
    pub fn op_id(&self) -> OpId {
        self.op
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its declaration: type, shape, and the name under which graphs share it.
    pub fn spec(&self) -> VariableSpec {
        self.graph.with_operation(self.op, |operation| match &operation.op {
            Op::Variable(spec) => spec.clone(),
            other => panic!("a variable is declared by a Variable, not a {}", other.kind()),
        })
    }

    /// Its name in the graph.
    pub fn name(&self) -> String {
        self.graph.with_operation(self.op, |operation| operation.name.to_string())
    }

    /// Its part of a partitioned variable, if it is one.
    pub(crate) fn part(&self) -> Option<VariablePart> {
        self.graph.state().parts.get(&self.op).cloned()
    }

    /// The task of its requested device, if the request names a task in full.
    pub fn task(&self) -> Option<TaskName> {
        let device = self.device();
        Some(TaskName::new(device.job()?, device.task()?))
    }

    /// Its requested device.
    pub(crate) fn device(&self) -> DeviceSpec {
        self.graph.with_operation(self.op, |operation| operation.device.clone())
    }

    /// Its value in the step. All readers in a graph share one read, so that the value travels once
    /// to each task.
    pub fn read(&self) -> Output {
        self.graph.output(self.graph.read_of(self.op))
    }

    /// The rows `ids` of an f32 variable (\[ids…, row…\]) in the step. Only these rows are copied
    /// and travel, and the gradient is of them alone (TensorFlow: `ResourceGather`,
    /// `embedding_lookup` of one table).
    ///
    /// A step fails if the variable has no row of an id.
    ///
    /// # Errors
    /// If the ids are not integers, or the variable has no rows of f32.
    #[track_caller]
    pub fn gather(&self, ids: &Output) -> Result<Output, GraphError> {
        self.graph.check_own("ResourceGather", ids)?;
        Ok(self.graph.output(self.add(Op::ResourceGather, &[ids.edge()])?))
    }

    /// The variable's version (i64) at each read for `gradient`, one output a read.
    pub(crate) fn versions(&self, gradient: &Gradient) -> Vec<Output> {
        let parts: Vec<Edge> = gradient.parts().iter().map(|part| part.edge()).collect();
        let gathers = self.graph.gathers_behind(self.op, &parts);
        let versions = gathers.into_iter().map(|op| self.graph.output(op).sibling(1));
        let is_read = matches!(gradient, Gradient::Dense(_));
        let mut versions: Vec<Output> =
            is_read.then(|| self.read().sibling(1)).into_iter().chain(versions).collect();
        if versions.is_empty() {
            versions.push(self.read().sibling(1));
        }
        versions
    }

    /// A read that happens after the control dependencies in scope, apart from the shared one.
    #[track_caller]
    pub fn read_again(&self) -> Output {
        self.graph.output(self.add(Op::ReadVariable, &[]).expect("a variable can be read"))
    }

    /// Gives it `value`.
    ///
    /// # Errors
    /// If the value is of another type.
    #[track_caller]
    pub fn assign(&self, value: &Output) -> Result<Target, GraphError> {
        self.set(Op::Assign, value)
    }

    /// Adds `delta`. The constant 1 added to the graph's global step counts a training step, as an
    /// optimizer's own operation does: an asynchronous one, so that runs of another mode refuse it.
    ///
    /// # Errors
    /// If the delta is of another type, or the type is not one of numbers.
    #[track_caller]
    pub fn assign_add(&self, delta: &Output) -> Result<Target, GraphError> {
        if self.graph.counts_a_step(self, delta) {
            let name = Name::Numbered(Op::AssignAdd.kind());
            let new = NewOperation { name, ..NewOperation::of(Op::NoOp) };
            let end = self.graph.commit_step(Replica::ALONE, (self, &self.read()), new)?;
            return Ok(Target::new(self.graph.clone(), end));
        }
        self.set(Op::AssignAdd, delta)
    }

    /// Whether it has a value yet (bool).
    #[track_caller]
    pub fn is_initialized(&self) -> Output {
        self.graph.output(
            self.add(Op::IsVariableInitialized, &[])
                .expect("a variable can be asked for its state"),
        )
    }

    /// Completes once it has a value.
    #[track_caller]
    pub(super) fn await_value(&self) -> OpId {
        self.add(Op::AwaitVariable, &[]).expect("a variable can be waited for")
    }

    #[track_caller]
    fn set(&self, op: Op, value: &Output) -> Result<Target, GraphError> {
        self.graph.check_own(op.kind(), value)?;
        Ok(Target::new(self.graph.clone(), self.add(op, &[value.edge()])?))
    }

    /// Adds an operation on this variable, on the variable's device.
    #[track_caller]
    fn add(&self, op: Op, inputs: &[Edge]) -> Result<OpId, GraphError> {
        let colocated_with = Some(self.op);
        self.graph.add(NewOperation {
            inputs,
            variables: &[self.op],
            colocated_with,
            ..NewOperation::of(op)
        })
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.spec().tensor_type())
    }
}
