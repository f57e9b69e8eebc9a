//! The operations of a training step: clip, vote, update each variable, count the step.

use std::borrow::Cow;
use std::sync::Arc;

use crate::graph::{
    Edge, FirstValue, Gradient, Graph, GraphError, GraphProblem, LearningRate, Name, NewOperation,
    Op, OpId, Output, Replica, Slot, Target, UpdateRule, Variable,
};
use crate::tensor::Shape;

use super::Optimizer;
use super::rules::check_registered;
use super::top_k::Selection;

/// Creates the operation of a training step that applies these gradients.
#[track_caller]
pub(super) fn train_op(
    optimizer: &Optimizer,
    pairs: &[(Variable, Gradient)],
    global_step: &Variable,
) -> Result<TrainOp, GraphError> {
    let graph = global_step.graph().clone();
    check_registered(&optimizer.rule)?;
    if pairs.is_empty() {
        return Err(GraphError::new("apply_gradients", GraphProblem::NoGradients));
    }
    for (variable, gradient) in pairs {
        graph.check_own_variable("apply_gradients", variable)?;
        for part in gradient.parts() {
            graph.check_own("apply_gradients", part)?;
        }
    }
    let clipped = optimizer.clip.map(|clip| clip.apply(pairs)).transpose()?;
    let pairs = clipped.map_or(Cow::Borrowed(pairs), Cow::Owned);
    let replica = optimizer.replica;
    let needs = replica.mode.needs();
    let verdict = if needs.vote { Some(vote(&graph, &pairs, global_step, replica)?) } else { None };
    let selection = optimizer.top_k.map(|fraction| Selection::of(&pairs, fraction)).transpose()?;
    let rate = Rate::of(&optimizer.learning_rate, global_step)?;
    let step = Step { graph: &graph, replica, verdict, rate };
    let mut updates = Vec::with_capacity(pairs.len());
    for (variable, gradient) in selection.as_ref().map_or(&*pairs, |selection| &selection.pairs) {
        updates.push(step.update(&optimizer.rule, variable, gradient)?);
    }
    let step = step.commit(&updates, global_step)?;
    match selection {
        Some(selection) => selection.keep_what_is_left(step),
        None => Ok(step),
    }
}

/// The operation of a training step, with its outputs.
#[derive(Clone, Debug)]
pub struct TrainOp {
    pub(super) commit: Target,
    /// The step with everything that follows its commit.
    pub(super) whole: Target,
}

impl TrainOp {
    /// The operation as a target to run.
    pub fn target(&self) -> &Target {
        &self.whole
    }

    /// The global step after this one (i64).
    pub fn global_step(&self) -> Output {
        self.told(0)
    }

    /// The number of updates that were applied between the step's reading of the variables and the
    /// application of its gradient (i64).
    pub fn staleness(&self) -> Output {
        self.told(1)
    }

    /// Whether the gradient was applied, or came too late and was dropped (bool).
    pub fn applied(&self) -> Output {
        self.told(2)
    }
}

impl TrainOp {
    fn told(&self, output: u32) -> Output {
        self.commit.output(output).expect("a training step tells three things")
    }
}

impl AsRef<Target> for TrainOp {
    fn as_ref(&self) -> &Target {
        &self.whole
    }
}

/// Asks the task of the global step whether this worker is in time, if workers vote.
#[track_caller]
fn vote(
    graph: &Graph,
    pairs: &[(Variable, Gradient)],
    global_step: &Variable,
    replica: Replica,
) -> Result<Output, GraphError> {
    let versions = pairs.iter().flat_map(|(variable, gradient)| variable.versions(gradient));
    let versions: Vec<_> = versions.map(|version| version.edge()).collect();
    let parts = pairs.iter().flat_map(|(_, gradient)| gradient.parts());
    let computed: Vec<OpId> = parts.map(|part| part.edge().op).collect();
    let new = NewOperation {
        name: Name::Numbered("vote"),
        inputs: &versions,
        control_inputs: &computed,
        variables: &[global_step.op_id()],
        colocated_with: Some(global_step.op_id()),
        ..NewOperation::of(Op::Vote(replica))
    };
    Ok(graph.output(graph.add(new)?))
}

