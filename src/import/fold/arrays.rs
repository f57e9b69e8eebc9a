//! Vectors of known integers, cut, joined and put in another order.

use super::arithmetic::computed;
use super::{Element, Known, MOST, Node};
use crate::graph::Subscript;
use crate::operations::Binary;
use crate::tensor::DType;

pub(super) fn joined(parts: &[&Known]) -> Vec<Element> {
    parts.iter().flat_map(|part| part.elements.iter().cloned()).collect()
}

pub(super) fn reshape(x: &Known, shape: &Known) -> Option<Known> {
    let asked = shape.ints()?;
    let known = asked
        .iter()
        .filter(|dim| **dim >= 0)
        .try_fold(1i64, |known, dim| known.checked_mul(*dim))?;
    let rest = (x.elements.len() as i64).checked_div(known);
    let dim = |dim: &i64| usize::try_from(if *dim < 0 { rest? } else { *dim }).ok();
    let dims = asked.iter().map(dim).collect::<Option<Vec<usize>>>()?;
    let count = dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))?;
    let like = x.like.clone().filter(|_| dims.len() == 1 && x.dims.len() == 1);
    (count == x.elements.len()).then(|| Known { dims, like, ..x.clone() })
}

pub(super) fn strided_slice(
    node: &Node<'_>,
    x: &Known,
    [begin, end, strides]: [&Known; 3],
) -> Option<Known> {
    let ([begin], [end], [stride]) = (&begin.ints()?[..], &end.ints()?[..], &strides.ints()?[..])
    else {
        return None;
    };
    let mask = |name| node.def.int(name, 0).ok().map(|mask| mask & 1 == 1);
    if x.dims.len() != 1 || mask("new_axis_mask")? || mask("ellipsis_mask")? {
        return None;
    }
    let is_one = mask("shrink_axis_mask")?;
    let (begin, end) =
        ((!mask("begin_mask")?).then_some(*begin), (!mask("end_mask")?).then_some(*end));
    let every = Subscript::Every { begin, end, stride: *stride };
    let subscript = if is_one { Subscript::At(begin?) } else { every };
    let positions = subscript.positions(x.elements.len())?;
    let at = |i: usize| {
        x.elements[(positions.first as isize + i as isize * positions.stride) as usize].clone()
    };
    let elements: Vec<Element> = (0..positions.count).map(at).collect();
    Some(if is_one {
        Known::scalar(x.dtype, elements[0].clone())
    } else {
        Known::vector(x.dtype, elements)
    })
}

pub(super) fn slice(x: &Known, begin: &Known, size: &Known) -> Option<Known> {
    let (begin, sizes) = (begin.sizes()?, size.ints()?);
    if begin.len() != x.dims.len() || sizes.len() != x.dims.len() {
        return None;
    }
    let size = |(axis, size): (usize, &i64)| {
        let rest = x.dims[axis].checked_sub(begin[axis])?;
        if *size < 0 {
            Some(rest)
        } else {
            usize::try_from(*size).ok().filter(|size| *size <= rest)
        }
    };
    let dims = sizes.iter().enumerate().map(size).collect::<Option<Vec<_>>>()?;
    Some(x.picked(dims, |at| at.iter().zip(&begin).map(|(at, begin)| at + begin).collect()))
}

pub(super) fn transpose(x: &Known, order: &Known) -> Option<Known> {
    let order = order.sizes()?;
    let is_order =
        order.len() == x.dims.len() && (0..order.len()).all(|axis| order.contains(&axis));
    let dims = is_order.then(|| order.iter().map(|axis| x.dims[*axis]).collect::<Vec<_>>())?;
    let place =
        |axis: usize| order.iter().position(|from| *from == axis).expect("every axis is there");
    Some(x.picked(dims, |at| (0..at.len()).map(|axis| at[place(axis)]).collect()))
}

