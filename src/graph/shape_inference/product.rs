//! The outputs of matrix products.

use smallvec::SmallVec;

use super::reduce::is_real;
use super::{OutputTypes, agree, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::tensor::PartialShape;

/// The outputs of [`Op::MatMul`](crate::graph::Op::MatMul) for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(
    inputs: &[TensorType],
    transpose_a: bool,
    transpose_b: bool,
) -> Result<OutputTypes, GraphProblem> {
    let outputs = match inputs {
        [a, b] if a.shape.rank() == 2 && b.shape.rank() == 2 => {
            product(*a, *b, transpose_a, transpose_b)
        }
        _ => None,
    };
    outputs.ok_or_else(|| refused("f32 or f64 matrices whose inner dimensions agree", inputs))
}

/// The outputs of [`Op::BatchMatMul`](crate::graph::Op::BatchMatMul) for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer_batch(
    inputs: &[TensorType],
    adj_x: bool,
    adj_y: bool,
) -> Result<OutputTypes, GraphProblem> {
    let outputs = match inputs {
        [x, y] => product(*x, *y, adj_x, adj_y),
        _ => None,
    };
    let needs = "f32 or f64 matrices whose inner dimensions agree, and as many of each, or one";
    outputs.ok_or_else(|| refused(needs, inputs))
}

fn product(
    a: TensorType,
    b: TensorType,
    transpose_a: bool,
    transpose_b: bool,
) -> Option<OutputTypes> {
    let ([a_batch @ .., a0, a1], [b_batch @ .., b0, b1]) = (a.shape.dims(), b.shape.dims()) else {
        return None;
    };
    if !is_real(a.dtype) || a.dtype != b.dtype {
        return None;
    }
    let (rows, inner_a) = if transpose_a { (a1, a0) } else { (a0, a1) };
    let (inner_b, columns) = if transpose_b { (b1, b0) } else { (b0, b1) };
    agree(*inner_a, *inner_b)?;
    let mut dims = broadcast(a_batch, b_batch)?;
    dims.extend([*rows, *columns]);
    Some(one(a.dtype, PartialShape::new(&dims)))
}

/// The dimensions that both broadcast to; `None` if they don't broadcast.
fn broadcast(a: &[Option<usize>], b: &[Option<usize>]) -> Option<SmallVec<[Option<usize>; 8]>> {
    let (more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut dims: SmallVec<[Option<usize>; 8]> = more.into();
    let last = more.len() - fewer.len();
    for (dim, other) in dims[last..].iter_mut().zip(fewer) {
        *dim = match (*dim, *other) {
            (Some(1), other) => other,
            (dim, Some(1)) => dim,
            (None, Some(more)) | (Some(more), None) => Some(more),
            (dim, other) => agree(dim, other)?,
        };
    }
    Some(dims)
}
