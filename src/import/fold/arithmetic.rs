//! Arithmetic on known integers, one by one.

use super::{Element, Known};
use crate::operations::Binary;
use crate::tensor::DType;

pub(super) fn elementwise(kind: &str, a: &Known, b: &Known) -> Option<Known> {
    let binary = arithmetic(kind)?;
    let element = |one: &Element, other: &Element| wrapped(a.dtype, computed(binary, one, other));
    let (all, others) = (a.elements.as_slice(), b.elements.as_slice());
    let elements = match (all, others) {
        ([a], others) => others.iter().map(|b| element(a, b)).collect(),
        (all, [b]) => all.iter().map(|a| element(a, b)).collect(),
        _ if a.dims == b.dims => all.iter().zip(others).map(|(a, b)| element(a, b)).collect(),
        _ => return None,
    };
    let whole = if all.len() == 1 { &b.dims } else { &a.dims };
    let more = a.dims.len().max(b.dims.len()) - whole.len();
    let dims = std::iter::repeat_n(1, more).chain(whole.iter().copied()).collect();
    Some(Known { dtype: a.dtype, dims, elements, like: None })
}

/// The same integers in another type.
pub(super) fn cast(x: &Known, dtype: DType) -> Known {
    let elements = x.elements.iter().map(|element| wrapped(dtype, element.clone()));
    Known { dtype, elements: elements.collect(), ..x.clone() }
}

/// The product of integers; if they are the sizes of one value, its number of elements.
pub(super) fn product(x: &Known) -> Element {
    if let Some(ints) = x.ints() {
        let ints = ints.iter().copied().map(Element::Known);
        return ints.fold(Element::Known(1), |product, int| {
            wrapped(x.dtype, computed(Binary::Mul, &product, &int))
        });
    }
    if let Some(like) = &x.like {
        return Element::Size(like.clone());
    }
    let others = x.elements.iter().filter(|element| element.known() != Some(1)).cloned();
    others.reduce(|a, b| computed(Binary::Mul, &a, &b)).unwrap_or(Element::Known(1))
}

/// An integer of type `dtype`: i32 wrap at their limits, as TensorFlow's do.
fn wrapped(dtype: DType, element: Element) -> Element {
    match element {
        Element::Known(value) if dtype == DType::I32 => Element::Known(i64::from(value as i32)),
        other => other,
    }
}

fn arithmetic(kind: &str) -> Option<Binary> {
    Some(match kind {
        "Add" | "AddV2" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "FloorDiv" => Binary::FloorDiv,
        "FloorMod" => Binary::FloorMod,
        "Maximum" => Binary::Maximum,
        "Minimum" => Binary::Minimum,
        _ => return None,
    })
}

/// One integer from two.
pub(super) fn computed(binary: Binary, a: &Element, b: &Element) -> Element {
    match (binary, a.known(), b.known()) {
        (_, Some(a), Some(b)) => integer(binary, a, b).map_or(Element::Unknown, Element::Known),
        (Binary::Mul | Binary::FloorDiv, None, Some(1))
        | (Binary::Add | Binary::Sub, None, Some(0)) => a.clone(),
        (Binary::Mul, Some(1), None) | (Binary::Add, Some(0), None) => b.clone(),
        _ => Element::of(binary, a, b),
    }
}

fn integer(binary: Binary, a: i64, b: i64) -> Option<i64> {
    match binary {
        Binary::Add => a.checked_add(b),
        Binary::Sub => a.checked_sub(b),
        Binary::Mul => a.checked_mul(b),
        Binary::FloorDiv => floor_div(a, b),
        Binary::FloorMod => floor_div(a, b).and_then(|q| a.checked_sub(q.checked_mul(b)?)),
        Binary::Maximum => Some(a.max(b)),
        Binary::Minimum => Some(a.min(b)),
        _ => None,
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
}
