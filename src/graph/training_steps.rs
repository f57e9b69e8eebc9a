//! The training steps of a graph: the operation that ends each, its outputs, and its replica.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::device_scope;
use super::error::{GraphError, GraphProblem};
use super::op::{Op, Replica};
use super::output::{Output, Target};
use super::state::{Name, NewOperation, State};
use super::variable::Variable;
use super::variables::GLOBAL_STEP;
use super::{Edge, Graph, OpId, Operation};
use crate::sync::Mode;
use crate::tensor::{Shape, Tensor};

impl Graph {
    /// The end of the training step that a run of `ops` takes: they are it, or wait for it. Of a
    /// step that ends with an exchange, it is the end of the exchange, which all workers share.
    pub(crate) fn end_of_step(&self, ops: &[OpId]) -> Option<Target> {
        let state = self.state();
        let mut own = None;
        let shared = state.find_before(ops, |id| {
            let is_shared = state.is_end(id) && !state.is_local_commit(id);
            if state.is_end(id) && !is_shared {
                own.get_or_insert(id);
            }
            is_shared.then_some(id)
        });
        drop(state);
        shared.or(own).map(|end| Target::new(self.clone(), end))
    }

    /// Notes that training steps minimize `loss`.
    pub(crate) fn minimizes(&self, loss: &Output) {
        self.state().losses.push(loss.edge());
    }

    /// Whether training steps minimize `value`.
    pub(crate) fn is_minimized(&self, value: &Output) -> bool {
        self.state().losses.contains(&value.edge())
    }

    /// Whether [`variable_gradients`](super::variable_gradients) has differentiated `value`.
    pub(crate) fn is_differentiated(&self, value: &Output) -> bool {
        self.state().differentiated.contains(&value.edge())
    }

    /// Makes `op` the end of a training step that another operation counts; `tells` are the global
    /// step after it (i64), its staleness (i64) and whether its gradient counts (bool).
    pub(crate) fn end_step_with(&self, op: &Target, tells: [&Output; 3]) {
        self.state().ends.insert(op.op_id(), tells.map(Output::edge));
    }

    /// Checks that the graph has no training operation of other variables than `variables`, in a
    /// `mode` with rounds of votes: a variable that a round leaves as it is keeps its version, so
    /// that all later gradients of it would be taken for stale.
    #[track_caller]
    pub(crate) fn check_trained_in_rounds(
        &self,
        mode: Mode,
        variables: &BTreeSet<OpId>,
    ) -> Result<(), GraphError> {
        let state = self.state();
        match &state.trained_in_rounds {
            Some((first, trained)) if trained != variables => {
                let why = "all of its rounds update the same variables";
                Err(second_training(mode, state.def.operation(*first), why))
            }
            _ => Ok(()),
        }
    }

    /// Notes that the training step that ends with `end` trains `variables` in rounds of votes.
    pub(crate) fn note_trained_in_rounds(&self, end: &Target, variables: BTreeSet<OpId>) {
        self.state().trained_in_rounds.get_or_insert((end.op_id(), variables));
    }

    /// Checks that the graph has no training operation yet. In `mode` each worker trains copies of
    /// the variables, and can have one such operation.
    #[track_caller]
    pub(crate) fn check_is_only_training(&self, mode: Mode) -> Result<(), GraphError> {
        let state = self.state();
        match state.def.iter().find(|(id, _)| state.is_local_commit(*id)) {
            Some((_, first)) => {
                let why = "a worker counts the steps of one between two exchanges";
                Err(second_training(mode, first, why))
            }
            None => Ok(()),
        }
    }

    /// Notes that updates go on while the chief takes no step: its fence can't hold them off.
    pub(crate) fn note_updates_without_chief(&self) {
        self.state().updates_without_chief = true;
    }

    /// Whether updates go on while the chief takes no step.
    pub(crate) fn has_updates_without_chief(&self) -> bool {
        self.state().updates_without_chief
    }

    /// The outputs of the end of a training step: the global step after it, its staleness, and
    /// whether its gradient counts.
    pub(super) fn told_of_step(&self, end: OpId) -> [Edge; 3] {
        let told = self.state().ends.get(&end).copied();
        told.unwrap_or_else(|| [0, 1, 2].map(|output| Edge { op: end, output }))
    }

    /// Whether `op` counts a step that a worker takes by itself, in its own local variable.
    pub(super) fn is_local_commit(&self, op: OpId) -> bool {
        self.state().is_local_commit(op)
    }

    /// Whether `delta` added to `variable` counts a training step: it is the constant 1, and the
    /// variable is the global step.
    pub(super) fn counts_a_step(&self, variable: &Variable, delta: &Output) -> bool {
        let is_one = |op: &Op| matches!(op, Op::Const(value) if *value == Tensor::scalar(1i64));
        let is_global = |step: Variable| step.op_id() == variable.op_id();
        self.same_as(delta.graph())
            && self.with_operation(delta.edge().op, |operation| is_one(&operation.op))
            && self.existing_global_step().is_some_and(is_global)
    }

