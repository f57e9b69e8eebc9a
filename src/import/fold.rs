//! Arithmetic on shapes, as `tf.gradients` and `tf.reshape` write it, done when the graph is
//! imported.

use super::known::{Element, Known};
use super::node::Node;
use super::tensor::dtype;
use super::value::Value;
use super::wire::Value as Attribute;
use crate::graph::Subscript;
use crate::operations::Binary;
use crate::tensor::DType;

/// The most integers in the result of a fold.
const MOST: i64 = 256;

/// The outputs of `node`, if it computes with integers that are known or belong to a shape.
pub(super) fn fold(node: &Node<'_>) -> Option<Vec<Known>> {
    match node.def.op.as_str() {
        "Shape" | "ShapeN" => {
            return node.inputs.iter().map(|input| shape(node, input)).collect();
        }
        "Size" => return size(node).map(|size| vec![size]),
        "Rank" => {
            let rank = shape(node, node.inputs.first()?)?.elements.len();
            return Some(vec![Known::scalar(DType::I32, Element::Known(rank as i64))]);
        }
        _ => {}
    }
    let inputs: Vec<&Known> =
        node.inputs.iter().map(|input| input.known.as_ref()).collect::<Option<_>>()?;
    match node.def.op.as_str() {
        "BroadcastGradientArgs" => return broadcast_gradient_args(&inputs),
        "ListDiff" => return list_diff(&inputs),
        "ConcatOffset" => return concat_offsets(&inputs),
        _ => {}
    }
    one(node, &inputs).map(|known| vec![known])
}

/// Whether operations of this kind are computed by the importer alone.
pub(super) fn knows(kind: &str) -> bool {
    const KINDS: &[&str] = &[
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "BroadcastGradientArgs",
        "ConcatOffset",
        "DynamicStitch",
        "InvertPermutation",
        "BroadcastArgs",
    ];
    KINDS.contains(&kind)
}

fn out_type(node: &Node<'_>, name: &str) -> Option<DType> {
    match node.def.attr.get(name).and_then(|attribute| attribute.value.as_ref()) {
        None => Some(DType::I32),
        Some(Attribute::Type(number)) => {
            dtype(*number).filter(|dtype| matches!(dtype, DType::I32 | DType::I64))
        }
        Some(_) => None,
    }
}

fn shape(node: &Node<'_>, value: &Value) -> Option<Known> {
    let dtype = out_type(node, "out_type")?;
    match (&value.output, &value.known) {
        (Some(output), _) => Some(Known::shape_of(output, dtype)),
        (None, Some(known)) => {
            let dims = known.dims.iter().map(|dim| Element::Known(*dim as i64));
            Some(Known::vector(dtype, dims.collect()))
        }
        (None, None) => None,
    }
}

fn size(node: &Node<'_>) -> Option<Known> {
    let shape = shape(node, node.inputs.first()?)?;
    Some(Known::scalar(shape.dtype, product(&shape)))
}

/// The output of a node that has only one.
fn one(node: &Node<'_>, inputs: &[&Known]) -> Option<Known> {
    let kind = node.def.op.as_str();
    match (kind, inputs) {
        ("Identity" | "StopGradient" | "PreventGradient" | "Snapshot", [x]) => Some((*x).clone()),
        ("Cast", [_]) if node.def.must_be("Truncate", false).is_err() => None,
        ("Cast", [x]) => Some(Known { dtype: out_type(node, "DstT")?, ..(*x).clone() }),
        ("Reshape", [x, shape]) => reshape(x, shape),
        ("ExpandDims", [x, _]) if x.dims.is_empty() => {
            Some(Known { dims: vec![1], ..(*x).clone() })
        }
        ("Squeeze", [x]) if x.dims == [1] => {
            Some(Known { dims: vec![], like: None, ..(*x).clone() })
        }
        ("Pack", [first, ..]) if node.def.int("axis", 0).ok()? == 0 => {
            let dims = [&[inputs.len()], first.dims.as_slice()].concat();
            Some(Known { dims, elements: joined(inputs), like: None, dtype: first.dtype })
        }
        ("ConcatV2", [parts @ .., axis]) => concat(parts, axis),
        ("Transpose", [x, order]) => transpose(x, order),
        ("StridedSlice", [x, begin, end, strides]) => strided_slice(node, x, [begin, end, strides]),
        ("Slice", [x, begin, size]) => slice(x, begin, size),
        ("GatherV2" | "Gather", [x, indices, ..]) if node.def.int("batch_dims", 0).ok()? == 0 => {
            gather(x, indices)
        }
        ("Range", [start, limit, delta]) => range(start, limit, delta),
        ("Fill", [dims, value]) => {
            let one = value.elements.first()?.clone();
            let count = dims.ints()?.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim))?;
            let dims = dims
                .ints()?
                .iter()
                .map(|dim| usize::try_from(*dim).ok())
                .collect::<Option<Vec<_>>>()?;
            let elements = (count <= MOST).then(|| vec![one; count as usize])?;
            Some(Known { dtype: value.dtype, dims, elements, like: None })
        }
        ("Prod", [x, axes]) => reduce(node, x, axes, product),
        ("DynamicStitch", parts) => stitch(parts),
        ("BroadcastArgs", [a, b]) => Some(broadcast_args(a, b)),
        ("InvertPermutation", [x]) => {
            let order = x.sizes()?;
            let place = |i: usize| {
                order.iter().position(|from| *from == i).map(|at| Element::Known(at as i64))
            };
            Some(Known::vector(x.dtype, (0..order.len()).map(place).collect::<Option<_>>()?))
        }
        (_, [a, b]) => elementwise(kind, a, b),
        _ => None,
    }
}

