//! Values cut into parts along an axis.

use super::{Importer, Node, NodeProblem, Values, sizes};
use crate::graph::{Op, Output};
use crate::import::known::{Element, Known};
use crate::import::node::axis;
use crate::import::value::Value;
use crate::operations::{Array, Binary, Change, Dynamic, MAX_PARTS};
use crate::tensor::{DType, PartialShape};

/// `(axis, x)`: equal parts.
pub(super) fn equal(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 1)?;
    let shape = x.tensor_type().shape;
    let axis = axis(node.int(0)?, shape.rank())?;
    let parts = usize::try_from(node.def.int("num_split", 1)?).unwrap_or(0);
    let unfit =
        || NodeProblem::unsupported(format!("{parts} equal parts of axis {axis} of {shape}"));
    if !(1..=MAX_PARTS).contains(&parts) {
        return Err(unfit());
    }
    match shape.dims()[axis] {
        Some(size) if size.is_multiple_of(parts) => {
            importer.emit(node, Array::Split { axis, sizes: vec![size / parts; parts] }, &[x])
        }
        Some(_) => Err(unfit()),
        None => equal_in_a_step(importer, node, &x, axis, parts),
    }
}

/// Equal parts of an axis whose size only a step knows: one of them on each place of an axis before
/// it. A size that is no multiple of `parts` fails the step there.
fn equal_in_a_step(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    axis: usize,
    parts: usize,
) -> Values {
    let mut dims = x.tensor_type().shape.dims().to_vec();
    dims.insert(axis, Some(parts));
    let shape = PartialShape::checked(&dims).ok_or_else(|| {
        NodeProblem::unsupported(
            "a value of so many dimensions can't be split where the size of \
                                  an axis is unknown: give that size in the graph",
        )
    })?;
    let sizes = Known::shape_of(x, DType::I64).elements.into_iter().enumerate();
    let of_part = |(at, size): (usize, Element)| match at == axis {
        true => vec![Element::Known(parts as i64), Element::Known(-1)],
        false => vec![size],
    };
    let sizes = Known::vector(DType::I64, sizes.flat_map(of_part).collect());
    let sizes = sizes.materialise(importer.graph, &format!("{}/sizes_", node.def.name), 1)?;
    let parted = Dynamic { change: Change::Reshape, shape };
    let parted = importer.helper(node, "parts", parted, &[x, &sizes])?;
    importer.emit(node, Array::Unstack { axis }, &[parted])
}

/// `(x, sizes, axis)`; one of the sizes may be -1: the rest that the others leave.
pub(super) fn of_sizes(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let shape = x.tensor_type().shape;
    let axis = axis(node.int(2)?, shape.rank())?;
    let rest_of = |given: &[i64]| {
        let others = given.iter().filter(|size| **size >= 0);
        let others = others.fold(0i64, |others, size| others.saturating_add(*size));
        shape.dims()[axis].map(|all| (all as i64).saturating_sub(others))
    };
    let Ok(mut given) = node.ints(1) else { return in_a_step(importer, node, &x, axis) };
    match (given.iter().position(|size| *size == -1), rest_of(&given)) {
        (Some(open), Some(rest)) => given[open] = rest,
        (Some(_), None) => return in_a_step(importer, node, &x, axis),
        (None, _) => {}
    }
    importer.emit(node, Array::Split { axis, sizes: sizes(&given)? }, &[x])
}

/// Parts of which only a step knows the sizes; the last is the rest.
fn in_a_step(importer: &mut Importer<'_>, node: &Node<'_>, x: &Output, axis: usize) -> Values {
    let unfit = || {
        NodeProblem::unsupported(
            "where a step alone knows its sizes, or the size of its axis, the last part must be \
             -1, the rest, and no other",
        )
    };
    let given = node.known(1).map_err(|_| unfit())?.elements.clone();
    let is_rest = |size: &Element| size.known() == Some(-1);
    if given.len() > MAX_PARTS || given.iter().position(is_rest) != given.len().checked_sub(1) {
        return Err(unfit());
    }
    let dims = x.tensor_type().shape.dims().to_vec();
    let vector = |at: Element, others: i64| {
        let element = |i| if i == axis { at.clone() } else { Element::Known(others) };
        let all = Known::vector(DType::I64, (0..dims.len()).map(element).collect());
        all.materialise(importer.graph, &format!("{}/sizes_", node.def.name), 1)
    };
    let (mut begin, mut parts) = (Element::Known(0), Vec::new());
    for size in given {
        let mut cut = dims.clone();
        cut[axis] = size.known().and_then(|size| usize::try_from(size).ok());
        let shape = PartialShape::checked(&cut).ok_or_else(unfit)?;
        let (from, sizes) = (vector(begin.clone(), 0)?, vector(size.clone(), -1)?);
        let part = Dynamic { change: Change::Slice, shape };
        let part = importer.helper(node, "part", part, &[x, &from, &sizes])?;
        parts.push(Value::from(part));
        begin = match (begin.known(), size.known()) {
            (Some(begin), Some(size)) => Element::Known(begin.saturating_add(size)),
            _ => Element::of(Binary::Add, &begin, &size),
        };
    }
    importer.emit(node, Op::NoOp, &[])?;
    Ok(parts)
}
