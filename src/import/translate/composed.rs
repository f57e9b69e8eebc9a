//! Arithmetic that is no operation here: each is composed of several.

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::operations::{Binary, Broadcast, Compare, Unary};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "IsFinite" => Box::new(|importer, node| to_infinity(importer, node, Compare::Less)),
        "TruncateDiv" => Box::new(truncated_quotient),
        "TruncateMod" => Box::new(truncated_remainder),
        _ => return None,
    })
}

/// How the size of each element compares to infinity.
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
