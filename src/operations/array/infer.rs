//! The outputs of operations that move elements.

use smallvec::smallvec;

use super::range::range_len;
use super::{Array, range, slices};
use crate::graph::{GraphProblem, OutputTypes, TensorType, agree, one};
use crate::operations::types::{Dims, inserted, typed};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The most parts that one operation takes a tensor apart into: a graph from elsewhere names their
/// number in a few bytes, and each part takes memory.
pub(crate) const MAX_PARTS: usize = 1 << 16;

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Array, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Array::Reshape(shape), [x]) => (
            reshape(x.shape, *shape).map(|shape| one(x.dtype, shape)),
            format!("as many elements as the shape {shape}"),
        ),
        (Array::ReshapeLike, [x, like]) => (
            reshape_like(x.shape, like.shape).map(|shape| one(x.dtype, shape)),
            "two of as many elements".to_owned(),
        ),
        (Array::Concat { axis }, [_, ..]) => (
            concat(*axis, inputs),
            format!("one type, an axis {axis}, and shapes that differ along it alone"),
        ),
        (Array::Split { axis, sizes }, [x]) => (
            split(*x, *axis, sizes),
            format!("an axis {axis} that is as long as {sizes:?} together"),
        ),
        (Array::SplitLike { axis }, [x, parts @ ..]) => (
            split_like(*x, *axis, parts),
            format!("an axis {axis} as long as those of the others together"),
        ),
        (Array::Stack { axis }, [_, ..]) => (
            stack(*axis, inputs),
            format!("one type and shape, with room for an axis before axis {axis}"),
        ),
        (Array::Unstack { axis }, [x]) => {
            let needs = format!("an axis {axis} of known size, {MAX_PARTS} at most");
            (unstack(*x, *axis), needs)
        }
        (Array::TileGrad(multiples), [x]) => (
            tile_grad(*x, multiples),
            format!("a floating-point number of dimensions that are multiples of {multiples:?}"),
        ),
        (Array::BroadcastTo(shape), [x]) => (
            broadcast_to(x.shape, *shape).map(|shape| one(x.dtype, shape)),
            format!("a shape that can be repeated to fill {shape}"),
        ),
        (Array::Range { start, limit, delta }, []) => {
            (range(start, limit, delta), range::needs(start, limit, delta).to_owned())
        }
        (Array::Shape(dtype), [x]) => {
            (dtype.is_integer().then(|| one(*dtype, [x.shape.rank()])), INDEX.to_owned())
        }
        (Array::Size(dtype), [_]) => {
            (dtype.is_integer().then(|| one(*dtype, Shape::SCALAR)), INDEX.to_owned())
        }
        (Array::Rank, [_]) => (Some(one(DType::I32, Shape::SCALAR)), String::new()),
        (Array::StridedSliceGrad(subscripts), [dy, x]) => (
            slices::strided_grad(subscripts, *dy, *x),
            "the gradient of what the subscripts take of the other".to_owned(),
        ),
        (op, [x]) => match moved(op, *x) {
            Some((dims, needs)) => (dims.and_then(|dims| typed(x.dtype, &dims)), needs),
            None => (None, "another number of inputs".to_owned()),
        },
        _ => (None, "another number of inputs".to_owned()),
    };
    outputs.ok_or_else(|| GraphProblem::needs(&needs, inputs))
}

const INDEX: &str = "i32 or i64 as the type of a size";

/// The dimensions of the only output of an operation of one input, and the inputs that it needs, in
/// words.
fn moved(op: &Array, x: TensorType) -> Option<(Option<Dims>, String)> {
    let dims = x.shape.dims();
    let is_axis = |axis: &usize| *axis < dims.len();
    let unchanged = |fits: bool| fits.then(|| Dims::from(dims));
    Some(match op {
        Array::ExpandDims(axis) => (
            (*axis <= dims.len()).then(|| inserted(dims, *axis, Some(1))),
            format!("at least {axis} dimensions, and fewer than the most that a shape can have"),
        ),
        Array::Squeeze(axes) => {
            (squeeze(dims, axes), format!("dimensions of size 1 at the axes {axes:?}"))
        }
        Array::Transpose(order) => {
            (transpose(dims, order), format!("one dimension for each of {order:?}"))
        }
        Array::Slice { begin, size } => (
            slices::slice(dims, begin, size),
            format!("dimensions that hold {size:?} elements from {begin:?} on"),
        ),
        Array::StridedSlice(subscripts) => (
            slices::strided(dims, subscripts),
            format!("an axis for each subscript, and a position on it, of {subscripts:?}"),
        ),
        Array::Pad { paddings, value } => (
            slices::pad(dims, paddings)
                .filter(|_| value.dtype() == x.dtype && value.shape().rank() == 0),
            format!(
                "a padding for each axis, of {paddings:?}, and a scalar of its type, not {value:?}"
            ),
        ),
        Array::MirrorPad { paddings, mirror } => (
            slices::mirror_pad(dims, paddings, *mirror),
            format!(
                "a padding for each axis, of {paddings:?}, and no axis shorter than its padding"
            ),
        ),
        Array::MirrorPadGrad { paddings, mirror } => (
            slices::mirror_pad_grad(dims, paddings, *mirror).filter(|_| x.dtype.is_real()),
            format!("a floating-point gradient that was padded by {paddings:?}"),
        ),
        Array::Tile(multiples) => {
            (tile(dims, multiples), format!("one dimension for each of {multiples:?}"))
        }
        Array::Reverse(axes) => (unchanged(axes.iter().all(is_axis)), format!("the axes {axes:?}")),
        Array::Cumsum { axis, .. } => (
            unchanged(is_axis(axis) && x.dtype.is_number()),
            format!("numbers, and an axis {axis}"),
        ),
        Array::ZerosLike => (unchanged(true), String::new()),
        _ => return None,
    })
}

