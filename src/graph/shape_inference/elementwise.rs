//! The outputs of elementwise operations: broadcast shapes, and element types.

use super::{OutputTypes, agree, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::{Logical, Op};
use crate::tensor::{DType, PartialShape};

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Op, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (dtype, needs) = element_type(op, inputs);
    let shape = match (op, inputs) {
        (Op::UnaryGrad(_) | Op::AddN, _) => merged(inputs),
        (Op::SumToLike, [dy, x]) => {
            broadcast(inputs).filter(|all| all.rank() == dy.shape.rank()).map(|_| x.shape)
        }
        _ => broadcast(inputs),
    };
    dtype.zip(shape).map(|(dtype, shape)| one(dtype, shape)).ok_or_else(|| refused(needs, inputs))
}

/// The element type of the result, `None` if those of the inputs don't fit; and the inputs that
/// would fit, in words.
fn element_type(op: &Op, inputs: &[TensorType]) -> (Option<DType>, &'static str) {
    match (op, inputs) {
        (Op::Unary(unary), [_]) if unary.takes_integers() => {
            (number(inputs), "one f32, f64, i32 or i64")
        }
        (Op::Unary(_), [_]) => (real(inputs), "one f32 or f64"),
        (Op::UnaryGrad(_), [_, _]) => (real(inputs), "two f32 or two f64 of one shape"),
        (Op::Binary(_), [_, _]) => {
            (number(inputs), "two numbers of one type, of shapes that broadcast")
        }
        (Op::Compare(comparison), [_, _]) if comparison.takes_truth() => {
            let comparable = number(inputs).or_else(|| truth(inputs));
            (
                comparable.map(|_| DType::Bool),
                "two numbers of one type or two bool, of shapes that broadcast",
            )
        }
        (Op::Compare(_), [_, _]) => (
            number(inputs).map(|_| DType::Bool),
            "two numbers of one type, of shapes that broadcast",
        ),
        (Op::Logical(Logical::Not), [_]) => (truth(inputs), "one bool"),
        (Op::Logical(Logical::And | Logical::Or), [_, _]) => {
            (truth(inputs), "two bool, of shapes that broadcast")
        }
        (Op::Select, [condition, a, b]) => {
            let fits = condition.dtype == DType::Bool && a.dtype == b.dtype;
            (
                fits.then_some(a.dtype),
                "a bool condition and two values of one type, of shapes that broadcast",
            )
        }
        (Op::SumToLike, [_, _]) => {
            (real(inputs), "a gradient and a value that was broadcast to its shape")
        }
        (Op::AddN, [_, ..]) => (number(inputs), "numbers of one type and shape"),
        _ => (None, "another number of inputs"),
    }
}

/// The element type that all inputs have, if it `fits`.
fn shared(inputs: &[TensorType], fits: impl Fn(&TensorType) -> bool) -> Option<DType> {
    let first = inputs.first().filter(|first| fits(first))?.dtype;
    inputs.iter().all(|input| input.dtype == first).then_some(first)
}

fn real(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, TensorType::is_real)
}

fn number(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, TensorType::is_number)
}

fn truth(inputs: &[TensorType]) -> Option<DType> {
    shared(inputs, |input| input.dtype == DType::Bool)
}

/// The shape that all inputs have, as far as it is known; `None` if they differ.
fn merged(inputs: &[TensorType]) -> Option<PartialShape> {
    let (first, others) = inputs.split_first()?;
    others.iter().try_fold(first.shape, |shape, other| shape.merge(&other.shape))
}

/// The shape that all inputs broadcast to by the rules of NumPy: aligned at the last dimension; a
/// dimension that is 1 or missing takes the size of the other. `None` if they don't broadcast.
fn broadcast(inputs: &[TensorType]) -> Option<PartialShape> {
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
