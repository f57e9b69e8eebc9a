//! Greyscale dilation, as the greatest of its taps. Of equal ones the first counts, and alone gets
//! the gradient.

use super::window::height_and_width;
use super::{Importer, Node, NodeProblem, Translate};
use crate::graph::{Op, Output, Subscript, gradients};
use crate::operations::{Array, Binary, Broadcast, Compare};
use crate::tensor::Tensor;

/// The most elements of a filter.
const MOST: usize = 64;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Dilation2D" => Box::new(|importer, node| {
            let (x, filter) = (importer.input(node, 0)?, importer.input(node, 1)?);
            let y = dilated(importer, node, &x, &filter)?;
            importer.emit(node, Op::Identity, &[y])
        }),
        "Dilation2DBackpropInput" => gradient(0),
        "Dilation2DBackpropFilter" => gradient(1),
        _ => return None,
    })
}

/// `(x, filter, dy)`: the gradient by the input `by`.
fn gradient(by: usize) -> Translate {
    Box::new(move |importer, node| {
        // What arrives may be computed from the inputs: copies of them are not in its past.
        let copy =
            |i: usize| importer.helper(node, "of", Op::Identity, &[&importer.input(node, i)?]);
        let (operands, dy) = ([copy(0)?, copy(1)?], importer.input(node, 2)?);
        let y = dilated(importer, node, &operands[0], &operands[1])?;
        let found = back(importer, node, [&y, &dy, &operands[by]])?;
        importer.emit(node, Op::Identity, &[found])
    })
}

/// The gradient by `x` of what `y` is computed from it, where `dy` arrives; in a scope, since nodes
/// that are yet to come have names of their own.
pub(super) fn back(
    importer: &Importer<'_>,
    node: &Node<'_>,
    [y, dy, x]: [&Output; 3],
) -> Result<Output, NodeProblem> {
    Ok(importer.graph.with_name_scope(&importer.free_name(node, "back"), |_| {
        let found = gradients(&y.mul(dy)?.sum(), std::slice::from_ref(x))?;
        Ok(found.into_iter().next().flatten().unwrap_or_else(|| x.zeros_like()))
    })?)
}

/// The elements of an axis that a tap takes.
struct Along {
    before: usize,
    after: usize,
    rate: usize,
    stride: usize,
    results: usize,
}

impl Along {
    fn of(size: usize, taps: usize, [rate, stride]: [usize; 2], is_same: bool) -> Option<Self> {
        let extent = (taps - 1).checked_mul(rate)?.checked_add(1)?;
        let results = match is_same {
            true => size.div_ceil(stride),
            false => size.checked_sub(extent)? / stride + 1,
        };
        let needed = (results.max(1) - 1).checked_mul(stride)?.checked_add(extent)?;
        let padding = if is_same { needed.saturating_sub(size) } else { 0 };
        let before = padding / 2;
        Some(Self { before, after: padding - before, rate, stride, results })
    }

    fn tap(&self, i: usize) -> Subscript {
        let begin = i * self.rate;
        let end = begin + (self.results.max(1) - 1) * self.stride + 1;
        let stride = self.stride as i64;
        Subscript::Every { begin: Some(begin as i64), end: Some(end as i64), stride }
    }
}

/// The greatest of the elements that the filter covers, each with the filter's added.
fn dilated(
    importer: &Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    filter: &Output,
) -> Result<Output, NodeProblem> {
    let (dims, taps) = (x.tensor_type().shape, filter.tensor_type().shape);
    let (&[_, Some(height), Some(width), _], &[Some(down), Some(across), _]) =
        (dims.dims(), taps.dims())
    else {
        return Err(NodeProblem::unsupported("the heights and widths must be known"));
    };
    if down * across == 0 || down * across > MOST {
        let problem = format!("a filter must have 1 to {MOST} elements, not {down} × {across}");
        return Err(NodeProblem::unsupported(problem));
    }
    let (rates, strides) = (height_and_width(node, "rates")?, height_and_width(node, "strides")?);
    let is_same = match node.def.text("padding")? {
        "SAME" => true,
        "VALID" => false,
        other => return Err(NodeProblem::unsupported(format!("the padding {other}"))),
    };
    let too_large = || NodeProblem::unsupported("the filter is larger than the image");
    let rows = Along::of(height, down, [rates[0], strides[0]], is_same).ok_or_else(too_large)?;
    let columns =
        Along::of(width, across, [rates[1], strides[1]], is_same).ok_or_else(too_large)?;
    let value = Tensor::scalar_of(x.tensor_type().dtype, f64::from(f32::MIN));
    let paddings = vec![(0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0)];
    let padded = importer.helper(node, "padded", Array::Pad { paddings, value }, &[x])?;
    let mut greatest: Option<Output> = None;
    for (i, j) in (0..down).flat_map(|i| (0..across).map(move |j| (i, j))) {
        let part = Array::StridedSlice(vec![Subscript::ALL, rows.tap(i), columns.tap(j)]);
        let part = importer.helper(node, "part", part, &[&padded])?;
        let own = Array::StridedSlice(vec![Subscript::At(i as i64), Subscript::At(j as i64)]);
        let own = importer.helper(node, "element", own, &[filter])?;
        let tap = importer.helper(node, "tap", Binary::Add, &[&part, &own])?;
        greatest = Some(match greatest {
            None => tap,
            Some(greatest) => {
                let more = importer.helper(node, "more", Compare::Greater, &[&tap, &greatest])?;
                let inputs = [&more, &tap, &greatest];
                importer.helper(node, "greatest", Broadcast::Select, &inputs)?
            }
        });
    }
    greatest.ok_or_else(too_large)
}