/// The shape `to`, with an open dimension filled in if it follows from `from`; `None` if the counts
/// of elements differ.
fn reshape(from: PartialShape, to: PartialShape) -> Option<PartialShape> {
    let Some(from) = from.known() else { return Some(to) };
    let is_open = to.dims().contains(&None);
    let open = if is_open { Some(left_open(from.dims(), to.dims())?) } else { None };
    let dims: Vec<Option<usize>> = to.dims().iter().map(|dim| dim.or(open)).collect();
    PartialShape::checked(&dims).filter(|to| to.known().is_some_and(|to| is_as_many(from, to)))
}

/// The shape `like`, in which sizes of the step may be open.
fn reshape_like(from: PartialShape, like: PartialShape) -> Option<PartialShape> {
    let open = like.dims().iter().filter(|dim| dim.is_none()).count();
    if open < 2 { reshape(from, like) } else { Some(like) }
}

fn is_as_many(a: Shape, b: Shape) -> bool {
    a.elements() == b.elements()
}

/// The size of the one dimension that is open in `to`, for as many elements as `from` has. Where a
/// size of `to` is 0, those of both that are 0 are left out, as TensorFlow does.
pub(super) fn left_open(from: &[usize], to: &[Option<usize>]) -> Option<usize> {
    if to.iter().filter(|dim| dim.is_none()).count() != 1 {
        return None;
    }
    let has_zero = to.contains(&Some(0));
    let is_counted = |dim: &usize| !has_zero || *dim > 0;
    let all = from.iter().copied().filter(is_counted).try_fold(1, usize::checked_mul)?;
    let others = to.iter().copied().flatten().filter(is_counted).try_fold(1, usize::checked_mul)?;
    let is_empty = has_zero && from.contains(&0); // then any size leaves no elements
    (is_empty || all % others == 0).then(|| all / others)
}

fn squeeze(dims: &[Option<usize>], axes: &[usize]) -> Option<Dims> {
    let is_one = |axis: &usize| dims.get(*axis).is_some_and(|dim| dim.is_none_or(|dim| dim == 1));
    let left =
        || (0..).zip(dims).filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| *dim).collect();
    axes.iter().all(is_one).then(left)
}

fn transpose(dims: &[Option<usize>], order: &[usize]) -> Option<Dims> {
    let is_permutation =
        order.len() == dims.len() && (0..dims.len()).all(|axis| order.contains(&axis));
    is_permutation.then(|| order.iter().map(|axis| dims[*axis]).collect())
}

/// The element type that all inputs have.
fn one_type(inputs: &[TensorType]) -> Option<DType> {
    let dtype = inputs.first()?.dtype;
    inputs.iter().all(|input| input.dtype == dtype).then_some(dtype)
}

/// The dimensions of a concatenation: those that all inputs share, and the sum along `axis`.
fn joined(axis: usize, inputs: &[TensorType]) -> Option<Dims> {
    let mut dims = Dims::from(inputs.first()?.shape.dims());
    *dims.get_mut(axis)? = Some(0);
    for input in inputs {
        if input.shape.rank() != dims.len() {
            return None;
        }
        for (at, (known, dim)) in dims.iter_mut().zip(input.shape.dims()).enumerate() {
            *known = match (*known, *dim) {
                (Some(sum), Some(dim)) if at == axis => Some(sum.checked_add(dim)?),
                _ if at == axis => None,
                (known, dim) => agree(known, dim)?,
            };
        }
    }
    Some(dims)
}

fn concat(axis: usize, inputs: &[TensorType]) -> Option<OutputTypes> {
    typed(one_type(inputs)?, &joined(axis, inputs)?)
}

