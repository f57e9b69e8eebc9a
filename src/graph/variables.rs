//! The variables of a graph: their declarations, and the operations that give them initial values.

use super::builder::Graph;
use super::error::{GraphError, GraphProblem};
use super::op::{Op, VariableSpec};
use super::output::{Output, Target};
use super::state::{Name, NewOperation};
use super::variable::Variable;
use super::{OpId, TensorType};
use crate::tensor::{DType, Shape, Tensor};

/// The name of the global step.
pub(super) const GLOBAL_STEP: &str = "global_step";

/// A variable to be added.
struct NewVariable<'a> {
    name: &'a str,
    initializer: &'a Output,
    /// Whether an optimizer updates it. Untrained variables (global step, counters, slots) are
    /// named from the root, whatever the scopes.
    trainable: bool,
    /// The variable it belongs to, if it belongs to one: it shares that one's device and container.
    beside: Option<&'a Variable>,
}

impl Graph {
    /// A variable, and the operation that gives it the value of `initializer`.
    ///
    /// # Errors
    /// If the name is taken or illegal, or the shape of `initializer` is not known in full.
    #[track_caller]
    pub fn variable(&self, name: &str, initializer: &Output) -> Result<Variable, GraphError> {
        let new = NewVariable { name, initializer, trainable: true, beside: None };
        self.new_variable(&new)
    }

    /// A variable that no optimizer updates, and the operation that gives it the value of
    /// `initializer`.
    ///
    /// # Errors
    /// As [`Graph::variable`].
    #[track_caller]
    pub fn untrainable_variable(
        &self,
        name: &str,
        initializer: &Output,
    ) -> Result<Variable, GraphError> {
        let name = &self.scoped_name(name);
        self.new_variable(&NewVariable { name, initializer, trainable: false, beside: None })
    }

    /// A variable that each worker has its own copy of, on its own task; no optimizer updates it
    /// (TensorFlow: `local_variable`).
    ///
    /// # Errors
    /// As [`Graph::variable`].
    #[track_caller]
    pub fn local_variable(&self, name: &str, initializer: &Output) -> Result<Variable, GraphError> {
        // Why not `with_local_variables`: an error would name its closure as the caller's line.
        let outer = std::mem::replace(&mut self.state().is_local, true);
        let variable = self.untrainable_variable(name, initializer);
        self.state().is_local = outer;
        variable
    }

    /// The step counter that all workers of a training share: an i64 from 0, not trainable.
    /// Whatever the scopes, its name is `global_step`.
    ///
    /// # Errors
    /// If the name `global_step` belongs to something else.
    #[track_caller]
    pub fn global_step(&self) -> Result<Variable, GraphError> {
        if let Some(existing) = self.existing_global_step() {
            return Ok(existing);
        }
        let zero = NewOperation { is_detached: true, ..NewOperation::of(Op::Const(0i64.into())) };
        let initializer = &self
            .output(self.add(NewOperation { name: Name::Numbered("global_step/zero"), ..zero })?);
        self.new_variable(&NewVariable {
            name: GLOBAL_STEP,
            initializer,
            trainable: false,
            beside: None,
        })
    }

    /// The step counter, if the graph has one.
    pub(crate) fn existing_global_step(&self) -> Option<Variable> {
        let holds = TensorType::new(DType::I64, Shape::SCALAR);
        let op = self.state().variable_of_type(GLOBAL_STEP, holds)?;
        Some(Variable::new(self.clone(), op))
    }

    /// Makes `assign` the operation that gives its variable the first value, unless the variable
    /// has one.
    pub(crate) fn add_initializer(&self, assign: OpId) {
        let variable = self.with_operation(assign, |operation| operation.variables[0]);
        if self.initializer_of(variable).is_none() {
            self.state().initializers.push(assign);
        }
    }

    /// The operation that gives `variable` its first value, if one does.
    pub(crate) fn initializer_of(&self, variable: OpId) -> Option<OpId> {
        let state = self.state();
        let is_its = |id: &&OpId| state.def.operation(**id).variables.first() == Some(&variable);
        state.initializers.iter().find(is_its).copied()
    }

