//! Requests to the parameter server, for a step's operations on state.

use smallvec::SmallVec;

use crate::runtime::error::Result;
use crate::runtime::messages::StepId;
use crate::runtime::state::{StateRequest, StateValues, Ticket};
use crate::runtime::worker::plan::{Memo, Plan};
use crate::runtime::worker::state_request::action;
use crate::tensor::{DType, Shape};

use super::frame::Frame;
use super::memo::infer_types;

/// The inputs of an operation on state, which are checked to fit it.
pub(super) fn state_inputs(
    plan: &Plan,
    frame: &mut Frame,
    node: u32,
    memos: &mut [Option<Memo>],
) -> Result<StateValues> {
    let inputs: StateValues = plan.node(node).inputs.iter().map(|slot| frame.take(*slot)).collect();
    let types = inputs.iter().map(|input| (input.dtype(), input.shape()));
    let types: SmallVec<[(DType, Shape); 3]> = types.collect();
    infer_types(&mut memos[node as usize], plan, node, &types)?;
    Ok(inputs)
}

/// The request of an operation on state to the parameter server.
pub(super) fn state_request(
    plan: &Plan,
    step: StepId,
    node: u32,
    inputs: StateValues,
) -> Result<StateRequest> {
    let action = action(plan, node, inputs);
    let action = action
        .map_err(|error| error.in_operation(&*plan.node(node).name).on(&plan.partition.task))?;
    let ticket = Ticket { step, device: plan.partition.device, node };
    Ok(StateRequest { ticket, epoch: plan.epoch, action })
}
