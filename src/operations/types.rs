//! The types of values, as shape inference asks for them.

use smallvec::{SmallVec, smallvec};

use crate::graph::{GraphProblem, OutputTypes, TensorType, agree, one};
use crate::tensor::{DType, PartialShape};

/// Dimensions under construction.
pub(super) type Dims = SmallVec<[Option<usize>; 8]>;

/// The only output, if the inputs fit.
///
/// # Errors
/// If they don't: what the operation `needs`.
pub(super) fn outputs(
    output: Option<TensorType>,
    needs: &str,
    inputs: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    output.map(|output| smallvec![output]).ok_or_else(|| GraphProblem::needs(needs, inputs))
}

/// The element type that all inputs have, if it `fits`.
fn shared(inputs: &[TensorType], fits: impl Fn(&TensorType) -> bool) -> Option<DType> {
    let first = inputs.first().filter(|first| fits(first))?.dtype;
    inputs.iter().all(|input| input.dtype == first).then_some(first)
}

pub(super) fn real(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, |input| input.dtype.is_real())
}

pub(super) fn number(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, |input| input.dtype.is_number())
}

pub(super) fn truth(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, |input| input.dtype == DType::Bool)
}

/// The shape that all inputs have, as far as it is known; `None` if they differ.
pub(super) fn matching(inputs: &[TensorType]) -> Option<PartialShape> {
    let (first, others) = inputs.split_first()?;
    others.iter().try_fold(first.shape, |shape, other| shape.merge(&other.shape))
}

/// The shape that all inputs broadcast to by the rules of NumPy: aligned at the last dimension; a
/// dimension that is 1 or missing takes the size of the other. `None` if they don't broadcast.
pub(super) fn broadcast(inputs: &[TensorType]) -> Option<PartialShape> {
    let rank = inputs.iter().map(|input| input.shape.rank()).max()?;
    let mut dims = vec![Some(1); rank];
    for input in inputs {
        let own = input.shape.dims();
        for (dim, its) in dims[rank - own.len()..].iter_mut().zip(own) {
            *dim = match (*dim, *its) {
                (Some(1), other) | (other, Some(1)) => other,
                (a, b) => agree(a, b)?,
            };
        }
    }
    Some(PartialShape::new(&dims))
}

/// One output of these dimensions; `None` if they are more than a shape can have.
pub(super) fn typed(dtype: DType, dims: &[Option<usize>]) -> Option<OutputTypes> {
    PartialShape::checked(dims).map(|shape| one(dtype, shape))
}

/// `dims` with another before `axis`.
pub(super) fn inserted(dims: &[Option<usize>], axis: usize, dim: Option<usize>) -> Dims {
    let mut inserted = Dims::from(dims);
    inserted.insert(axis, dim);
    inserted
}
