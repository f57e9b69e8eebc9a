//! The gradients of operations that move elements: they move back.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Op};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// As [`Backward::gradient`].
    pub(super) fn array(
        &self,
        id: OpId,
        operation: &Operation,
        array: &Array,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        Ok(match (array, operation.inputs.as_slice(), arrived) {
            (Array::Reshape(_), &[x], &[Some(dy)]) => {
                smallvec![Some(self.add(id, Op::Array(Array::ReshapeLike), &[dy, x])?)]
            }
            (Array::ReshapeLike, &[x, _], &[Some(dy)]) => {
                smallvec![self.for_input(x, || self.add(id, Op::Array(Array::ReshapeLike), &[dy, x]))?, None]
            }
            _ => return Err(self.no_gradient(operation)),
        })
    }
}
