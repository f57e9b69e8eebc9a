//! The gradients of operations that find elements by indices.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Indexed, Op};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// As [`Backward::gradient`].
    pub(super) fn indexed(
        &self,
        id: OpId,
        operation: &Operation,
        indexed: &Indexed,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let add = |op, inputs: &[Edge]| self.add(id, Op::Indexed(op), inputs);
        let zeros = |like| self.add(id, Op::Array(Array::ZerosLike), &[like]);
        let &[Some(dy)] = arrived else { return Err(self.no_gradient(operation)) };
        Ok(match (indexed, operation.inputs.as_slice()) {
            (Indexed::Gather { axis }, &[params, indices]) => {
                let spread = || add(Indexed::GatherGrad { axis: *axis }, &[dy, params, indices]);
                smallvec![self.for_input(params, spread)?, None]
            }
            (Indexed::GatherGrad { axis }, &[dz, _, indices]) => {
                smallvec![
                    self.for_input(dz, || add(Indexed::Gather { axis: *axis }, &[dy, indices]))?,
                    None,
                    None
                ]
            }
            (Indexed::GatherNd, &[params, indices]) => {
                let spread = || add(Indexed::TensorScatterAdd, &[zeros(params)?, indices, dy]);
                smallvec![self.for_input(params, spread)?, None]
            }
            (Indexed::ScatterNd(_), &[indices, updates]) => {
                smallvec![None, self.for_input(updates, || add(Indexed::GatherNd, &[dy, indices]))?]
            }
            (Indexed::TensorScatterAdd, &[x, indices, updates]) => {
                let of_updates =
                    self.for_input(updates, || add(Indexed::GatherNd, &[dy, indices]))?;
                smallvec![self.for_input(x, || Ok(dy))?, None, of_updates]
            }
            (Indexed::TensorScatterUpdate, &[x, indices, updates]) => {
                let kept = || add(Indexed::TensorScatterUpdate, &[dy, indices, zeros(updates)?]);
                let of_updates =
                    self.for_input(updates, || add(Indexed::GatherNd, &[dy, indices]))?;
                smallvec![self.for_input(x, kept)?, None, of_updates]
            }
            (Indexed::OneHot { .. }, [_]) => smallvec![None],
            _ => return Err(self.no_gradient(operation)),
        })
    }
}
