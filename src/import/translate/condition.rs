//! Conditions of TensorFlow's first kind, `Switch` and `Merge`. Both branches are computed here,
//! and the result is chosen; what changes a variable in a branch is guarded by its condition.

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Edge, Op, Output};
use crate::import::value::{Branch, Value};
use crate::operations::{Choose, Logical};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Switch" | "RefSwitch" => Box::new(switch),
        "Merge" | "RefMerge" => Box::new(merge),
        _ => return None,
    })
}

/// `(x, condition)`: `x`, which may be a variable, in the branch where the condition does not hold,
/// and in the other.
fn switch(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let condition = importer.input(node, 1)?.edge();
    let x = node.value(0)?;
    let in_branch = |holds| {
        let mut branches = node.branches.clone();
        branches.push(Branch { condition, holds });
        Value { branches, ..x.clone() }
    };
    Ok(vec![in_branch(false), in_branch(true)])
}

/// The value of the branch that TensorFlow runs, and the input that it is.
pub(super) fn merge(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let [a, b] = node.inputs.as_slice() else {
        return Err(NodeProblem::unsupported("it must have the values of two branches"));
    };
    let is_of_both = |branch: &&Branch| {
        b.branches.contains(&Branch { holds: !branch.holds, ..(*branch).clone() })
    };
    let split = a.branches.iter().find(is_of_both).ok_or_else(|| {
        NodeProblem::unsupported("its inputs must be of two branches of one condition")
    })?;
    let shared = a.branches.iter().filter(|branch| b.branches.contains(branch)).cloned();
    let shared: Vec<Branch> = shared.collect();
    if importer.roles.is_of_first_values(&node.def.name)
        && importer.is_whether_initialised(split.condition)
    {
        // `initialized_value()`: the variable has no other value yet.
        let first = importer.input(node, usize::from(split.holds))?;
        return importer.emit(node, Op::Identity, &[first]);
    }
    let condition = Output::new(importer.graph.clone(), split.condition);
    let second_holds = match split.holds {
        false => condition,
        true => importer.helper(node, "not", Logical::Not, &[&condition])?,
    };
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let values = importer.emit(node, Choose, &[second_holds, a, b])?;
    Ok(values.into_iter().map(|value| Value { branches: shared.clone(), ..value }).collect())
}

impl Importer<'_> {
    /// Whether a condition is that a variable has a value.
    pub(super) fn is_whether_initialised(&self, mut condition: Edge) -> bool {
        loop {
            let (is_it, same) = self.graph.with_operation(condition.op, |operation| {
                let same = matches!(operation.op, Op::Identity).then(|| operation.inputs[0]);
                (matches!(operation.op, Op::IsVariableInitialized), same)
            });
            match same {
                Some(same) => condition = same,
                None => return is_it,
            }
        }
    }

    /// Whether TensorFlow would run `node`; `None` if it is in no branch.
    pub(super) fn guard(&self, node: &Node<'_>) -> Result<Option<Output>, NodeProblem> {
        let mut all: Option<Output> = None;
        for branch in &node.branches {
            let condition = Output::new(self.graph.clone(), branch.condition);
            let holds = match branch.holds {
                true => condition,
                false => self.helper(node, "not", Logical::Not, &[&condition])?,
            };
            all = Some(match all {
                None => holds,
                Some(before) => self.helper(node, "both", Logical::And, &[&before, &holds])?,
            });
        }
        Ok(all)
    }

    /// Whether TensorFlow would run the other branch.
    pub(super) fn other_branch(
        &self,
        node: &Node<'_>,
        branch: &Branch,
    ) -> Result<Output, NodeProblem> {
        let condition = Output::new(self.graph.clone(), branch.condition);
        if !branch.holds {
            return Ok(condition);
        }
        self.helper(node, "not", Logical::Not, &[&condition])
    }
}
