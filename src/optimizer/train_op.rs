//! The operations of a training step: clip, update each variable, count the step.

mod mirrored;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{
    Edge, FirstValue, Gradient, Graph, GraphError, GraphProblem, LearningRate, Name, NewOperation,
    Op, OpId, Output, Replica, Slot, Target, UpdateRule, Variable,
};
use crate::tensor::Shape;

use super::rules::check_rule;
use super::top_k::Selection;
use super::{Optimizer, Part, misfit};
pub(super) use mirrored::mirrored_train_op;

/// When a step read what its gradients are of.
#[derive(Clone, Copy)]
pub(super) struct When<'a> {
    /// The global step then, from which the gradients' staleness counts.
    pub(super) global_step: &'a Output,
    /// The versions of variables then; the step itself reads those that are not here.
    pub(super) versions: &'a [(Variable, Output)],
}

impl When<'_> {
    /// The versions of `variable` that `gradient` was computed from.
    fn versions(&self, variable: &Variable, gradient: &Gradient) -> Vec<Output> {
        let is_its = |(read, _): &&(Variable, Output)| read.op_id() == variable.op_id();
        match self.versions.iter().find(is_its) {
            Some((_, version)) => vec![version.clone()],
            None => variable.versions(gradient),
        }
    }
}

/// Creates the operation of a training step that applies the gradients of all `parts`, of what was
/// `read`. The optimizers are those of one worker.
#[track_caller]
pub(super) fn train_op(
    parts: &[Part],
    global_step: &Variable,
    read: When<'_>,
) -> Result<TrainOp, GraphError> {
    let graph = global_step.graph().clone();
    let trained = check_parts(&graph, parts)?;
    let Some((Optimizer { replica, .. }, _)) = parts.first() else {
        return Err(GraphError::new("apply_gradients", GraphProblem::NoGradients));
    };
    let mode = replica.mode;
    let votes = mode.needs().has_votes();
    if votes {
        graph.check_trained_in_rounds(mode, &trained)?;
    }
    let mut clipped = Vec::with_capacity(parts.len());
    for (optimizer, pairs) in parts {
        clipped.push(match optimizer.clip {
            Some(clip) => Cow::Owned(clip.apply(pairs)?),
            None => Cow::Borrowed(&**pairs),
        });
    }
    let vote = votes.then(|| Vote::of(clipped.iter().flat_map(|pairs| pairs.iter()), read));
    let mut selection = Selection::default();
    let mut updated = Vec::with_capacity(parts.len());
    for ((optimizer, _), pairs) in parts.iter().zip(clipped) {
        let pairs = match optimizer.top_k {
            Some(fraction) => Cow::Owned(selection.sent_of(&pairs, fraction)?),
            None => pairs,
        };
        let rate = Rate::of(&optimizer.learning_rate, global_step)?;
        updated.push(Updated { rule: &optimizer.rule, rate, pairs });
    }
    let builder = TrainOpBuilder { graph: &graph, replica: *replica, global_step, read };
    let step = match vote {
        Some(vote) => builder.vote(&vote, &updated)?,
        None => builder.commit_after(&builder.updates(&updated, None)?)?,
    };
    if votes {
        graph.note_trained_in_rounds(&step.end, trained);
    }
    match parts.iter().any(|(optimizer, _)| optimizer.top_k.is_some()) {
        true => selection.keep_what_is_left(step),
        false => Ok(step),
    }
}

/// Checks what each of `parts` is given. Returns the variables of all, each of which one part has.
#[track_caller]
fn check_parts(graph: &Graph, parts: &[Part]) -> Result<BTreeSet<OpId>, GraphError> {
    let mut all = BTreeSet::new();
    for (optimizer, pairs) in parts {
        check_rule(&optimizer.rule)?;
        if let Some(why) = misfit(&optimizer.rule, optimizer.replica.mode) {
            return Err(GraphError::new("apply_gradients", GraphProblem::RuleInMode(why)));
        }
        if pairs.is_empty() {
            return Err(GraphError::new("apply_gradients", GraphProblem::NoGradients));
        }
        for (variable, gradient) in pairs {
            graph.check_own_variable("apply_gradients", variable)?;
            for part in gradient.parts() {
                graph.check_own("apply_gradients", part)?;
            }
        }
        let is_taken = |(variable, _): &&(Variable, _)| all.contains(&variable.op_id());
        if let Some((variable, _)) = pairs.iter().find(is_taken) {
            let twice = GraphProblem::TwoOptimizers(variable.name());
            return Err(GraphError::new("apply_gradients", twice));
        }
        all.extend(pairs.iter().map(|(variable, _)| variable.op_id()));
    }
    Ok(all)
}

