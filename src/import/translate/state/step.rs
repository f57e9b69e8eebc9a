//! The global step: adding 1 to it ends a training step, as an optimizer's own operation does here.

use super::{store, variable_at};
use crate::graph::{Name, NewOperation, Op, OpId, Replica, VariableSpec};
use crate::import::translate::{Importer, Node, Values};
use crate::import::value::Value;
use crate::tensor::Tensor;

/// The graph's global step, if the declaration `spec` means it: it may be there already.
pub(super) fn global_step_like(importer: &Importer<'_>, spec: &VariableSpec) -> Option<OpId> {
    let existing = importer.graph.existing_global_step()?;
    let known = existing.spec();
    let is_it = (&known.shared_name, &known.container) == (&spec.shared_name, &spec.container)
        && known.tensor_type() == spec.tensor_type();
    is_it.then(|| existing.op_id())
}

/// Adds to a variable.
pub(super) fn add(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if node.value(0)?.cell.is_some() {
        return store(importer, node, Op::AssignAdd, false);
    }
    let (variable, by) = (variable_at(node, 0)?, &node.value(1)?.constant);
    let global_step = importer.graph.existing_global_step();
    let is_one = by.as_ref().is_some_and(|by| *by == Tensor::scalar(1i64));
    match global_step.filter(|step| is_one && step.op_id() == variable) {
        Some(step) if node.branches.is_empty() => {
            let control_inputs = &importer.behind_groups(node.controls_beside(&[]));
            let (name, built_at) = (Name::Exactly(&node.def.name), importer.built_at);
            let new = NewOperation { name, control_inputs, built_at, ..NewOperation::of(Op::NoOp) };
            let end = importer.graph.commit_step(Replica::ALONE, (&step, &step.read()), new)?;
            importer.operations.insert(node.def.name.clone(), end);
            let refers = |value| Value { variable: Some((variable, Some(end))), ..value };
            Ok(importer.outputs_of(end).into_iter().take(1).map(refers).collect())
        }
        _ => store(importer, node, Op::AssignAdd, false),
    }
}

impl Importer<'_> {
    /// The operations that `controls` wait for, in place of those of them that do nothing else:
    /// TensorFlow groups updates by their devices, which here would cost a message a group.
    fn behind_groups(&self, controls: Vec<OpId>) -> Vec<OpId> {
        let (mut open, mut found) = (controls, Vec::new());
        while let Some(id) = open.pop() {
            let before = self.graph.with_operation(id, |operation| match operation.op {
                Op::NoOp | Op::Const(_) => Some(operation.control_inputs.to_vec()),
                _ => None,
            });
            match before {
                Some(before) => open.extend(before),
                None => found.push(id),
            }
        }
        found.sort();
        found.dedup();
        found
    }
}
