//! The gradients of normalisation and dropout.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Norm, Op};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// The gradient of a normalisation or a dropout. Of a normalisation's outputs only `y` has a
    /// gradient; a dropout's gradient is dropped out by the same mask.
    pub(super) fn norm(
        &self,
        id: OpId,
        operation: &Operation,
        op: Norm,
        dy: Edge,
    ) -> Result<InputGradients, GraphError> {
        let output = |output| Edge { op: id, output };
        let add = |op, inputs: &[Edge]| self.add(id, Op::Norm(op), inputs);
        let (by, inputs) = match (op, operation.inputs.as_slice()) {
            (Norm::Batch { epsilon }, inputs @ &[x, scale, _]) => {
                let moments = [output(1), output(3)];
                let op = Norm::BatchGrad { epsilon, is_training: true };
                (add(op, &[dy, x, scale, moments[0], moments[1]])?, inputs)
            }
            (Norm::BatchInference { epsilon }, inputs @ &[x, scale, _, mean, variance]) => {
                if self.depends(mean) || self.depends(variance) {
                    return Err(self.no_gradient(operation));
                }
                (
                    add(
                        Norm::BatchGrad { epsilon, is_training: false },
                        &[dy, x, scale, mean, variance],
                    )?,
                    inputs,
                )
            }
            (Norm::Layer { .. }, inputs @ &[x, scale, _]) => {
                (add(Norm::LayerGrad, &[dy, x, scale, output(1), output(2)])?, inputs)
            }
            (Norm::Dropout { .. }, &[_, counter]) => {
                return Ok(smallvec![Some(add(op, &[dy, counter])?), None]);
            }
            _ => return Err(self.no_gradient(operation)),
        };
        let part = |(output, x): (u32, &Edge)| {
            (output < 3 && self.depends(*x)).then_some(Edge { output, ..by })
        };
        Ok((0..).zip(inputs).map(part).collect())
    }
}
