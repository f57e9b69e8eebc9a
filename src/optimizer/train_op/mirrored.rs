//! The training step of mirrored towers: each tower updates its own variables, by the gradients
//! that all have.
//!
//! The first tower's step counts: its updates begin together, once all of its gradients are there,
//! and the step is counted after them. So its variables always are those of whole steps,
//! whatever befalls another task meanwhile. The other towers' mirrors may then lack an update, or
//! have one too many: they are set to the first tower's before anything else is done.

use std::borrow::Cow;

use super::{Optimizer, Rate, TrainOp, TrainOpBuilder, Updated, When, check_rule, create_slot};
use crate::graph::{
    Gradient, Graph, GraphError, MirroredGradients, Name, NewOperation, Op, OpId, Replica, Target,
    Variable,
};

/// Creates the operation of a training step that applies the mean of `gradients` in each tower. As
/// with parameter servers, what each worker's gradients are clipped to is what is averaged.
#[track_caller]
pub(in crate::optimizer) fn mirrored_train_op(
    optimizer: &Optimizer,
    gradients: &MirroredGradients,
    global_step: &Variable,
) -> Result<TrainOp, GraphError> {
    let graph = global_step.graph();
    let towers = match optimizer.clip {
        Some(clip) => gradients.reduced(Some(&|pairs| clip.apply(pairs)))?,
        None => gradients.reduced(None)?,
    };
    check_rule(&optimizer.rule)?;
    let rate = Rate::of(&optimizer.learning_rate, global_step)?;
    // An update of a variable that only this client trains.
    let read = When { global_step: &global_step.read(), versions: &[] };
    let mut builder = TrainOpBuilder { graph, replica: Replica::ALONE, global_step, read };
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (tower, pairs) in towers.iter().enumerate() {
        let updated =
            [Updated { rule: &optimizer.rule, rate: rate.clone(), pairs: Cow::Borrowed(pairs) }];
        if tower == 0 {
            let computed = computed(graph, pairs)?;
            let build = |_: &Graph| builder.updates(&updated, None);
            first = graph.with_control_dependencies(&[&computed], build)?;
            continue;
        }
        others.extend(builder.updates(&updated, None)?);
        for ((mirror, _), (primary, _)) in pairs.iter().zip(&towers[0]) {
            for slot in optimizer.rule.slots() {
                let slots = [mirror, primary].map(|variable| create_slot(graph, slot, variable));
                let [own, of] = slots;
                graph.mirror_slot(&own?, &of?, tower)?;
            }
        }
    }
    builder.replica = optimizer.replica;
    let end = builder.commit(&[], &first)?;
    others.insert(0, end.op_id());
    let whole = graph.add(NewOperation {
        control_inputs: &others,
        ..builder.beside("train_mirrors", Op::NoOp)
    })?;
    Ok(TrainOp { end, whole: Target::new(graph.clone(), whole) })
}

/// An operation beside the variables of `pairs` that runs once all of their gradients are there.
#[track_caller]
fn computed(graph: &Graph, pairs: &[(Variable, Gradient)]) -> Result<Target, GraphError> {
    let parts = pairs.iter().flat_map(|(_, gradient)| gradient.parts());
    let parts: Vec<OpId> = parts.map(|part| part.edge().op).collect();
    let computed = graph.add(NewOperation {
        name: Name::Numbered("reduced"),
        control_inputs: &parts,
        colocated_with: pairs.first().map(|(variable, _)| variable.op_id()),
        ..NewOperation::of(Op::NoOp)
    })?;
    Ok(Target::new(graph.clone(), computed))
}