    /// Counts a training step of `replica`, after `new.control_inputs`; the versions that it read
    /// are `new.inputs`. `read` is the global step at the time when the step read the values that
    /// it changes.
    ///
    /// A step that waits for a verdict sets variables when it gets one: before, it has not ended.
    /// Any other sets them just before it is counted.
    #[track_caller]
    pub(crate) fn commit_step(
        &self,
        replica: Replica,
        (global_step, read): (&Variable, &Output),
        new: NewOperation<'_>,
    ) -> Result<OpId, GraphError> {
        let (mut inputs, mut variables) = (vec![read.edge()], vec![global_step.op_id()]);
        let positions = match global_step.spec().is_local {
            true => Vec::new(),
            false => self.counted_with(),
        };
        let (votes, mut set) = (replica.mode.needs().has_votes(), Vec::new());
        for (variable, value) in &positions {
            if votes {
                inputs.push(value.edge());
                variables.push(variable.op_id());
            } else {
                set.push(self.set_after(new.control_inputs, variable, value)?);
            }
        }
        inputs.extend(new.inputs);
        self.add(NewOperation {
            op: Op::CommitStep(replica),
            inputs: &inputs,
            control_inputs: if set.is_empty() { new.control_inputs } else { &set },
            variables: &variables,
            colocated_with: Some(global_step.op_id()),
            ..new
        })
    }

    /// Sets `variable`, which is beside the global step, to `value` after `control_inputs`.
    #[track_caller]
    fn set_after(
        &self,
        control_inputs: &[OpId],
        variable: &Variable,
        value: &Output,
    ) -> Result<OpId, GraphError> {
        self.add(NewOperation {
            name: Name::Numbered(&format!("{}/set", variable.name())),
            inputs: &[value.edge()],
            control_inputs,
            variables: &[variable.op_id()],
            colocated_with: Some(variable.op_id()),
            ..NewOperation::of(Op::Assign)
        })
    }

    /// Makes the training steps of the graph those of `replica`, which is about to run them.
    ///
    /// A step that was built for a worker alone can join an asynchronous training, as TensorFlow's
    /// does: its operations are the same. Any other step must be built for its run.
    ///
    /// # Errors
    /// If a step was built for another worker, number of workers or mode than the run's.
    pub(crate) fn join_training(&self, replica: Replica) -> Result<(), GraphError> {
        let mut state = self.state();
        for index in 0..state.def.operations.len() {
            let operation = &state.def.operations[index];
            let Op::CommitStep(built_for) = operation.op else { continue };
            let counter = operation.variables.first().and_then(|id| state.def.variable(*id));
            if built_for == replica || counter.is_some_and(|spec| spec.is_local) {
                continue;
            }
            if !built_for.may_become(replica) {
                return Err(GraphError {
                    operation: format!("{} ({})", operation.name, operation.op.kind()),
                    built_at: operation.built_at,
                    problem: GraphProblem::OtherTraining { built_for, run: replica },
                });
            }
            Arc::make_mut(&mut state.def).operations[index].op = Op::CommitStep(replica);
        }
        Ok(())
    }

    /// Adds the variable that has a worker's position in an input, beside the global step: an i64
    /// from 0. If it `is_own`, training steps that are built from now on set it, as they are
    /// counted, to a value that each is fed; to 0 without.
    ///
    /// # Errors
    /// If its name belongs to something else.
    #[track_caller]
    pub(crate) fn input_position(&self, name: &str, is_own: bool) -> Result<(), GraphError> {
        let position = self.slot_variable(name, Shape::SCALAR, 0i64, &self.global_step()?)?.op_id();
        self.state().positions.push(position);
        if is_own {
            let value = self.add(NewOperation {
                name: Name::Numbered(&format!("{name}/counted")),
                is_detached: true,
                ..NewOperation::of(Op::Const(0i64.into()))
            })?;
            self.state().counted_with.push((position, Edge { op: value, output: 0 }));
        }
        Ok(())
    }

    /// The variables that training steps set as they are counted, each with its value.
    pub(crate) fn counted_with(&self) -> Vec<(Variable, Output)> {
        let listed = self.state().counted_with.clone();
        let known = |(variable, value): (OpId, Edge)| {
            (Variable::new(self.clone(), variable), self.output(value.op))
        };
        listed.into_iter().map(known).collect()
    }

    /// Whether an operation of the graph takes `value`.
    pub(crate) fn is_used(&self, value: &Output) -> bool {
        let edge = value.edge();
        self.state().def.iter().any(|(_, operation)| operation.inputs.contains(&edge))
    }

