//! Arithmetic that is no operation here: each is composed of several.

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Axes, Op, Output, Reduction};
use crate::import::node::axes;
use crate::operations::{Array, Binary, Broadcast, Cast, Compare, Logical, Reduce, Unary};
use crate::tensor::{DType, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "IsFinite" => Box::new(|importer, node| to_infinity(importer, node, Compare::Less)),
        "IsInf" => Box::new(|importer, node| to_infinity(importer, node, Compare::Equal)),
        "MulNoNan" => Box::new(multiply_no_nan),
        "TruncateDiv" => Box::new(truncated_quotient),
        "TruncateMod" => Box::new(truncated_remainder),
        "EuclideanNorm" => Box::new(euclidean_norm),
        "Bucketize" => Box::new(bucketize),
        _ => return None,
    })
}

/// Compares the absolute value of each element with infinity.
fn to_infinity(importer: &mut Importer<'_>, node: &Node<'_>, compare: Compare) -> Values {
    let x = importer.input(node, 0)?;
    let dtype = x.tensor_type().dtype;
    if !dtype.is_float() {
        return Err(NodeProblem::unsupported(format!("{dtype} is no type of real numbers")));
    }
    let infinity = importer.scalar(node, "infinity", &x, f64::INFINITY)?;
    let size = importer.helper(node, "abs", Unary::Abs, &[&x])?;
    importer.emit(node, compare, &[size, infinity])
}

/// `(x, y)`: the product, and 0 where `y` is 0, even of an `x` that is infinite or NaN. No other
/// `x` is replaced: it is the gradient for `y`.
fn multiply_no_nan(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, y) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let zero = importer.scalar(node, "zero", &x, 0.0)?;
    let infinity = importer.scalar(node, "infinity", &x, f64::INFINITY)?;
    let is_zero = importer.helper(node, "is_zero", Compare::Equal, &[&y, &zero])?;
    let size = importer.helper(node, "abs", Unary::Abs, &[&x])?;
    let is_finite = importer.helper(node, "is_finite", Compare::Less, &[&size, &infinity])?;
    let other = importer.helper(node, "other", Broadcast::Select, &[&is_zero, &zero, &x])?;
    let safe = importer.helper(node, "safe", Broadcast::Select, &[&is_finite, &x, &other])?;
    importer.emit(node, Binary::Mul, &[safe, y])
}

/// The quotient without its fraction. TensorFlow has no gradient for it.
fn truncated_quotient(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    if !a.tensor_type().dtype.is_float() {
        return importer.emit(node, Binary::Div, &[a, b]);
    }
    let quotient = importer.helper(node, "quotient", Binary::Div, &[&a, &b])?;
    let zero = importer.scalar(node, "zero", &quotient, 0.0)?;
    let is_below = importer.helper(node, "is_below", Compare::Less, &[&quotient, &zero])?;
    let up = importer.helper(node, "up", Unary::Ceil, &[&quotient])?;
    let down = importer.helper(node, "down", Unary::Floor, &[&quotient])?;
    importer.emit(node, Broadcast::Select, &[is_below, up, down])
}

/// The remainder of integers, with the sign of the first.
fn truncated_remainder(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    if a.tensor_type().dtype.is_float() {
        return Err(NodeProblem::unsupported(
            "a truncated remainder of floats does not exist here",
        ));
    }
    let quotient = importer.helper(node, "quotient", Binary::Div, &[&a, &b])?;
    let whole = importer.helper(node, "whole", Binary::Mul, &[&quotient, &b])?;
    importer.emit(node, Binary::Sub, &[a, whole])
}

/// `(x, axes)`
fn euclidean_norm(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let axes: Axes = axes(&node.ints(1)?, x.tensor_type().shape.rank())?.into_iter().collect();
    let keep_dims = node.def.flag("keep_dims")?;
    let squares = importer.helper(node, "squares", Unary::Square, &[&x])?;
    let sum = Reduce { reduction: Reduction::Sum, axes, keep_dims };
    let sum = importer.helper(node, "sum", sum, &[&squares])?;
    importer.emit(node, Unary::Sqrt, &[sum])
}

/// For each element the number of boundaries, which are sorted, that it is not below.
fn bucketize(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x: Output = importer.input(node, 0)?;
    let kind = x.tensor_type();
    // As in C++: an integer becomes an f32, as the boundaries are, and these an f64 beside one.
    let dtype = if kind.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let boundaries = node.def.floats("boundaries")?;
    if !boundaries.is_sorted() {
        return Err(NodeProblem::unsupported("its boundaries must be sorted"));
    }
    let boundaries = Tensor::new([boundaries.len()], boundaries)
        .map_err(|error| NodeProblem::unsupported(error.to_string()))?;
    let boundaries = importer.helper(node, "boundaries", Op::Const(boundaries), &[])?;
    let boundaries = importer.helper(node, "boundaries", Cast(dtype), &[&boundaries])?;
    let numbers = importer.helper(node, "numbers", Cast(dtype), &[&x])?;
    let rank = kind.shape.rank();
    let column = importer.helper(node, "column", Array::ExpandDims(rank), &[&numbers])?;
    let is_below = importer.helper(node, "is_below", Compare::Less, &[&column, &boundaries])?;
    // NaN is below none, and goes into the last bucket.
    let is_past = importer.helper(node, "is_past", Logical::Not, &[&is_below])?;
    let passed = importer.helper(node, "passed", Cast(DType::I32), &[&is_past])?;
    let axes = [rank].into_iter().collect();
    importer.emit(node, Reduce { reduction: Reduction::Sum, axes, keep_dims: false }, &[passed])
}
