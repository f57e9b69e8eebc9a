//! The dimensions of parts of values, and of padded values.

use crate::graph::{Mirror, OutputTypes, Subscript, TensorType, agree};
use crate::operations::types::Dims;
use crate::tensor::PartialShape;

/// The dimensions of the part of `size` that begins at `begin`.
pub(super) fn slice(
    dims: &[Option<usize>],
    begin: &[usize],
    size: &[Option<usize>],
) -> Option<Dims> {
    if dims.len() != begin.len() || dims.len() != size.len() {
        return None;
    }
    let part = |((dim, begin), size): ((&Option<usize>, &usize), &Option<usize>)| match (dim, size)
    {
        (Some(dim), Some(size)) => (begin.checked_add(*size)? <= *dim).then_some(Some(*size)),
        (Some(dim), None) => dim.checked_sub(*begin).map(Some),
        (None, size) => Some(*size),
    };
    dims.iter().zip(begin).zip(size).map(part).collect()
}

/// The dimensions of the part that the subscripts take.
pub(super) fn strided(dims: &[Option<usize>], subscripts: &[Subscript]) -> Option<Dims> {
    let (mut taken, mut left) = (Dims::new(), dims);
    for subscript in subscripts {
        if *subscript == Subscript::NewAxis {
            taken.push(Some(1));
            continue;
        }
        let (dim, rest) = left.split_first()?;
        left = rest;
        let positions = dim.map(|dim| subscript.positions(dim));
        match (subscript, positions) {
            (_, Some(None)) | (Subscript::Every { stride: 0 | i64::MIN, .. }, _) => return None,
            (Subscript::At(_), _) => {}
            (_, positions) => taken.push(positions.flatten().map(|positions| positions.count)),
        }
    }
    taken.extend_from_slice(left);
    Some(taken)
}

pub(super) fn strided_grad(
    subscripts: &[Subscript],
    dy: TensorType,
    x: TensorType,
) -> Option<OutputTypes> {
    let taken = PartialShape::checked(&strided(x.shape.dims(), subscripts)?)?;
    (taken.merge(&dy.shape).is_some() && x.dtype.is_real() && dy.dtype == x.dtype)
        .then(|| smallvec::smallvec![x])
}

/// The dimensions with the paddings added.
pub(super) fn pad(dims: &[Option<usize>], paddings: &[(usize, usize)]) -> Option<Dims> {
    let padded = |(dim, (before, after)): (&Option<usize>, &(usize, usize))| {
        let padding = before.checked_add(*after)?;
        dim.map_or(Some(None), |dim| dim.checked_add(padding).map(Some))
    };
    (dims.len() == paddings.len()).then(|| dims.iter().zip(paddings).map(padded).collect())?
}

/// The same for mirrored paddings: a side's padding is at most the axis's size without the mirror's
/// own element.
pub(super) fn mirror_pad(
    dims: &[Option<usize>],
    paddings: &[(usize, usize)],
    mirror: Mirror,
) -> Option<Dims> {
    let own = usize::from(mirror == Mirror::Reflect);
    let fits = |(dim, (before, after)): (&Option<usize>, &(usize, usize))| {
        let widest = *before.max(after);
        dim.is_none_or(|dim| widest == 0 || widest.saturating_add(own) <= dim)
    };
    pad(dims, paddings).filter(|_| dims.iter().zip(paddings).all(fits))
}

/// The dimensions of the value that was padded to `dims`.
pub(super) fn mirror_pad_grad(
    dims: &[Option<usize>],
    paddings: &[(usize, usize)],
    mirror: Mirror,
) -> Option<Dims> {
    let inner = |(dim, (before, after)): (&Option<usize>, &(usize, usize))| match dim {
        None => Some(None),
        Some(dim) => dim.checked_sub(*before)?.checked_sub(*after).map(Some),
    };
    let inner: Option<Dims> = dims.iter().zip(paddings).map(inner).collect();
    let padded = mirror_pad(inner.as_ref()?, paddings, mirror)?;
    let is_same =
        padded.len() == dims.len() && padded.iter().zip(dims).all(|(a, b)| agree(*a, *b).is_some());
    inner.filter(|_| is_same)
}