pub(super) fn concat(parts: &[&Known], axis: &Known) -> Option<Known> {
    let (first, axis) = (parts.first()?, axis.ints()?.first().copied()?);
    let axis =
        usize::try_from(if axis < 0 { axis + first.dims.len() as i64 } else { axis }).ok()?;
    let mut dims = first.dims.clone();
    *dims.get_mut(axis)? =
        parts.iter().try_fold(0usize, |joined, part| joined.checked_add(*part.dims.get(axis)?))?;
    let is_alike = |part: &&Known| part.dims.len() == dims.len();
    let count = dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))?;
    let given: usize = parts.iter().map(|part| part.elements.len()).sum();
    if count != given || count > MOST || !parts.iter().all(is_alike) {
        return None;
    }
    // Without elements, the axes before this one may be of any size.
    let outer = if count == 0 { 0 } else { dims[..axis].iter().product() };
    let chunk = |part: &Known, i: usize| {
        let size = part.elements.len().checked_div(outer)?;
        part.elements.get(i * size..(i + 1) * size).map(<[_]>::to_vec)
    };
    let chunks = (0..outer).flat_map(|i| parts.iter().map(move |part| chunk(part, i)));
    let elements = chunks.collect::<Option<Vec<_>>>()?.concat();
    Some(Known { dtype: first.dtype, dims, elements, like: None })
}

pub(super) fn gather(x: &Known, indices: &Known) -> Option<Known> {
    let at = |i: i64| x.elements.get(usize::try_from(i).ok()?).cloned();
    let ints = indices.ints()?;
    let elements = ints.iter().map(|i| at(*i)).collect::<Option<Vec<_>>>()?;
    let is_all = indices.dims.len() == 1 && ints.iter().copied().eq(0..x.elements.len() as i64);
    let like = x.like.clone().filter(|_| is_all);
    (x.dims.len() == 1).then(|| Known {
        dtype: x.dtype,
        dims: indices.dims.clone(),
        elements,
        like,
    })
}

pub(super) fn range(start: &Known, limit: &Known, delta: &Known) -> Option<Known> {
    let [start, limit, step] =
        [start, limit, delta].map(|x| x.ints().filter(|x| x.len() == 1).map(|x| x[0]));
    let (start, limit, step) = (start?, limit?, step?);
    let span = i128::from(limit) - i128::from(start);
    let count = if step == 0 { return None } else { (span / i128::from(step)).max(-1) };
    if count > MOST as i128 {
        return None;
    }
    if span.signum() == -i128::from(step.signum()) {
        return None; // it goes away from its limit
    }
    let before = |value: &i64| if step > 0 { *value < limit } else { *value > limit };
    let values =
        std::iter::successors(Some(start), |value| value.checked_add(step)).take_while(before);
    Some(Known::vector(delta.dtype, values.map(Element::Known).collect()))
}

/// `DynamicStitch` of scalars: `(indices…, values…)`.
pub(super) fn stitch(parts: &[&Known]) -> Option<Known> {
    let (indices, values) = parts.split_at(parts.len() / 2);
    let mut placed: Vec<(i64, Element)> = Vec::new();
    for (indices, values) in indices.iter().zip(values) {
        let ints = indices.ints()?;
        if ints.len() != values.elements.len() {
            return None;
        }
        placed.extend(ints.into_iter().zip(values.elements.iter().cloned()));
    }
    let count = placed.iter().map(|(index, _)| index.saturating_add(1)).max()?;
    let last = |i: i64| {
        placed.iter().rev().find(|(index, _)| *index == i).map(|(_, element)| element.clone())
    };
    let elements =
        (count <= MOST as i64).then(|| (0..count).map(last).collect::<Option<Vec<_>>>())??;
    Some(Known::vector(values.first()?.dtype, elements))
}

/// `(axis, shapes…)`: the position of each part in their concatenation.
pub(super) fn concat_offsets(inputs: &[&Known]) -> Option<Vec<Known>> {
    let (axis, shapes) = inputs.split_first()?;
    let axis = usize::try_from(*axis.ints()?.first()?).ok()?;
    let mut before = Element::Known(0);
    let mut offsets = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let element = |at: usize| if at == axis { before.clone() } else { Element::Known(0) };
        offsets.push(Known::vector(shape.dtype, (0..shape.elements.len()).map(element).collect()));
        before = computed(Binary::Add, &before, shape.elements.get(axis)?);
    }
    Some(offsets)
}

/// `ListDiff` of two vectors: the integers of the first that are not in the second, and their
/// positions in the first.
pub(super) fn list_diff(inputs: &[&Known]) -> Option<Vec<Known>> {
    let [x, y] = inputs else { return None };
    let others = y.ints()?;
    let ints = x.ints()?;
    let left = || (0..).zip(&ints).filter(|(_, value)| !others.contains(value));
    let values = left().map(|(_, value)| Element::Known(*value)).collect();
    let places = left().map(|(place, _)| Element::Known(place)).collect();
    Some(vec![Known::vector(x.dtype, values), Known::vector(DType::I32, places)])
}
