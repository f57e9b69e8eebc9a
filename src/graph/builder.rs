//! `Graph`: what a user builds a graph through.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{GraphError, GraphProblem};
use super::op::Op;
use super::output::{Output, Target};
use super::state::{Name, NewOperation, State};
use super::variable::Variable;
use super::{Edge, GraphDef, OpId, Operation, TensorType, prune};
use crate::tensor::{DType, PartialShape, Tensor};

/// A graph under construction. Cloning it gives another handle to the same graph.
#[derive(Clone, Default)]
pub struct Graph {
    state: Arc<Mutex<State>>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether two handles are of one graph.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Seeds the random operations that are added from now on.
    pub fn set_random_seed(&self, seed: u64) {
        self.state().random_seed = seed;
    }

    pub(crate) fn random_seed(&self) -> u64 {
        self.state().random_seed
    }

    /// A value that each step is fed. Write `None` for a dimension that only the step knows.
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

    /// An operation that runs all of `targets` (TensorFlow: `tf.group`). Its name is numbered where
    /// it is taken.
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

    /// The operations that are to run before `operation`.
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

    /// The first mistake made by a method that returns no `Result`, where there was one.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        self.state().deferred.clone().map_or(Ok(()), Err)
    }

    /// The graph as a value.
    ///
    /// # Errors
    /// The first mistake made by a method that returns no `Result`.
    pub fn snapshot(&self) -> Result<GraphDef, GraphError> {
        let state = self.state();
        state.deferred.clone().map_or_else(|| Ok(state.def.clone()), Err)
    }

    /// How many operations there are: grows with each that is added.
    pub(crate) fn len(&self) -> usize {
        self.state().def.operations.len()
    }

    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Option<Target> {
        let id = self.state().by_name.get(name).copied()?;
        Some(Target::new(self.clone(), id))
    }

    /// Adds an operation.
    pub(crate) fn add(&self, new: NewOperation<'_>) -> Result<OpId, GraphError> {
        self.state().add(new)
    }

    /// Adds an operation of one output through a method that returns no `Result`: a mistake is kept
    /// until [`Graph::snapshot`], and the output passes for that of the first input.
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

    /// Keeps the first mistake until a session takes the graph.
    pub(super) fn defer(&self, error: GraphError) {
        self.state().deferred.get_or_insert(error);
    }

    /// The read of `variable` that all its readers share.
    pub(super) fn read_of(&self, variable: OpId) -> OpId {
        let mut state = self.state();
        if let Some(read) = state.reads.get(&variable) {
            return *read;
        }
        let Operation { name, built_at, .. } = state.def.operation(variable);
        let (name, built_at) = (format!("{name}/read"), *built_at);
        let new = NewOperation {
            name: Name::Numbered(&name),
            variables: &[variable],
            colocated_with: Some(variable),
            is_detached: true,
            built_at,
            ..NewOperation::of(Op::ReadVariable)
        };
        let read = state.add(new).expect("a variable can be read");
        state.reads.insert(variable, read);
        read
    }

    /// The operations that gather rows of `variable` for the values `edges`.
    pub(super) fn gathers_behind(&self, variable: OpId, edges: &[Edge]) -> Vec<OpId> {
        let state = self.state();
        let gathers = |id: &OpId| {
            let operation = state.def.operation(*id);
            matches!(operation.op, Op::ResourceGather)
                && operation.variables.first() == Some(&variable)
        };
        prune(&state.def, &BTreeSet::new(), edges, &[]).into_iter().filter(gathers).collect()
    }

    /// Refuses `input` to `operation` where it belongs to another graph.
    #[track_caller]
    pub(crate) fn check_own(&self, operation: &str, input: &Output) -> Result<(), GraphError> {
        if self.same_as(input.graph()) {
            return Ok(());
        }
        Err(GraphError::new(operation, GraphProblem::OtherGraph(input.name())))
    }

    /// Refuses `variable` to `operation` where it belongs to another graph.
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

    pub(super) fn tensor_type(&self, edge: Edge) -> TensorType {
        self.state().def.edge_type(edge)
    }

    pub(crate) fn with_operation<T>(&self, id: OpId, look: impl FnOnce(&Operation) -> T) -> T {
        look(self.state().def.operation(id))
    }

    /// A device function of the user's may panic while the graph is locked, but nothing has changed
    /// by then.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
