//! The gradients of reductions: each reduced element gets its share.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Op, Reduce, Reduction};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// The gradient of a reduction of `x`.
    pub(super) fn reduce(
        &self,
        id: OpId,
        operation: &Operation,
        op: Reduce,
        (x, dy): (Edge, Edge),
    ) -> Result<InputGradients, GraphError> {
        let y = Edge { op: id, output: 0 };
        let inputs: &[Edge] = match op.reduction {
            Reduction::Sum | Reduction::Mean | Reduction::Prod => &[dy, x],
            Reduction::Max | Reduction::Min => &[dy, x, y],
            Reduction::Any | Reduction::All => return Err(self.no_gradient(operation)),
        };
        Ok(smallvec![Some(self.add(id, Op::ReduceGrad(op), inputs)?)])
    }

    /// The gradient of a reduction's gradient, if that is linear and so does not depend on `x`.
    pub(super) fn reduce_grad(
        &self,
        id: OpId,
        operation: &Operation,
        op: Reduce,
        (dy, arrived): (Edge, Edge),
    ) -> Result<InputGradients, GraphError> {
        match op.reduction {
            Reduction::Sum | Reduction::Mean => Ok(smallvec![
                self.for_input(dy, || self.add(id, Op::Reduce(op), &[arrived]))?,
                None
            ]),
            _ => Err(self.no_gradient(operation)),
        }
    }
}
