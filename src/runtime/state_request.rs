//! A stateful operation and its inputs, as a request to the task's parameter server.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::graph::Op;
use crate::partition::Slot;

use super::messages::{Action, ApplyGradient, Values, VariableId, Verdict};
use super::plan::Plan;
use super::resources::OnResource;

/// What node `node` of `plan` asks of the parameter server, given its inputs.
pub(crate) fn action(plan: &Plan, node: u32, inputs: Values) -> Action {
    let node = plan.node(node);
    let variable = |i: usize| plan.variables[node.variables[i] as usize];
    let mut inputs = inputs.into_iter();
    let mut next = || inputs.next().expect("shape inference has counted the inputs");
    match &node.op {
        Op::ReadVariable => {
            let with_version = plan.is_used(Slot(node.first_output.0 + 1));
            Action::Read { variable: variable(0), with_version }
        }
        Op::IsVariableInitialized => Action::IsInitialized(variable(0)),
        Op::AwaitVariable => Action::Await(variable(0)),
        Op::Assign => Action::Assign(variable(0), next()),
        Op::AssignAdd => Action::AssignAdd(variable(0), next()),
        Op::ApplyGradient { rule, aggregate } => {
            let variables: SmallVec<[VariableId; 3]> = (0..node.variables.len()).map(variable).collect();
            let learning_rate = next().slice::<f32>()[0];
            let gradient = next();
            let aggregate = aggregate.map(|replica| (replica, next().slice::<i64>()[0] as u64));
            let verdict = inputs.next().map(|verdict| Verdict::from_tensor(&verdict));
            let apply = ApplyGradient { variables, rule: *rule, learning_rate, gradient, aggregate, verdict };
            Action::Apply(Box::new(apply))
        }
        Op::Vote(replica) => {
            let versions = inputs.map(|version| version.slice::<i64>()[0]).collect();
            Action::Vote { global_step: variable(0), replica: *replica, versions }
        }
        Op::CommitStep(replica) => {
            let read = next().slice::<i64>()[0];
            let verdict = inputs.next().map(|verdict| Verdict::from_tensor(&verdict));
            Action::Commit { global_step: variable(0), replica: *replica, read, verdict }
        }
        Op::OnResource { resource, action } => Action::OnResource(Box::new(OnResource {
            scope: plan.scope,
            spec: Arc::clone(resource),
            action: action.clone(),
            inputs: inputs.collect(),
        })),
        other => panic!("{} is a kernel, not an operation on state", other.kind()),
    }
}