fn joined(parts: &[&Known]) -> Vec<Element> {
    parts.iter().flat_map(|part| part.elements.iter().cloned()).collect()
}

fn reshape(x: &Known, shape: &Known) -> Option<Known> {
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

fn strided_slice(node: &Node<'_>, x: &Known, [begin, end, strides]: [&Known; 3]) -> Option<Known> {
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

fn slice(x: &Known, begin: &Known, size: &Known) -> Option<Known> {
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

fn transpose(x: &Known, order: &Known) -> Option<Known> {
    let order = order.sizes()?;
    let is_order =
        order.len() == x.dims.len() && (0..order.len()).all(|axis| order.contains(&axis));
    let dims = is_order.then(|| order.iter().map(|axis| x.dims[*axis]).collect::<Vec<_>>())?;
    let place =
        |axis: usize| order.iter().position(|from| *from == axis).expect("every axis is there");
    Some(x.picked(dims, |at| (0..at.len()).map(|axis| at[place(axis)]).collect()))
}

fn concat(parts: &[&Known], axis: &Known) -> Option<Known> {
    let (first, axis) = (parts.first()?, axis.ints()?.first().copied()?);
    let axis =
        usize::try_from(if axis < 0 { axis + first.dims.len() as i64 } else { axis }).ok()?;
    let mut dims = first.dims.clone();
    *dims.get_mut(axis)? =
        parts.iter().map(|part| part.dims.get(axis).copied()).sum::<Option<usize>>()?;
    let is_alike = |part: &&Known| part.dims.len() == dims.len();
    let outer: usize = dims[..axis].iter().product();
    let chunk = |part: &Known, i: usize| {
        let size = part.elements.len().checked_div(outer)?;
        part.elements.get(i * size..(i + 1) * size).map(<[_]>::to_vec)
    };
    let chunks = (0..outer).flat_map(|i| parts.iter().map(move |part| chunk(part, i)));
    let elements = chunks.collect::<Option<Vec<_>>>()?.concat();
    let fits = parts.iter().all(is_alike) && elements.len() == dims.iter().product::<usize>();
    fits.then_some(Known { dtype: first.dtype, dims, elements, like: None })
}

fn gather(x: &Known, indices: &Known) -> Option<Known> {
    let at = |i: i64| x.elements.get(usize::try_from(i).ok()?).cloned();
    let ints = indices.ints()?;
    let elements = ints.iter().map(|i| at(*i)).collect::<Option<Vec<_>>>()?;
    let is_all = ints.iter().copied().eq(0..x.elements.len() as i64);
    let like = x.like.clone().filter(|_| is_all);
    (x.dims.len() == 1).then(|| Known {
        dtype: x.dtype,
        dims: indices.dims.clone(),
        elements,
        like,
    })
}

fn range(start: &Known, limit: &Known, delta: &Known) -> Option<Known> {
    let [start, limit, step] =
        [start, limit, delta].map(|x| x.ints().filter(|x| x.len() == 1).map(|x| x[0]));
    let (start, limit, step) = (start?, limit?, step?);
    let span = i128::from(limit) - i128::from(start);
    let count = if step == 0 { return None } else { (span / i128::from(step)).max(-1) };
    if count > i128::from(MOST) {
        return None;
    }
    let before = |value: &i64| if step > 0 { *value < limit } else { *value > limit };
    let values =
        std::iter::successors(Some(start), |value| value.checked_add(step)).take_while(before);
    Some(Known::vector(delta.dtype, values.map(Element::Known).collect()))
}

/// The product of integers; if they are the sizes of one value, its number of elements.
fn product(x: &Known) -> Element {
    if let Some(ints) = x.ints() {
        let product = ints.iter().try_fold(1i64, |product, int| product.checked_mul(*int));
        return product.map_or(Element::Unknown, Element::Known);
    }
    if let Some(like) = &x.like {
        return Element::Size(like.clone());
    }
    let others = x.elements.iter().filter(|element| element.known() != Some(1)).cloned();
    others.reduce(|a, b| computed(Binary::Mul, &a, &b)).unwrap_or(Element::Known(1))
}

/// A reduction of all elements of a vector or scalar, or of no axes.
fn reduce(
    node: &Node<'_>,
    x: &Known,
    axes: &Known,
    all: impl Fn(&Known) -> Element,
) -> Option<Known> {
    let keep = node.def.flag("keep_dims").ok()?;
    match (x.dims.len(), axes.elements.len()) {
        (0, _) | (_, 0) => Some(x.clone()),
        (1, 1) => {
            Some(Known { dims: vec![1; usize::from(keep)], ..Known::scalar(x.dtype, all(x)) })
        }
        _ => None,
    }
}

/// `DynamicStitch` of scalars: `(indices…, values…)`.
fn stitch(parts: &[&Known]) -> Option<Known> {
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
    let elements = (count <= MOST).then(|| (0..count).map(last).collect::<Option<Vec<_>>>())??;
    Some(Known::vector(values.first()?.dtype, elements))
}

fn elementwise(kind: &str, a: &Known, b: &Known) -> Option<Known> {
    let binary = arithmetic(kind)?;
    let element = |a: &Element, b: &Element| computed(binary, a, b);
    let (all, others) = (a.elements.as_slice(), b.elements.as_slice());
    let elements = match (all, others) {
        ([a], others) => others.iter().map(|b| element(a, b)).collect(),
        (all, [b]) => all.iter().map(|a| element(a, b)).collect(),
        _ if a.dims == b.dims => all.iter().zip(others).map(|(a, b)| element(a, b)).collect(),
        _ => return None,
    };
    let is_as_large = a.dims.len() == b.dims.len() && b.elements.len() == 1;
    let dims = if a.dims.len() > b.dims.len() || is_as_large { &a.dims } else { &b.dims };
    Some(Known { dtype: a.dtype, dims: dims.clone(), elements, like: None })
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
fn computed(binary: Binary, a: &Element, b: &Element) -> Element {
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

/// `(axis, shapes…)`: the position of each part in their concatenation.
fn concat_offsets(inputs: &[&Known]) -> Option<Vec<Known>> {
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

/// The shape that two shapes broadcast to.
fn broadcast_args(a: &Known, b: &Known) -> Known {
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

/// The sizes of a shape, with a 1 for each outer axis that it lacks.
fn padded(x: &Known, rank: usize) -> Vec<Element> {
    let ones = std::iter::repeat_n(Element::Known(1), rank - x.elements.len());
    ones.chain(x.elements.iter().cloned()).collect()
}

/// The integers of the first that the second has not, and their positions.
fn list_diff(inputs: &[&Known]) -> Option<Vec<Known>> {
    let [x, y] = inputs else { return None };
    let others = y.ints()?;
    let ints = x.ints()?;
    let left = || (0..).zip(&ints).filter(|(_, value)| !others.contains(value));
    let values = left().map(|(_, value)| Element::Known(*value)).collect();
    let places = left().map(|(place, _)| Element::Known(place)).collect();
    Some(vec![Known::vector(x.dtype, values), Known::vector(DType::I32, places)])
}

/// Whether the axes that two shapes are broadcast along depend on the step: a size that is unknown
/// may be 1 there.
pub(super) fn depends_on_the_step(a: &Known, b: &Known) -> bool {
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

/// The axes over which the gradients of two broadcast operands are summed. A size that is unknown
/// on both sides is taken to be the same; if it is not, the reshape that follows fails in the step.
fn broadcast_gradient_args(inputs: &[&Known]) -> Option<Vec<Known>> {
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
