//! Memos: each node's output types and cost, inferred from the types of its inputs and kept from
//! step to step. The inference also refuses inputs that don't fit, so that a graph which another
//! process has made can't have an operation run on what it was not built for.

use smallvec::SmallVec;

use crate::graph::{GraphProblem, Known, TensorType, VariableSpec, infer};
use crate::kernels::{Cost, KernelKind};
use crate::operations;
use crate::partition::Node;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::worker::plan::{Memo, Plan};

/// The output types and the cost of `node` for `inputs`: from its memo, if its last inputs had the
/// same types.
///
/// # Errors
/// If the inputs don't fit the operation.
pub(super) fn infer_types<'a>(
    memo: &'a mut Option<Memo>,
    plan: &Plan,
    node: u32,
    inputs: &[Known],
) -> Result<&'a Memo> {
    if memo.as_ref().is_none_or(|memo| *memo.inputs != *inputs) {
        *memo = Some(infer_memo(plan, node, inputs)?);
    }
    Ok(memo.as_ref().expect("it was just written"))
}

fn infer_memo(plan: &Plan, node: u32, inputs: &[Known]) -> Result<Memo> {
    let node = plan.node(node);
    let op = &node.op;
    let refused = |problem: String| {
        let error = Error::new(Code::InvalidArgument, problem);
        Err(error.in_operation(node.name.to_string()).on(&plan.partition.task))
    };
    let types: SmallVec<[TensorType; 3]> =
        inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
    let outputs = match infer(op, &types, &variable_types(plan, node)) {
        Ok(outputs) if outputs.len() == node.outputs as usize => outputs,
        Ok(outputs) => {
            let given = node.outputs;
            return refused(format!("it has {} outputs, and not {given}", outputs.len()));
        }
        Err(problem) => return refused(named(problem, plan, node).to_string()),
    };
    if op.is_stateful() {
        let (outputs, cost, kind) = (None, Cost::default(), KernelKind::Movement);
        return Ok(Memo { inputs: inputs.into(), outputs, cost, kind });
    }
    let known = |output: &TensorType| Some((output.dtype, output.shape.known()?));
    let outputs: Option<SmallVec<[Known; 2]>> = outputs.iter().map(known).collect();
    let is_impossible = |(dtype, shape): &Known| shape.bytes_of(*dtype) > isize::MAX as usize;
    if outputs.iter().flatten().any(is_impossible) {
        let error = Error::new(Code::ResourceExhausted, "no memory can hold its result");
        return Err(error.in_operation(node.name.to_string()).on(&plan.partition.task));
    }
    let cost = operations::cost_of(op, inputs, outputs.as_deref().unwrap_or_default());
    Ok(Memo { inputs: inputs.into(), outputs, cost, kind: op.kernel_kind() })
}

fn variables<'a>(plan: &'a Plan, node: &'a Node) -> impl Iterator<Item = &'a VariableSpec> {
    node.variables.iter().map(|variable| &plan.partition.variables[*variable as usize])
}

fn variable_types(plan: &Plan, node: &Node) -> SmallVec<[TensorType; 2]> {
    node.variables.iter().map(|variable| plan.tables.variables[*variable as usize]).collect()
}

/// `problem` with the name of the node's variable, if it is about one: inference knows only types.
fn named(problem: GraphProblem, plan: &Plan, node: &Node) -> GraphProblem {
    match (problem, variables(plan, node).next()) {
        (GraphProblem::Variable { holds, given, .. }, Some(spec)) => {
            GraphProblem::Variable { variable: spec.shared_name.to_string(), holds, given }
        }
        (problem, _) => problem,
    }
}