/// The operation of a training step, with its outputs.
#[derive(Clone, Debug)]
pub struct TrainOp {
    /// The end of the step: all updates are done, and the step is counted.
    pub(super) end: Target,
    /// The step with everything that follows its end.
    pub(super) whole: Target,
}

impl TrainOp {
    fn of(end: Target) -> Self {
        Self { whole: end.clone(), end }
    }

    /// `op`, if it is a training step: it, or what it waits for, counts one.
    pub(crate) fn counting(op: &Target) -> Option<Self> {
        Some(Self { end: op.end_of_step()?, whole: op.clone() })
    }

    /// The operation as a target to run.
    pub fn target(&self) -> &Target {
        &self.whole
    }

    /// The global step after this one (i64).
    pub fn global_step(&self) -> Output {
        let [global_step, _, _] = self.end.told_of_step();
        global_step
    }

    /// The number of updates that were applied between the step's reading of the variables and the
    /// application of its gradient (i64). If an earlier attempt at the step has counted, whose
    /// answer was lost, it is that one's, as -1 instead of 0, -2 instead of 1.
    pub fn staleness(&self) -> Output {
        let [_, staleness, _] = self.end.told_of_step();
        staleness
    }

    /// Whether the gradient was applied, or came too late and was dropped (bool).
    pub fn applied(&self) -> Output {
        let [_, _, applied] = self.end.told_of_step();
        applied
    }
}

impl AsRef<Target> for TrainOp {
    fn as_ref(&self) -> &Target {
        &self.whole
    }
}

/// The output of a worker's vote that is its verdict.
const VERDICT: u32 = 3;

/// A worker's vote: tells the task of the global step that the worker's gradients are on their way,
/// and which versions they were computed from.
struct Vote {
    versions: Vec<Edge>,
    /// The operations that compute the gradients.
    computed: Vec<OpId>,
}

impl Vote {
    fn of<'a>(
        pairs: impl Iterator<Item = &'a (Variable, Gradient)> + Clone,
        read: When<'_>,
    ) -> Self {
        let versions =
            pairs.clone().flat_map(|(variable, gradient)| read.versions(variable, gradient));
        let parts = pairs.flat_map(|(_, gradient)| gradient.parts());
        Self {
            versions: versions.map(|version| version.edge()).collect(),
            computed: parts.map(|part| part.edge().op).collect(),
        }
    }
}

/// The variables that one optimizer updates, with the gradients that are sent.
struct Updated<'a> {
    rule: &'a UpdateRule,
    rate: Rate,
    pairs: Cow<'a, [(Variable, Gradient)]>,
}

/// The operations of one training step while they are created.
struct TrainOpBuilder<'a> {
    graph: &'a Graph,
    replica: Replica,
    global_step: &'a Variable,
    read: When<'a>,
}