    /// A slot of `variable`, on the variable's device: a value of `shape`, initially the scalar
    /// `initial` everywhere. It is named from the root. If an optimizer of the kind has made it
    /// before, it is that one.
    #[track_caller]
    pub(crate) fn slot_variable(
        &self,
        name: &str,
        shape: Shape,
        initial: impl Into<Tensor>,
        variable: &Variable,
    ) -> Result<Variable, GraphError> {
        let value: Tensor = initial.into();
        if let Some(op) = self.state().variable_of_type(name, TensorType::new(value.dtype(), shape))
        {
            return Ok(Variable::new(self.clone(), op));
        }
        let fill = self.add(NewOperation {
            name: Name::Numbered(&format!("{name}/initial")),
            colocated_with: Some(variable.op_id()),
            is_detached: true,
            ..NewOperation::of(Op::Fill { shape, value })
        })?;
        let initializer = &self.output(fill);
        self.new_variable(&NewVariable {
            name,
            initializer,
            trainable: false,
            beside: Some(variable),
        })
    }

    /// A variable beside `variable`, of the same type and with the same initial value. If there is
    /// one of that name, it is that one.
    ///
    /// # Errors
    /// If `variable` has no initial value, or the name is taken.
    #[track_caller]
    pub(crate) fn shadow_variable(
        &self,
        name: &str,
        variable: &Variable,
    ) -> Result<Variable, GraphError> {
        let holds = variable.spec().tensor_type();
        if let Some(op) = self.state().variable_of_type(name, holds) {
            return Ok(Variable::new(self.clone(), op));
        }
        let Some(initializer) = self.initializer_of(variable.op_id()) else {
            let needs = "a variable with an initializer".to_owned();
            return Err(GraphError::new(
                name,
                GraphProblem::Inputs { needs, inputs: vec![variable.spec().tensor_type()] },
            ));
        };
        let initializer = &self.with_operation(initializer, |assign| assign.inputs[0]);
        let initializer = &Output::new(self.clone(), *initializer);
        self.new_variable(&NewVariable {
            name,
            initializer,
            trainable: false,
            beside: Some(variable),
        })
    }

    /// The mirror of `primary` in tower `tower`, on the device of the scopes around. It is set to
    /// what the primary then has when it is initialised.
    ///
    /// # Errors
    /// If its name is taken.
    #[track_caller]
    pub(super) fn mirror_variable(
        &self,
        primary: &Variable,
        tower: usize,
    ) -> Result<Variable, GraphError> {
        if let Some(mirror) = self.mirror_of(primary.op_id(), tower) {
            return Ok(mirror);
        }
        let mirror = self.with_local_variables(|g| {
            g.new_variable(&NewVariable {
                name: &format!("{}/replica_{tower}", primary.name()),
                initializer: &primary.read_again(),
                trainable: false,
                beside: None,
            })
        })?;
        self.add_mirror(&mirror, primary, tower);
        Ok(mirror)
    }

    #[track_caller]
    fn new_variable(&self, new: &NewVariable<'_>) -> Result<Variable, GraphError> {
        self.check_own("Variable", new.initializer)?;
        let value = new.initializer.tensor_type();
        let Some(shape) = value.shape.known() else {
            let needs = "an initializer whose shape is known".to_owned();
            let operation = format!("{} (Variable)", new.name);
            return Err(GraphError::new(
                operation,
                GraphProblem::Inputs { needs, inputs: vec![value] },
            ));
        };
        let is_of_towers = new.beside.is_none() && new.name != GLOBAL_STEP;
        if is_of_towers && let Some(of_towers) = self.variable_of_towers(new.name, &value)? {
            return Ok(of_towers);
        }
        let (container, is_local) = match new.beside.map(Variable::spec) {
            Some(beside) => (beside.container, beside.is_local),
            None => {
                let state = self.state();
                (state.container.clone(), state.is_local && new.name != GLOBAL_STEP)
            }
        };
        let shared_name =
            if new.trainable { self.scoped_name(new.name) } else { new.name.to_owned() }.into();
        let spec = VariableSpec {
            shared_name,
            container,
            dtype: value.dtype,
            shape,
            trainable: new.trainable,
            is_local,
        };
        let variable = self.add(NewOperation {
            name: Name::Exactly(new.name),
            colocated_with: new.beside.map(Variable::op_id),
            is_detached: !new.trainable,
            ..NewOperation::of(Op::Variable(spec.clone()))
        })?;
        let variable = Variable::new(self.clone(), variable);
        let assign = self.first_assign(&variable, new.initializer)?;
        let mut state = self.state();
        if let Some(towers) = state.towers.as_mut().filter(|_| is_of_towers) {
            towers.note(variable.op_id());
        }
        state.initializers.push(assign);
        drop(state);
        if let Some(beside) = new.beside {
            self.make_part_beside(beside, &variable);
        }
        Ok(variable)
    }

