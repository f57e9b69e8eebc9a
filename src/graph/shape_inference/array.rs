//! What operations that move elements give.

use super::{OutputTypes, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Array;
use crate::tensor::PartialShape;

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] where they don't fit.
pub(super) fn infer(op: &Array, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Array::Reshape(shape), [x]) => (
            reshape(x.shape, *shape).map(|shape| one(x.dtype, shape)),
            format!("as many elements as the shape {shape}"),
        ),
        (Array::ReshapeLike, [x, like]) => {
            (reshape(x.shape, like.shape).map(|shape| one(x.dtype, shape)), "two of as many elements".to_owned())
        }
        _ => (None, "another number of inputs".to_owned()),
    };
    outputs.ok_or_else(|| refused(&needs, inputs))
}

/// The shape `to`, with a dimension that it leaves open where `from` tells it; `None` where the counts differ.
fn reshape(from: PartialShape, to: PartialShape) -> Option<PartialShape> {
    let Some(elements) = from.known().map(|shape| shape.elements()) else { return Some(to) };
    let known: usize = to.dims().iter().flatten().product();
    match to.dims().iter().filter(|dim| dim.is_none()).count() {
        0 => (known == elements).then_some(to),
        1 if known > 0 && elements.is_multiple_of(known) => {
            let dims: Vec<Option<usize>> = to.dims().iter().map(|dim| dim.or(Some(elements / known))).collect();
            Some(PartialShape::new(&dims))
        }
        _ => None,
    }
}