impl TrainOpBuilder<'_> {
    /// Updates all variables as the task of the global step decides, which is asked while the
    /// gradients are on their way.
    #[track_caller]
    fn vote(&self, vote: &Vote, updated: &[Updated<'_>]) -> Result<TrainOp, GraphError> {
        // Before the vote: if the last version makes both ready at once, they run in this order.
        let stops = self.replica.mode.needs().stops_late();
        let begin = stops.then(|| self.begin(&vote.versions)).transpose()?;
        let commit = self.commit(&vote.versions, &vote.computed)?;
        let output = |index| commit.output(index).expect("a step that votes is told four things");
        let mut before = self.updates(updated, Some(&output(VERDICT)))?;
        before.push(begin.map_or(Ok(commit.op_id()), |begin| self.counted(begin, &commit))?);
        let before: Vec<Target> =
            before.into_iter().map(|id| Target::new(self.graph.clone(), id)).collect();
        let before: Vec<&Target> = before.iter().collect();
        let end = self.graph.group("train_and_update", &before)?;
        // Whoever fetches one of these waits for the updates, too.
        let told = self.graph.with_control_dependencies(&[&end], |_| {
            Ok([0, 1, 2].map(|index| output(index).identity()))
        })?;
        self.graph.end_step_with(&end, told.each_ref());
        Ok(TrainOp::of(end))
    }

    /// Has the step stopped if it is too late.
    #[track_caller]
    fn begin(&self, versions: &[Edge]) -> Result<OpId, GraphError> {
        self.graph.add(NewOperation {
            inputs: versions,
            variables: &[self.global_step.op_id()],
            ..self.beside("begin", Op::BeginStep(self.replica))
        })
    }

    /// Returns an operation that follows `begin` and `commit` on the task of the global step: what
    /// tells the worker of the step's end must be an answer to what the worker has computed.
    #[track_caller]
    fn counted(&self, begin: OpId, commit: &Target) -> Result<OpId, GraphError> {
        let control_inputs = &[begin, commit.op_id()];
        self.graph.add(NewOperation { control_inputs, ..self.beside("counted", Op::NoOp) })
    }

    /// A new operation on the task of the global step.
    fn beside(&self, name: &'static str, op: Op) -> NewOperation<'static> {
        NewOperation {
            name: Name::Numbered(name),
            colocated_with: Some(self.global_step.op_id()),
            ..NewOperation::of(op)
        }
    }

    /// Updates all variables, each on its task.
    #[track_caller]
    fn updates(
        &self,
        updated: &[Updated<'_>],
        verdict: Option<&Output>,
    ) -> Result<Vec<OpId>, GraphError> {
        let mut updates = Vec::new();
        for by in updated {
            for (variable, gradient) in by.pairs.iter() {
                updates.push(self.update(by, variable, gradient, verdict)?);
            }
        }
        Ok(updates)
    }

    /// Updates one variable, on its task.
    #[track_caller]
    fn update(
        &self,
        by: &Updated<'_>,
        variable: &Variable,
        gradient: &Gradient,
        verdict: Option<&Output>,
    ) -> Result<OpId, GraphError> {
        let mut variables = vec![variable.op_id()];
        for slot in by.rule.slots() {
            variables.push(create_slot(self.graph, slot, variable)?.op_id());
        }
        let mut inputs = vec![by.rate.beside(variable)?];
        inputs.extend(gradient.parts().iter().map(|part| part.edge()));
        let replica = Some(self.replica).filter(|replica| replica.mode.needs().has_version());
        if replica.is_some() {
            inputs.extend(verdict.map(Output::edge));
            inputs.extend(self.read.versions(variable, gradient).iter().map(Output::edge));
        }
        let is_sparse = matches!(gradient, Gradient::Slices(_));
        let name = format!("update_{}", variable.name());
        self.graph.add(NewOperation {
            name: Name::Numbered(&name),
            inputs: &inputs,
            variables: &variables,
            colocated_with: Some(variable.op_id()),
            ..NewOperation::of(Op::ApplyGradient { rule: by.rule.clone(), is_sparse, replica })
        })
    }

    /// Counts the step after all updates.
    #[track_caller]
    fn commit_after(&self, updates: &[OpId]) -> Result<TrainOp, GraphError> {
        Ok(TrainOp::of(self.commit(&[], updates)?))
    }

    /// Counts the step on the task of the global step, after `control_inputs`.
    #[track_caller]
    fn commit(&self, versions: &[Edge], control_inputs: &[OpId]) -> Result<Target, GraphError> {
        let name = Name::Numbered("train");
        let new =
            NewOperation { name, inputs: versions, control_inputs, ..NewOperation::of(Op::NoOp) };
        let counted = (self.global_step, self.read.global_step);
        let commit = self.graph.commit_step(self.replica, counted, new)?;
        Ok(Target::new(self.graph.clone(), commit))
    }
}

/// The learning rate of a step.
#[derive(Clone)]
enum Rate {
    Constant(f32),
    /// Computed from the global step: once, by the worker, who sends it to the tasks of the
    /// variables.
    Computed(Output),
}

impl Rate {
    #[track_caller]
    fn of(rate: &LearningRate, global_step: &Variable) -> Result<Self, GraphError> {
        if let Some(problem) = rate.problem() {
            return Err(GraphError::new("learning_rate", GraphProblem::Schedule(problem)));
        }
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
