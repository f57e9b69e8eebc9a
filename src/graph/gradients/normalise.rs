//! The gradients of normalisation and dropout.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Normalise, Op};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// As [`Backward::gradient`]. The mean and the variance that a batch was normalised by have none of their own.
    pub(super) fn normalise(
        &self,
        id: OpId,
        operation: &Operation,
        normalise: Normalise,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let [Some(dy), others @ ..] = arrived else { return Err(self.no_gradient(operation)) };
        if others.iter().any(Option::is_some) {
            return Err(self.no_gradient(operation));
        }
        let gradients = |op, inputs: &[Edge]| -> Result<InputGradients, GraphError> {
            let by_x = self.add(id, Op::Normalise(op), inputs)?;
            Ok((0..3).map(|output| Some(Edge { output, ..by_x })).collect())
        };
        match (normalise, operation.inputs.as_slice()) {
            (Normalise::Batch { epsilon }, &[x, scale, _]) => {
                let [mean, variance] = [1, 2].map(|output| Edge { op: id, output });
                gradients(Normalise::BatchGrad { epsilon }, &[*dy, x, scale, mean, variance])
            }
            (Normalise::Layer { epsilon }, &[x, scale, _]) => {
                gradients(Normalise::LayerGrad { epsilon }, &[*dy, x, scale])
            }
            (Normalise::Dropout { .. }, &[_, counter]) => {
                Ok(smallvec![Some(self.add(id, Op::Normalise(normalise), &[*dy, counter])?), None])
            }
            _ => Err(self.no_gradient(operation)),
        }
    }
}
