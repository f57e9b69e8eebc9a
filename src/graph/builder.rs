//! `Graph`: what a user builds a graph through.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{GraphError, GraphProblem};
use super::op::{Op, VariableSpec};
use super::output::{Output, Target};
use super::state::{Name, NewOperation, State};
use super::variable::Variable;
use super::{Edge, GraphDef, OpId, Operation, TensorType, prune};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

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
    pub fn placeholder(&self, name: &str, dtype: DType, shape: impl Into<PartialShape>) -> Result<Output, GraphError> {
        let op = Op::Placeholder { dtype, shape: shape.into() };
        Ok(self.output(self.add(NewOperation { name: Name::Exactly(name), ..NewOperation::of(op) })?))
    }

    /// The same value in each step.
    #[track_caller]
    pub fn constant(&self, value: impl Into<Tensor>) -> Output {
        self.add_checked(NewOperation::of(Op::Const(value.into())))
    }

    /// A variable, and the operation that gives it the value of `initializer`.
    ///
    /// # Errors
    /// If the name is taken or illegal, or the shape of `initializer` is not known in full.
    #[track_caller]
    pub fn variable(&self, name: &str, initializer: &Output) -> Result<Variable, GraphError> {
        let new = NewVariable { name, initializer, trainable: true, beside: None };
        self.new_variable(&new)
    }

    /// A variable that no optimizer updates, and the operation that gives it the value of `initializer`.
    ///
    /// # Errors
    /// As [`Graph::variable`].
    #[track_caller]
    pub fn untrainable_variable(&self, name: &str, initializer: &Output) -> Result<Variable, GraphError> {
        let name = &self.scoped_name(name);
        self.new_variable(&NewVariable { name, initializer, trainable: false, beside: None })
    }

    /// The step counter that all workers of a training share: an i64 from 0, not trainable.
    /// Whatever the scopes, its name is `global_step`.
    ///
    /// # Errors
    /// If `global_step` is already something else.
    #[track_caller]
    pub fn global_step(&self) -> Result<Variable, GraphError> {
        let name = "global_step";
        let existing = self.state().variable_of_type(name, TensorType::new(DType::I64, Shape::SCALAR));
        if let Some(op) = existing {
            return Ok(Variable::new(self.clone(), op));
        }
        let zero = NewOperation { is_detached: true, ..NewOperation::of(Op::Const(0i64.into())) };
        let initializer = &self.output(self.add(NewOperation { name: Name::Numbered("global_step/zero"), ..zero })?);
        self.new_variable(&NewVariable { name, initializer, trainable: false, beside: None })
    }

    /// A value that an optimizer keeps beside `variable`: `initial`, a scalar, everywhere, where the variable is.
    /// It is named from the root, and is the one that is there where an optimizer of the kind has been before.
    #[track_caller]
    pub(crate) fn slot_variable(
        &self,
        name: &str,
        shape: Shape,
        initial: impl Into<Tensor>,
        variable: &Variable,
    ) -> Result<Variable, GraphError> {
        let value: Tensor = initial.into();
        if let Some(op) = self.state().variable_of_type(name, TensorType::new(value.dtype(), shape)) {
            return Ok(Variable::new(self.clone(), op));
        }
        let fill = self.add(NewOperation {
            name: Name::Numbered(&format!("{name}/initial")),
            colocated_with: Some(variable.op_id()),
            is_detached: true,
            ..NewOperation::of(Op::Fill { shape, value })
        })?;
        let initializer = &self.output(fill);
        self.new_variable(&NewVariable { name, initializer, trainable: false, beside: Some(variable) })
    }

    #[track_caller]
    fn new_variable(&self, new: &NewVariable<'_>) -> Result<Variable, GraphError> {
        self.check_own("Variable", new.initializer)?;
        let value = new.initializer.tensor_type();
        let Some(shape) = value.shape.known() else {
            let needs = "an initializer whose shape is known".to_owned();
            let operation = format!("{} (Variable)", new.name);
            return Err(GraphError::new(operation, GraphProblem::Inputs { needs, inputs: vec![value] }));
        };
        let container = new.beside.map_or_else(|| self.state().container.clone(), |variable| variable.spec().container);
        let shared_name = if new.trainable { self.scoped_name(new.name) } else { new.name.to_owned() }.into();
        let spec = VariableSpec { shared_name, container, dtype: value.dtype, shape, trainable: new.trainable };
        let variable = self.add(NewOperation {
            name: Name::Exactly(new.name),
            colocated_with: new.beside.map(Variable::op_id),
            is_detached: !new.trainable,
            ..NewOperation::of(Op::Variable(spec.clone()))
        })?;
        let assign = self.add(NewOperation {
            name: Name::Numbered(&format!("{}/Assign", spec.shared_name)),
            inputs: &[new.initializer.edge()],
            variables: &[variable],
            colocated_with: Some(variable),
            is_detached: true,
            ..NewOperation::of(Op::Assign)
        })?;
        self.state().initializers.push(assign);
        Ok(Variable::new(self.clone(), variable))
    }

    /// Gives every variable its first value (TensorFlow: `global_variables_initializer`).
    #[track_caller]
    pub fn initializer(&self) -> Target {
        let initializers = self.state().initializers.clone();
        self.group_ids("init", &initializers).expect("a legal name in any scope")
    }

    /// The variables, each with the operation that gives it its first value.
    pub fn initializers(&self) -> Vec<(Variable, Target)> {
        let state = self.state();
        let variable = |assign: &OpId| state.def.operation(*assign).variables[0];
        let pair = |assign| (Variable::new(self.clone(), variable(assign)), Target::new(self.clone(), *assign));
        state.initializers.iter().map(pair).collect()
    }

    /// Completes once every variable has a value, however long that takes: how a worker learns at
    /// once that the chief has initialised the model, where TensorFlow's asks every 30 seconds
    /// (`SessionManager.wait_for_session`).
    #[track_caller]
    pub fn await_initialization(&self) -> Target {
        let awaited: Vec<OpId> = self.variables().iter().map(Variable::await_value).collect();
        self.group_ids("await_initialization", &awaited).expect("a legal name in any scope")
    }

    /// An operation that runs all of `targets` (TensorFlow: `tf.group`). Its name is numbered where it is taken.
    ///
    /// # Errors
    /// If the name is illegal, or a target belongs to another graph.
    #[track_caller]
    pub fn group(&self, name: &str, targets: &[&Target]) -> Result<Target, GraphError> {
        self.group_ids(name, &self.ids_of(name, targets)?)
    }

    #[track_caller]
    fn group_ids(&self, name: &str, control_inputs: &[OpId]) -> Result<Target, GraphError> {
        let name = Name::Numbered(name);
        let group = self.add(NewOperation { name, control_inputs, ..NewOperation::of(Op::NoOp) })?;
        Ok(Target::new(self.clone(), group))
    }

    /// The operations that are to run before `operation`.
    #[track_caller]
    pub(super) fn ids_of(&self, operation: &str, targets: &[&Target]) -> Result<Vec<OpId>, GraphError> {
        let own = |target: &&&Target| target.graph().same_as(self);
        match targets.iter().find(|target| !own(target)) {
            None => Ok(targets.iter().map(|target| target.op_id()).collect()),
            Some(foreign) => Err(GraphError::new(operation, GraphProblem::OtherGraph(foreign.name()))),
        }
    }

    /// All variables, in the order they were built.
    pub fn variables(&self) -> Vec<Variable> {
        let state = self.state();
        let ids = state.def.iter().filter(|(_, operation)| matches!(operation.op, Op::Variable(_)));
        ids.map(|(id, _)| Variable::new(self.clone(), id)).collect()
    }

    /// The variables that an optimizer updates, in the order they were built.
    pub fn trainable_variables(&self) -> Vec<Variable> {
        self.variables().into_iter().filter(|variable| variable.spec().trainable).collect()
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
                self.state().deferred.get_or_insert(error);
                Output::new(self.clone(), edge)
            }
            (Err(error), None) => panic!("an operation without inputs or a name can't be wrong: {error}"),
        }
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
            matches!(operation.op, Op::ResourceGather) && operation.variables.first() == Some(&variable)
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
    pub(crate) fn check_own_variable(&self, operation: &str, variable: &Variable) -> Result<(), GraphError> {
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

    pub(super) fn with_operation<T>(&self, id: OpId, look: impl FnOnce(&Operation) -> T) -> T {
        look(self.state().def.operation(id))
    }

    /// A device function of the user's may panic while the graph is locked, but nothing has changed by then.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A variable to be added.
struct NewVariable<'a> {
    name: &'a str,
    initializer: &'a Output,
    /// What is not, keeps the books of a training: it is named from the root, whatever the scopes.
    trainable: bool,
    /// The variable it belongs to, on whose device and in whose container it is.
    beside: Option<&'a Variable>,
}