fn split(x: TensorType, axis: usize, sizes: &[usize]) -> Option<OutputTypes> {
    let whole = sizes.iter().try_fold(0usize, |whole, size| whole.checked_add(*size))?;
    agree(*x.shape.dims().get(axis)?, Some(whole))?;
    let part = |size: &usize| {
        let mut dims = Dims::from(x.shape.dims());
        dims[axis] = Some(*size);
        TensorType::new(x.dtype, PartialShape::new(&dims))
    };
    Some(sizes.iter().map(part).collect())
}

fn split_like(x: TensorType, axis: usize, parts: &[TensorType]) -> Option<OutputTypes> {
    let whole = PartialShape::checked(&joined(axis, parts)?)?;
    whole.merge(&x.shape)?;
    (one_type(parts)? == x.dtype).then(|| parts.iter().copied().collect())
}

fn stack(axis: usize, inputs: &[TensorType]) -> Option<OutputTypes> {
    let dtype = one_type(inputs)?;
    let shape =
        inputs.iter().try_fold(inputs[0].shape, |shape, input| shape.merge(&input.shape))?;
    (axis <= shape.rank())
        .then(|| inserted(shape.dims(), axis, Some(inputs.len())))
        .and_then(|dims| typed(dtype, &dims))
}

fn unstack(x: TensorType, axis: usize) -> Option<OutputTypes> {
    let mut dims = Dims::from(x.shape.dims());
    let count = (*dims.get(axis)?).filter(|count| *count <= MAX_PARTS)?;
    dims.remove(axis);
    Some(smallvec![TensorType::new(x.dtype, PartialShape::new(&dims)); count])
}

fn tile(dims: &[Option<usize>], multiples: &[usize]) -> Option<Dims> {
    let tiled = |(dim, multiple): (&Option<usize>, &usize)| match (dim, multiple) {
        (_, 0) => Some(Some(0)),
        (None, _) => Some(None),
        (Some(dim), multiple) => dim.checked_mul(*multiple).map(Some),
    };
    (dims.len() == multiples.len()).then(|| dims.iter().zip(multiples).map(tiled).collect())?
}

fn tile_grad(x: TensorType, multiples: &[usize]) -> Option<OutputTypes> {
    let part = |(dim, multiple): (&Option<usize>, &usize)| match dim {
        None => Some(None),
        Some(dim) => (*multiple > 0 && dim.is_multiple_of(*multiple)).then(|| Some(dim / multiple)),
    };
    let fits = x.dtype.is_real() && x.shape.rank() == multiples.len();
    let dims: Option<Dims> = x.shape.dims().iter().zip(multiples).map(part).collect();
    typed(x.dtype, &dims.filter(|_| fits)?)
}

/// The shape `to`, with each open dimension filled in from `from`.
fn broadcast_to(from: PartialShape, to: PartialShape) -> Option<PartialShape> {
    let new = to.rank().checked_sub(from.rank())?;
    let mut dims = Dims::from(to.dims());
    if dims[..new].contains(&None) {
        return None;
    }
    for (to, from) in dims[new..].iter_mut().zip(from.dims()) {
        match (*to, *from) {
            (None, from) => *to = from,
            (Some(_), None | Some(1)) => {}
            (Some(to), Some(from)) => (to == from).then_some(())?,
        }
    }
    PartialShape::checked(&dims)
}

fn range(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Option<OutputTypes> {
    let scalars = [start, limit, delta];
    let fits = scalars.iter().all(|x| x.dtype() == start.dtype() && x.shape().rank() == 0);
    let count = fits.then(|| range_len(start, limit, delta))??;
    Some(one(start.dtype(), [count]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_size_beside_a_size_of_zero_leaves_zeros_out() {
        let reshaped = |from: &[usize], to: &[Option<usize>]| {
            reshape(PartialShape::from(Shape::new(from)), PartialShape::new(to))
                .and_then(|shape| Some(shape.known()?.dims().to_vec()))
        };
        assert_eq!(reshaped(&[0, 3, 4], &[Some(0), None]), Some(vec![0, 12]));
        assert_eq!(reshaped(&[0, 4], &[None, Some(0), Some(2)]), Some(vec![2, 0, 2]));
        assert_eq!(reshaped(&[0, 3], &[Some(0), Some(2), None]), Some(vec![0, 2, 1]));
        assert_eq!(reshaped(&[0, 4], &[None, Some(3)]), Some(vec![0, 3]));
        assert_eq!(reshaped(&[2, 6], &[None, Some(4)]), Some(vec![3, 4]));
        assert_eq!(reshaped(&[2, 3], &[Some(0), None]), None);
        assert_eq!(reshaped(&[2, 3], &[None, Some(4)]), None);
        assert_eq!(reshaped(&[2, 3], &[None, None]), None);
    }
}
