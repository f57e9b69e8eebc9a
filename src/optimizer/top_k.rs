//! Top-k: only the greatest elements of each gradient travel (Aji and Heafield 2017).
//!
//! The other elements stay with the worker, in a local variable `<variable>/residual`, and are
//! added to the next gradient (error feedback; Stich et al. 2018, Deep Gradient Compression of Lin
//! et al. 2018). The server fills the rest with zeros, and applies the gradient by any rule. A NaN
//! counts as the greatest of all, so it is sent. Residuals
//! are in a training's checkpoints; a worker that is restarted by itself begins with an empty one.
//!
//! The residual changes once the step has been counted. So a gradient that came too late and is
//! dropped leaves it as it was; and a step that is taken again, because its answer was lost,
//! selects from the same sum, with the gradient that it computes anew. If a step was applied before
//! its answer was lost, the applied selection is the first step's and the kept residual is the
//! second's; the two differ by as much as the gradients of one batch do before and after the
//! updates in between.

use crate::graph::{Edge, Gradient, Graph, GraphError, NewOperation, Op, Output, Target, Variable};
use crate::operations::{Array, Indexed};
use crate::tensor::Shape;

use super::TrainOp;

/// The least number of elements of a gradient that is sent in part: a smaller one's message is
/// mostly its header.
const LEAST: usize = 64;

/// The residuals of the gradients of a step that are sent in part.
#[derive(Default)]
pub(super) struct Selection {
    /// For each such gradient: the residual, its value as read, and its next value.
    left: Vec<(Variable, Output, Output)>,
}

impl Selection {
    /// Selects the share `fraction` of the elements of each of `pairs`. Returns the gradients as
    /// they are sent.
    #[track_caller]
    pub(super) fn sent_of(
        &mut self,
        pairs: &[(Variable, Gradient)],
        fraction: f64,
    ) -> Result<Vec<(Variable, Gradient)>, GraphError> {
        let mut sent = Vec::with_capacity(pairs.len());
        for (variable, gradient) in pairs {
            let gradient = match gradient {
                Gradient::Dense(dense) if variable.spec().shape.elements() >= LEAST => {
                    Gradient::Dense(self.select(variable, dense, fraction)?)
                }
                other => other.clone(),
            };
            sent.push((variable.clone(), gradient));
        }
        Ok(sent)
    }

    /// The sparse gradient, restored at the task of `variable`, of what is selected from `gradient`
    /// and the residual.
    #[track_caller]
    fn select(
        &mut self,
        variable: &Variable,
        gradient: &Output,
        fraction: f64,
    ) -> Result<Output, GraphError> {
        let (graph, elements) = (variable.graph(), variable.spec().shape.elements());
        let k = ((elements as f64 * fraction).ceil() as usize).clamp(1, elements);
        let name = format!("{}/residual", variable.name());
        let residual = graph.local_variable(&name, &graph.zeros([elements]))?;
        let before = residual.read();
        let sum = gradient.reshape([elements])?.add(&before)?;
        let (_, positions) = sum.abs().top_k(k)?;
        let (sent, positions) = (sum.gather(&positions, 0)?, positions.reshape([k, 1])?);
        let left = sum.tensor_scatter_update(&positions, &graph.zeros([k]))?;
        self.left.push((residual, before, left));
        let scatter = Indexed::ScatterNd(Shape::from([elements]));
        let flat = beside(graph, variable, scatter, &[positions.edge(), sent.edge()])?;
        beside(graph, variable, Array::Reshape(variable.spec().shape.into()), &[flat.edge()])
    }

    /// Returns `step`, extended to write the new residuals if its gradient was applied.
    #[track_caller]
    pub(super) fn keep_what_is_left(&self, step: TrainOp) -> Result<TrainOp, GraphError> {
        let (applied, mut targets) = (step.applied(), vec![step.end.clone()]);
        for (residual, before, left) in &self.left {
            targets.push(residual.assign(&applied.select(left, before)?)?);
        }
        let targets: Vec<&Target> = targets.iter().collect();
        let whole = step.end.graph().group("train_and_keep", &targets)?;
        Ok(TrainOp { whole, ..step })
    }
}

/// The output of `op` on the task of `variable`.
#[track_caller]
fn beside(
    graph: &Graph,
    variable: &Variable,
    op: impl Into<Op>,
    inputs: &[Edge],
) -> Result<Output, GraphError> {
    let new =
        NewOperation { inputs, colocated_with: Some(variable.op_id()), ..NewOperation::of(op) };
    Ok(graph.output(graph.add(new)?))
}