/// The operations of one training step while they are created.
struct Step<'a> {
    graph: &'a Graph,
    replica: Replica,
    verdict: Option<Output>,
    rate: Rate,
}

impl Step<'_> {
    /// Updates one variable, on its task.
    #[track_caller]
    fn update(
        &self,
        rule: &UpdateRule,
        variable: &Variable,
        gradient: &Gradient,
    ) -> Result<OpId, GraphError> {
        let mut variables = vec![variable.op_id()];
        for slot in rule.slots() {
            variables.push(create_slot(self.graph, slot, variable)?.op_id());
        }
        let mut inputs = vec![self.rate.beside(variable)?];
        inputs.extend(gradient.parts().iter().map(|part| part.edge()));
        let replica = Some(self.replica).filter(|replica| replica.mode.needs().version);
        if replica.is_some() {
            inputs.extend(self.verdict.as_ref().map(Output::edge));
            inputs.extend(variable.versions(gradient).iter().map(Output::edge));
        }
        let is_sparse = matches!(gradient, Gradient::Slices(_));
        let name = format!("update_{}", variable.name());
        self.graph.add(NewOperation {
            name: Name::Numbered(&name),
            inputs: &inputs,
            variables: &variables,
            colocated_with: Some(variable.op_id()),
            ..NewOperation::of(Op::ApplyGradient { rule: rule.clone(), is_sparse, replica })
        })
    }

    /// Counts the step on the task of the global step, after all updates.
    #[track_caller]
    fn commit(&self, updates: &[OpId], global_step: &Variable) -> Result<TrainOp, GraphError> {
        let mut inputs = vec![global_step.read().edge()];
        inputs.extend(self.verdict.as_ref().map(Output::edge));
        let commit = self.graph.add(NewOperation {
            name: Name::Numbered("train"),
            inputs: &inputs,
            control_inputs: updates,
            variables: &[global_step.op_id()],
            colocated_with: Some(global_step.op_id()),
            ..NewOperation::of(Op::CommitStep(self.replica))
        })?;
        let commit = Target::new(self.graph.clone(), commit);
        Ok(TrainOp { whole: commit.clone(), commit })
    }
}

/// The learning rate of a step.
enum Rate {
    Constant(f32),
    /// Computed from the global step: once, by the worker, who sends it to the tasks of the
    /// variables.
    Computed(Output),
}

impl Rate {
    #[track_caller]
    fn of(rate: &LearningRate, global_step: &Variable) -> Result<Self, GraphError> {
        if let Some(rate) = rate.constant() {
            return Ok(Self::Constant(rate));
        }
        let graph = global_step.graph();
        let computed = graph.add(NewOperation {
            name: Name::Numbered("learning_rate"),
            inputs: &[global_step.read().edge()],
            ..NewOperation::of(Op::LearningRate(Arc::new(rate.clone())))
        })?;
        Ok(Self::Computed(graph.output(computed)))
    }

    /// The rate, for an update of `variable`.
    #[track_caller]
    fn beside(&self, variable: &Variable) -> Result<Edge, GraphError> {
        let rate = match self {
            Self::Computed(rate) => return Ok(rate.edge()),
            Self::Constant(rate) => *rate,
        };
        let constant = variable.graph().add(NewOperation {
            name: Name::Numbered("learning_rate"),
            colocated_with: Some(variable.op_id()),
            ..NewOperation::of(Op::Const(rate.into()))
        })?;
        Ok(variable.graph().output(constant).edge())
    }
}

/// Creates the slot of `variable`, on its task.
#[track_caller]
fn create_slot(graph: &Graph, slot: &Slot, variable: &Variable) -> Result<Variable, GraphError> {
    let name = format!("{}/{}", variable.name(), slot.name);
    match slot.first {
        FirstValue::Everywhere(first) => {
            graph.slot_variable(&name, variable.spec().shape, first, variable)
        }
        FirstValue::Scalar(first) => graph.slot_variable(&name, Shape::SCALAR, first, variable),
        FirstValue::Count => graph.slot_variable(&name, Shape::SCALAR, 0i64, variable),
    }
}
