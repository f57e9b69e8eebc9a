//! A stateful operation and its inputs, as a request to the task's parameter server.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::graph::{Op, Replica, UpdateRule};
use crate::optimizer::Delta;
use crate::partition::{Node, ValueSlot};
use crate::sync::Version;
use crate::tensor::{DType, Tensor, TensorError};

use crate::runtime::codec::{verdict_from_tensor, version_from_tensor};
use crate::runtime::error::Result;
use crate::runtime::state::{
    Action, ApplyGradient, Begin, Commit, OnResource, StateValues, VariableId,
};
use crate::runtime::worker::plan::Plan;

/// The request of node `node` of `plan` to the parameter server, given its inputs.
///
/// # Errors
/// If an input has no numbers, though these decide what is done.
pub(crate) fn action(plan: &Plan, node: u32, inputs: StateValues) -> Result<Action> {
    let node = plan.node(node);
    let variable = |i: usize| plan.variables[node.variables[i] as usize];
    let mut inputs = inputs;
    if node.op.guard_at().is_some_and(|at| inputs.len() == at + 1)
        && let Some(guard) = inputs.pop()
        && !guard.is_hollow()
        && !guard.item::<bool>()?
    {
        return Ok(in_place_of(plan, node, variable(0)));
    }
    let mut inputs = inputs.into_iter();
    let mut next = || inputs.next().expect("shape inference has counted the inputs");
    Ok(match &node.op {
        Op::ReadVariable => {
            let with_version = plan.is_used(ValueSlot(node.first_output.0 + 1));
            if with_version && !plan.is_used(node.first_output) {
                // A value that nobody takes is not held, lest an update copy it: an empty gather
                // stands for it.
                let ids = Tensor::zeros(DType::I64, [0]);
                return Ok(gather(variable(0), ids));
            }
            Action::Read { variable: variable(0), with_version, origin: None }
        }
        Op::ResourceGather => gather(variable(0), with_numbers(next())?),
        Op::IsVariableInitialized => Action::IsInitialized(variable(0)),
        Op::AwaitVariable => Action::Await(variable(0)),
        Op::Assign => Action::Assign(variable(0), next()),
        Op::AssignAdd => Action::AssignAdd(variable(0), next()),
        Op::ApplyGradient { rule, is_sparse, replica } => {
            let variables = (0..node.variables.len()).map(variable).collect();
            let replica = replica.map(|one| plan.replica(one));
            let apply = apply_gradient(rule.clone(), *is_sparse, replica, variables, inputs)?;
            Action::Apply(apply)
        }
        Op::BeginStep(replica) => Action::Begin(Begin {
            global_step: variable(0),
            replica: plan.replica(*replica),
            version: least_version(inputs)?.unwrap_or_default(),
            taken: None,
        }),
        Op::CommitStep(replica) => {
            let read = next().item()?;
            let set = (1..node.variables.len()).map(|index| (variable(index), next())).collect();
            let version = match replica.mode.needs().has_votes() {
                true => Some(least_version(inputs)?.unwrap_or_default()),
                false => None,
            };
            let (global_step, replica) = (variable(0), plan.replica(*replica));
            Action::Commit(Commit { global_step, replica, read, version, set, taken: None })
        }
        Op::Fence(replica) => Action::PutUpFence { global_step: variable(0), replica: *replica },
        Op::LiftFence(replica) => Action::LiftFence { global_step: variable(0), replica: *replica },
        Op::AwaitDepartures(replica) => {
            Action::AwaitDepartures { global_step: variable(0), replica: *replica }
        }
        Op::OnResource { resource, action } => Action::OnResource(Box::new(OnResource {
            scope: plan.scope,
            spec: Arc::clone(resource),
            action: action.clone(),
            inputs: inputs.collect(),
            taken: None,
        })),
        other => panic!("{} is a kernel, not an operation on state", other.kind()),
    })
}

/// The request for the rows of `variable` at `ids`.
fn gather(variable: VariableId, ids: Tensor) -> Action {
    Action::Gather { variable, ids, origin: None }
}

/// The action in place of that of `node` if its guard does not hold: a read of the variable if its
/// value is used, else a question that always has an answer.
fn in_place_of(plan: &Plan, node: &Node, variable: VariableId) -> Action {
    match node.outputs > 0 && plan.is_used(node.first_output) {
        true => Action::Read { variable, with_version: false, origin: None },
        false => Action::IsInitialized(variable),
    }
}

/// The update of `variables` from `inputs`: a learning rate, a gradient, a verdict if the mode
/// votes, and for a `replica` one version of each variable that it has read.
fn apply_gradient(
    rule: UpdateRule,
    is_sparse: bool,
    replica: Option<Replica>,
    variables: SmallVec<[VariableId; 5]>,
    mut inputs: impl Iterator<Item = Tensor>,
) -> Result<ApplyGradient> {
    let mut next = || inputs.next().expect("shape inference has counted the inputs");
    // A variable without numbers stays the same, whatever the rate.
    let rate = next();
    let learning_rate = if rate.is_hollow() { 0.0 } else { rate.item()? };
    let value = next();
    let gradient = match is_sparse {
        true => Delta::Slices { rows: value, ids: with_numbers(next())? },
        false => Delta::Dense(value),
    };
    let votes = replica.is_some_and(|replica| replica.mode.needs().has_votes());
    let verdict = votes.then(|| verdict_from_tensor(&next())).transpose()?;
    let of = replica.zip(least_version(inputs)?);
    Ok(ApplyGradient { variables, rule, learning_rate, gradient, of, verdict, taken: None })
}

/// The least of the versions in `inputs`.
fn least_version(inputs: impl Iterator<Item = Tensor>) -> Result<Option<Version>> {
    let mut least = None;
    for input in inputs {
        let version = version_from_tensor(&input)?;
        least = Some(least.map_or(version, |least: Version| least.min(version)));
    }
    Ok(least)
}

/// `tensor`, which must have numbers, since they decide what is done.
fn with_numbers(tensor: Tensor) -> Result<Tensor, TensorError> {
    if tensor.is_hollow() {
        Err(TensorError::Hollow(tensor.dtype(), tensor.shape()))
    } else {
        Ok(tensor)
    }
}
