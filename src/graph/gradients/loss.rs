//! The gradients of softmax and of losses.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Binary, Loss, Op, Unary};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// The gradient of a loss operation. Only its first output has a gradient.
    pub(super) fn loss(
        &self,
        id: OpId,
        operation: &Operation,
        op: Loss,
        dy: Edge,
    ) -> Result<InputGradients, GraphError> {
        let output = |output| Edge { op: id, output };
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs);
        let mul = |a, b| add(Op::Binary(Binary::Mul), &[a, b]);
        let negated = |x| add(Op::Unary(Unary::Neg), &[x]);
        Ok(match (op, operation.inputs.as_slice()) {
            (Loss::Softmax, [_]) => {
                smallvec![Some(add(Op::Loss(Loss::SoftmaxGrad), &[dy, output(0)])?)]
            }
            (Loss::LogSoftmax, [_]) => {
                smallvec![Some(add(Op::Loss(Loss::LogSoftmaxGrad), &[dy, output(0)])?)]
            }
            (Loss::SoftmaxCrossEntropyWithLogits, &[logits, labels]) => {
                let by_labels = || {
                    let logs = add(Op::Loss(Loss::LogSoftmax), &[logits])?;
                    negated(add(Op::ScaleRows, &[logs, dy])?)
                };
                let by_logits = || add(Op::ScaleRows, &[output(1), dy]);
                smallvec![self.for_input(logits, by_logits)?, self.for_input(labels, by_labels)?]
            }
            (Loss::SparseSoftmaxCrossEntropyWithLogits, [_, _]) => {
                smallvec![Some(add(Op::ScaleRows, &[output(1), dy])?), None]
            }
            (Loss::SigmoidCrossEntropyWithLogits, &[logits, labels]) => {
                let by_logits = || {
                    let sigmoid = add(Op::Unary(Unary::Sigmoid), &[logits])?;
                    mul(dy, add(Op::Binary(Binary::Sub), &[sigmoid, labels])?)
                };
                let by_labels = || negated(mul(dy, logits)?);
                smallvec![self.for_input(logits, by_logits)?, self.for_input(labels, by_labels)?]
            }
            (Loss::L2Loss, &[x]) => smallvec![Some(mul(x, dy)?)],
            _ => return Err(self.no_gradient(operation)),
        })
    }
}