    /// Whether `variable` has a worker's position in an input.
    pub(crate) fn is_position(&self, variable: &Variable) -> bool {
        self.state().positions.contains(&variable.op_id())
    }

    /// The worker of the graph's training steps that all workers share, if there are such steps.
    pub(crate) fn shared_replica(&self) -> Option<Replica> {
        let state = self.state();
        state.def.iter().find_map(|(id, operation)| match operation.op {
            Op::CommitStep(replica) if !state.is_local_commit(id) => Some(replica),
            _ => None,
        })
    }

    /// Makes a worker run `exchange`, which follows `step`, in the last of every `every` steps.
    pub(crate) fn every_nth_step(&self, step: &Target, every: u32, exchange: &Target) {
        self.state().every_nth.insert(step.op_id(), (every, exchange.op_id()));
    }

    /// The exchange that follows the training step of `ops`, if a worker's step `number`, counted
    /// from 0, ends with one. The worker runs it beside `ops`.
    pub(crate) fn exchange_in_step(&self, ops: &[OpId], number: u64) -> Option<Target> {
        let state = self.state();
        if state.every_nth.is_empty() {
            return None;
        }
        let (every, exchange) = state.find_before(ops, |id| state.every_nth.get(&id).copied())?;
        drop(state);
        let is_due = (number + 1).is_multiple_of(every.into());
        is_due.then(|| Target::new(self.clone(), exchange))
    }

    /// Makes the chief run `target` before a training ends: it sets the worker's own variables to
    /// those that all workers share.
    pub(crate) fn settle_with(&self, target: &Target) {
        self.state().settle = Some(target.op_id());
    }

    /// The operation that the chief runs before a training ends, if workers train copies of their
    /// own.
    pub(crate) fn settle(&self) -> Option<Target> {
        let settle = self.state().settle?;
        Some(Target::new(self.clone(), settle))
    }

    /// Makes all variables but the global step local to each worker, on the device on which the
    /// scopes in force place a local variable.
    pub(crate) fn make_variables_local(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let def = Arc::make_mut(&mut state.def);
        for index in 0..def.operations.len() {
            let operation = &mut def.operations[index];
            let Op::Variable(spec) = &mut operation.op else { continue };
            if spec.is_local || *spec.shared_name == *GLOBAL_STEP {
                continue;
            }
            spec.is_local = true;
            let (op, name, outputs) = (&operation.op, &operation.name, &operation.outputs);
            let device = device_scope::resolve(&state.device_scopes, name, op, outputs);
            operation.device = device.clone();
            let variable = OpId(index as u32);
            for beside in &mut def.operations {
                if beside.colocated_with == Some(variable) {
                    beside.device = device.clone();
                }
            }
        }
    }
}

/// The error of a training operation that can't be beside the `first` in `mode`, and why.
#[track_caller]
fn second_training(mode: Mode, first: &Operation, why: &'static str) -> GraphError {
    let (built_at, first) = (first.built_at, first.name.to_string());
    let problem = GraphProblem::SecondTraining { mode, first, built_at, why };
    GraphError::new("apply_gradients", problem)
}

impl State {
    /// Whether `op` is the end of a training step.
    fn is_end(&self, op: OpId) -> bool {
        matches!(self.def.operation(op).op, Op::CommitStep(_)) || self.ends.contains_key(&op)
    }

    /// As [`Graph::is_local_commit`].
    fn is_local_commit(&self, op: OpId) -> bool {
        let operation = self.def.operation(op);
        let is_local =
            |variable: &OpId| self.def.variable(*variable).is_some_and(|spec| spec.is_local);
        matches!(operation.op, Op::CommitStep(_)) && operation.variables.iter().any(is_local)
    }

    /// Calls `find` for `ops`, and then for the operations that they wait for: their control
    /// inputs, and the inputs of identities. Returns its first result. Stops at the end of a
    /// training step.
    fn find_before<T>(&self, ops: &[OpId], mut find: impl FnMut(OpId) -> Option<T>) -> Option<T> {
        // Most runs have a training operation as their first target.
        if let Some(found) = ops.first().and_then(|first| find(*first)) {
            return Some(found);
        }
        let mut open = ops.to_vec();
        let mut seen = BTreeSet::new();
        let mut next = 0;
        while let Some(id) = open.get(next).copied() {
            next += 1;
            if !seen.insert(id) {
                continue;
            }
            if let Some(found) = find(id) {
                return Some(found);
            }
            if self.is_end(id) {
                continue;
            }
            let operation = self.def.operation(id);
            open.extend(&operation.control_inputs);
            if matches!(operation.op, Op::Identity) {
                open.extend(operation.inputs.iter().map(|edge| edge.op));
            }
        }
        None
    }
}