    /// The operation that gives `variable` the first value `value`.
    #[track_caller]
    fn first_assign(&self, variable: &Variable, value: &Output) -> Result<OpId, GraphError> {
        self.add(NewOperation {
            name: Name::Numbered(&format!("{}/Assign", variable.spec().shared_name)),
            inputs: &[value.edge()],
            variables: &[variable.op_id()],
            colocated_with: Some(variable.op_id()),
            is_detached: true,
            ..NewOperation::of(Op::Assign)
        })
    }

    /// The initial value of `variable`.
    pub(crate) fn initial_value(&self, variable: &Variable) -> Output {
        let initializer = self.initializer_of(variable.op_id());
        let initializer = initializer.expect("every variable has an initializer");
        Output::new(self.clone(), self.with_operation(initializer, |assign| assign.inputs[0]))
    }

    /// Replaces the initial value of `variable` by `value`.
    #[track_caller]
    pub(crate) fn replace_initial_value(
        &self,
        variable: &Variable,
        value: &Output,
    ) -> Result<(), GraphError> {
        let initializer = self.first_assign(variable, value)?;
        let old = self.initializer_of(variable.op_id());
        let old = old.expect("every variable has an initializer");
        let initializers = &mut self.state().initializers;
        initializers.iter_mut().filter(|one| **one == old).for_each(|one| *one = initializer);
        Ok(())
    }

    /// Gives every variable that workers share its first value (TensorFlow:
    /// `global_variables_initializer`).
    #[track_caller]
    pub fn initializer(&self) -> Target {
        let initializers: Vec<OpId> =
            self.initializers().iter().map(|(_, initializer)| initializer.op_id()).collect();
        self.group_ids("init", &initializers).expect("a legal name in any scope")
    }

    /// The variables that workers share, each with the operation that gives it its first value.
    pub fn initializers(&self) -> Vec<(Variable, Target)> {
        self.initializers_of(|variable| !variable.is_local)
    }

    /// The worker's own variables, each with the operation that gives it its first value. Every
    /// worker runs them, once the shared ones have theirs (TensorFlow:
    /// `local_variables_initializer`).
    pub fn local_initializers(&self) -> Vec<(Variable, Target)> {
        self.initializers_of(|variable| variable.is_local)
    }

    fn initializers_of(&self, is_meant: impl Fn(&VariableSpec) -> bool) -> Vec<(Variable, Target)> {
        let state = self.state();
        let variable = |assign: &OpId| state.def.operation(*assign).variables[0];
        let meant = |assign: &&OpId| state.def.variable(variable(assign)).is_some_and(&is_meant);
        let pair = |assign| {
            (Variable::new(self.clone(), variable(assign)), Target::new(self.clone(), *assign))
        };
        state.initializers.iter().filter(meant).map(pair).collect()
    }

    /// Completes once every variable that workers share has a value, however long that takes. So a
    /// worker learns at once that the chief has initialised the model; TensorFlow's asks every 30
    /// seconds (`SessionManager.wait_for_session`).
    #[track_caller]
    pub fn await_initialization(&self) -> Target {
        let shared = self.variables().into_iter().filter(|variable| !variable.spec().is_local);
        let awaited: Vec<OpId> = shared.map(|variable| variable.await_value()).collect();
        self.group_ids("await_initialization", &awaited).expect("a legal name in any scope")
    }

    /// A value to be fed, and the operation that assigns it to `variable`: they restore a
    /// checkpoint.
    ///
    /// # Errors
    /// If the variable belongs to another graph.
    #[track_caller]
    pub(crate) fn restore_op(&self, variable: &Variable) -> Result<(Output, Target), GraphError> {
        self.check_own_variable("restore", variable)?;
        let (spec, colocated_with) = (variable.spec(), Some(variable.op_id()));
        let value = self.add(NewOperation {
            name: Name::Numbered(&format!("save/{}", variable.name())),
            colocated_with,
            is_detached: true,
            ..NewOperation::of(Op::Placeholder { dtype: spec.dtype, shape: spec.shape.into() })
        })?;
        let value = self.output(value);
        let assign = self.add(NewOperation {
            name: Name::Numbered(&format!("save/{}/Assign", variable.name())),
            inputs: &[value.edge()],
            variables: &[variable.op_id()],
            colocated_with,
            is_detached: true,
            ..NewOperation::of(Op::Assign)
        })?;
        Ok((value, Target::new(self.clone(), assign)))
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
}
