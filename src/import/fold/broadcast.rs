//! The shapes of values that are broadcast to each other.

use super::arithmetic::computed;
use super::{Element, Known};
use crate::operations::Binary;

/// The shape that two shapes broadcast to.
pub(super) fn broadcast_args(a: &Known, b: &Known) -> Known {
    let rank = a.elements.len().max(b.elements.len());
    let element = |(a, b): (Element, Element)| match (a.known(), b.known()) {
        (Some(1), _) => b,
        (_, Some(1)) | (Some(_), _) => a,
        (None, Some(_)) => b,
        (None, None) => computed(Binary::Maximum, &a, &b),
    };
    let both = padded(a, rank).into_iter().zip(padded(b, rank));
    Known::vector(a.dtype, both.map(element).collect())
}

/// The axes over which the gradients of two broadcast operands are summed. A size that is unknown
/// on both sides is taken to be the same; if it is not, the reshape that follows fails in the step.
pub(super) fn broadcast_gradient_args(inputs: &[&Known]) -> Option<Vec<Known>> {
    let [a, b] = inputs else { return None };
    let rank = a.elements.len().max(b.elements.len());
    let (one, other) = (padded(a, rank), padded(b, rank));
    let summed = |x: &[Element], y: &[Element]| {
        let is_spread = |axis: &usize| x[*axis].known() == Some(1) && y[*axis].known() != Some(1);
        let axes = (0..rank).filter(is_spread).map(|axis| Element::Known(axis as i64));
        Known::vector(a.dtype, axes.collect())
    };
    Some(vec![summed(&one, &other), summed(&other, &one)])
}

/// Whether the axes that two shapes are broadcast along depend on the step: a size that is unknown
/// may be 1 there.
pub(in crate::import) fn depends_on_the_step(a: &Known, b: &Known) -> bool {
    let rank = a.elements.len().max(b.elements.len());
    let is_open = |(a, b): (Element, Element)| match (a.known(), b.known()) {
        (None, None) => !is_same_size(&a, &b),
        (None, Some(other)) | (Some(other), None) => other != 1,
        (Some(_), Some(_)) => false,
    };
    padded(a, rank).into_iter().zip(padded(b, rank)).any(is_open)
}

fn is_same_size(a: &Element, b: &Element) -> bool {
    match (a, b) {
        (Element::Dim(a, of_a), Element::Dim(b, of_b)) => a.edge() == b.edge() && of_a == of_b,
        _ => false,
    }
}

/// The sizes of a shape, with a 1 for each outer axis that it lacks.
fn padded(x: &Known, rank: usize) -> Vec<Element> {
    let ones = std::iter::repeat_n(Element::Known(1), rank - x.elements.len());
    ones.chain(x.elements.iter().cloned()).collect()
}
