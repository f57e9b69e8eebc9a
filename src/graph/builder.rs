//! `Graph`: what a user builds a graph through.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

use super::device_scope::{DeviceFunction, DeviceScope};
use super::error::{GraphError, GraphProblem};
use super::op::{Op, VariableSpec};
use super::output::{Output, Target};
use super::state::{NewOperation, State};
use super::variable::Variable;
use super::{Edge, GraphDef, OpId, Operation, TensorType};
use crate::cluster::DeviceSpec;
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The container of variables that name none (TensorFlow's default is the empty name, too).
const DEFAULT_CONTAINER: &str = "";

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

    pub(super) fn random_seed(&self) -> u64 {
        self.state().random_seed
    }

    /// A value that each step is fed. Write `None` for a dimension that only the step knows.
    ///
    /// # Errors
    /// If the name is taken or illegal.
    #[track_caller]
    pub fn placeholder(&self, name: &str, dtype: DType, shape: impl Into<PartialShape>) -> Result<Output, GraphError> {
        let op = Op::Placeholder { dtype, shape: shape.into() };
        Ok(self.output(self.add(NewOperation { name: Some(name), ..NewOperation::of(op) })?))
    }

    /// The same value in each step.
    #[track_caller]
    pub fn constant(&self, value: impl Into<Tensor>) -> Output {
        self.add_checked(NewOperation::of(Op::Const(value.into())))
    }

    /// A variable, and the operation that gives it the value of `initializer`.
    ///
    /// # Errors
    /// If the name is taken or illegal, or `initializer` is of another type.
    #[track_caller]
    pub fn variable(&self, name: &str, initializer: &Output) -> Result<Variable, GraphError> {
        self.new_variable(name, initializer, true, None)
    }

    /// The step counter that all workers of a training share: an i64 from 0, not trainable.
    ///
    /// # Errors
    /// If `global_step` is already something else.
    #[track_caller]
    pub fn global_step(&self) -> Result<Variable, GraphError> {
        let existing = self.state().by_name.get("global_step").copied();
        match existing {
            Some(op) => Ok(Variable::new(self.clone(), op)),
            None => self.new_variable("global_step", &self.constant(0i64), false, None),
        }
    }

    #[track_caller]
    fn new_variable(
        &self,
        name: &str,
        initializer: &Output,
        trainable: bool,
        colocated_with: Option<OpId>,
    ) -> Result<Variable, GraphError> {
        let value = initializer.tensor_type();
        let Some(shape) = value.shape.known() else {
            let needs = "an initializer whose shape is known".to_owned();
            return Err(self.error(name, "Variable", GraphProblem::Inputs { needs, inputs: vec![value] }));
        };
        let (shared_name, container) = (self.scoped_name(name).into(), self.container());
        let spec = VariableSpec { shared_name, container, dtype: value.dtype, shape, trainable };
        let new = NewOperation { name: Some(name), colocated_with, ..NewOperation::of(Op::Variable(spec)) };
        let variable = Variable::new(self.clone(), self.add(new)?);
        let assign = variable.assign(initializer)?;
        self.state().initializers.push(assign.op_id());
        Ok(variable)
    }

    /// A value that an optimizer keeps beside `variable`: f32, `initial` everywhere, where the variable is.
    #[track_caller]
    pub(crate) fn slot_variable(
        &self,
        name: &str,
        shape: Shape,
        initial: f32,
        variable: &Variable,
    ) -> Result<Variable, GraphError> {
        let beside = Some(variable.op_id());
        let fill = Op::Fill { shape, value: initial };
        let initializer = self.output(self.add(NewOperation { colocated_with: beside, ..NewOperation::of(fill) })?);
        self.new_variable(name, &initializer, false, beside)
    }

    /// Gives every variable its first value (TensorFlow: `global_variables_initializer`).
    #[track_caller]
    pub fn initializer(&self) -> Target {
        let initializers = self.state().initializers.clone();
        self.group_ids("init", &initializers)
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
        self.group_ids("await_initialization", &awaited)
    }

    /// An operation that runs all of `targets` (TensorFlow: `tf.group`).
    #[track_caller]
    pub fn group(&self, name: &str, targets: &[&Target]) -> Target {
        let ids: Vec<OpId> = targets.iter().map(|target| target.op_id()).collect();
        self.group_ids(name, &ids)
    }

    #[track_caller]
    fn group_ids(&self, name: &str, control_inputs: &[OpId]) -> Target {
        let name = self.state().unique(name);
        let new = NewOperation { name: Some(&name), control_inputs, ..NewOperation::of(Op::NoOp) };
        Target::new(self.clone(), self.add(new).expect("a group of a fresh name fits any graph"))
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

    /// Builds with `device`, a partial device name, wherever a scope inside leaves a part open.
    /// The empty name asks for nothing; see [`Graph::without_device`] to forget outer scopes.
    ///
    /// # Errors
    /// If the name is malformed, and what `build` returns.
    #[track_caller]
    pub fn with_device<T, E: From<GraphError>>(
        &self,
        device: &str,
        build: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let spec = device.parse::<DeviceSpec>();
        let spec = spec.map_err(|error| self.error(device, "device scope", GraphProblem::Device(error.to_string())))?;
        self.in_device_scope(DeviceScope::Spec(spec), build)
    }

    /// Builds with `function` asked for each operation's device.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_device_fn<T, E>(
        &self,
        function: impl DeviceFunction + 'static,
        build: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.in_device_scope(DeviceScope::Function(Arc::new(function)), build)
    }

    /// Builds as if no device scope were around (TensorFlow: `tf.device(None)`).
    ///
    /// # Errors
    /// What `build` returns.
    pub fn without_device<T, E>(&self, build: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        self.in_device_scope(DeviceScope::Reset, build)
    }

    fn in_device_scope<T, E>(&self, scope: DeviceScope, build: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        self.state().device_scopes.push(scope);
        let built = build(self);
        self.state().device_scopes.pop();
        built
    }

    /// Builds with names below `name/`.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_name_scope<T, E>(&self, name: &str, build: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        let unique = self.state().unique_scope(name);
        self.state().name_scopes.push(unique);
        let built = build(self);
        self.state().name_scopes.pop();
        built
    }

    /// Builds operations that run only after all of `targets`.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_control_dependencies<T, E>(
        &self,
        targets: &[&Target],
        build: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let outer = self.state().controls.len();
        self.state().controls.extend(targets.iter().map(|target| target.op_id()));
        let built = build(self);
        self.state().controls.truncate(outer);
        built
    }

    /// Builds variables in the namespace `container`, which a session's reset clears as one.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_container<T, E>(&self, container: &str, build: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        let outer = self.state().container.replace(container.into());
        let built = build(self);
        self.state().container = outer;
        built
    }

    /// `name` below the name scope in force.
    pub(super) fn scoped_name(&self, name: &str) -> String {
        self.state().scoped(name)
    }

    fn container(&self) -> Arc<str> {
        self.state().container.clone().unwrap_or_else(|| DEFAULT_CONTAINER.into())
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
        let mut state = self.state();
        state.add(new)
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
        let variable_name = Arc::clone(&state.def.operation(variable).name);
        let scopes = std::mem::take(&mut state.name_scopes);
        let controls = std::mem::take(&mut state.controls);
        let name = state.unique(&format!("{variable_name}/read"));
        let new = NewOperation {
            name: Some(&name),
            variables: &[variable],
            colocated_with: Some(variable),
            built_at: state.def.operation(variable).built_at,
            ..NewOperation::of(Op::ReadVariable)
        };
        let read = state.add(new).expect("a variable can be read");
        state.name_scopes = scopes;
        state.controls = controls;
        state.reads.insert(variable, read);
        read
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

    #[track_caller]
    pub(crate) fn error(&self, name: &str, kind: &str, problem: GraphProblem) -> GraphError {
        GraphError { operation: format!("{name} ({kind})"), built_at: Location::caller(), problem }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no method of Graph panics while it holds the lock")
    }
}
