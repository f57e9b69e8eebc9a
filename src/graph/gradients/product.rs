//! The gradients of matrix products.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Op};
use crate::graph::{Edge, OpId};

impl Backward<'_> {
    /// `da = dy·bᵀ` and `db = aᵀ·dy`, transposed along with the factors.
    pub(super) fn matmul(
        &self,
        id: OpId,
        dy: Edge,
        [(a, ta), (b, tb)]: [(Edge, bool); 2],
    ) -> Result<InputGradients, GraphError> {
        let product = |x, transpose_a, y, transpose_b| {
            self.add(id, Op::MatMul { transpose_a, transpose_b }, &[x, y])
        };
        let da = || if ta { product(b, tb, dy, true) } else { product(dy, false, b, !tb) };
        let db = || if tb { product(dy, true, a, ta) } else { product(a, !ta, dy, false) };
        Ok(smallvec![self.for_input(a, da)?, self.for_input(b, db)?])
    }

    /// The same for each pair of matrices, summed over the pairs that a factor was repeated for.
    pub(super) fn batch_matmul(
        &self,
        id: OpId,
        dy: Edge,
        [(x, ax), (y, ay)]: [(Edge, bool); 2],
    ) -> Result<InputGradients, GraphError> {
        let product = |x, adj_x, y, adj_y| self.add(id, Op::BatchMatMul { adj_x, adj_y }, &[x, y]);
        let dx = || {
            self.filled(
                id,
                if ax { product(y, ay, dy, true) } else { product(dy, false, y, !ay) }?,
                x,
            )
        };
        let dy = || {
            self.filled(
                id,
                if ay { product(dy, true, x, ax) } else { product(x, !ax, dy, false) }?,
                y,
            )
        };
        Ok(smallvec![self.for_input(x, dx)?, self.for_input(y, dy)?])
    }

    /// Sums a gradient of the repeated `x` to the shape of `x`.
    fn filled(&self, id: OpId, gradient: Edge, x: Edge) -> Result<Edge, GraphError> {
        let shape = |edge| self.graph.tensor_type(edge).shape;
        let never_repeated = shape(gradient).known().is_some() && shape(gradient) == shape(x);
        if never_repeated {
            return Ok(gradient);
        }
        self.add(id, Op::Array(Array::BroadcastToGrad), &[gradient, x])
    }
}
