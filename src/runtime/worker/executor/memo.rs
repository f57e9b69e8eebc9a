//! Memos: each node's output types and cost, inferred from the types of its inputs and kept from
//! step to step.

use smallvec::SmallVec;

use crate::graph::{Known, TensorType, infer};
use crate::kernels::{Cost, KernelKind};
use crate::operations;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::worker::plan::Plan;

/// A node's output types and cost for the last types of its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    inputs: SmallVec<[Known; 3]>,
    /// `None` if the shapes depend on the inputs' values, so that only the kernel can tell them.
    pub(super) outputs: Option<SmallVec<[Known; 2]>>,
    pub(super) cost: Cost,
    pub(super) kind: KernelKind,
}

/// By node: its last memo. Kept from step to step, since shapes seldom change.
pub(crate) type Memos = Vec<Option<Memo>>;

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
    let op = &plan.node(node).op;
    let types: SmallVec<[TensorType; 3]> =
        inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
    let outputs = infer(op, &types, &[]).map_err(|problem| {
        let error = Error::new(Code::InvalidArgument, problem.to_string());
        error.in_operation(plan.node(node).name.to_string()).on(&plan.partition.task)
    })?;
    let known = |output: &TensorType| Some((output.dtype, output.shape.known()?));
    let outputs: Option<SmallVec<[Known; 2]>> = outputs.iter().map(known).collect();
    let cost = operations::cost_of(op, inputs, outputs.as_deref().unwrap_or_default());
    Ok(Memo { inputs: inputs.into(), outputs, cost, kind: KernelKind::of(op) })
}
