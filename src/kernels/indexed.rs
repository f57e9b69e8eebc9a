//! Kernels that find slices by their index.
//!
//! Indices are checked before, and come as positions ([`positions`], [`nd_positions`]); repeated
//! indices take effect in their order.

use super::number::Number;
use super::parallel::for_chunks;
use crate::graph::ComputeError;
use crate::tensor::{DType, Shape, Tensor};

/// An index outside its axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the index {index}, at place {place} of the indices, is outside its axis, which has {size} \
     positions from 0 on"
)]
pub struct IndexOutOfRange {
    /// The index.
    pub index: i64,
    /// The index's place among all indices, in row-major order.
    pub place: usize,
    /// The size of the axis.
    pub size: usize,
}

impl From<IndexOutOfRange> for ComputeError {
    fn from(error: IndexOutOfRange) -> Self {
        Self::new(error.to_string())
    }
}

/// The rows of `table` that `ids` name, in the shape of the ids; hollow, where the table is.
///
/// # Errors
/// If the table has no row of such an id.
pub(crate) fn gather_rows(table: &Tensor, ids: &Tensor) -> Result<Tensor, IndexOutOfRange> {
    let (rows, row) = table
        .shape()
        .dims()
        .split_first()
        .map(|(rows, row)| (*rows, row.to_vec()))
        .unwrap_or_default();
    let positions = positions(ids, rows)?;
    let shape = Shape::new(&[ids.shape().dims(), &row].concat());
    if table.is_hollow() {
        return Ok(Tensor::hollow(table.dtype(), shape));
    }
    let mut out = Tensor::uninitialised::<f32>(shape);
    gather(table.slice::<f32>(), rows, &positions, row.iter().product(), out.make_mut());
    Ok(out)
}

/// The indices, i32 or i64, as positions of an axis of `size`.
///
/// # Errors
/// For the first index that is outside the axis.
pub(crate) fn positions(indices: &Tensor, size: usize) -> Result<Vec<usize>, IndexOutOfRange> {
    nd_positions(indices, &[size])
}

/// The position that each row of the indices, i32 or i64, is in a dense value of dimensions `dims`.
///
/// # Errors
/// For the first index that is outside its axis.
pub(crate) fn nd_positions(
    indices: &Tensor,
    dims: &[usize],
) -> Result<Vec<usize>, IndexOutOfRange> {
    if dims.is_empty() {
        let (rows, _) = indices.shape().rows_and_columns();
        return Ok(vec![0; rows]);
    }
    match indices.dtype() {
        DType::I32 => checked(indices.slice::<i32>(), dims),
        _ => checked(indices.slice::<i64>(), dims),
    }
}

fn checked<I: Copy + Into<i64>>(
    indices: &[I],
    dims: &[usize],
) -> Result<Vec<usize>, IndexOutOfRange> {
    let within = |place: usize, index: i64, size: usize| {
        let position = usize::try_from(index).ok().filter(|position| *position < size);
        position.ok_or(IndexOutOfRange { index, place, size })
    };
    let row = |(row, indices): (usize, &[I])| {
        (0..).zip(indices).zip(dims).try_fold(0, |flat, ((column, index), size)| {
            Ok(flat * size + within(row * dims.len() + column, (*index).into(), *size)?)
        })
    };
    indices.chunks(dims.len()).enumerate().map(row).collect()
}

/// For each of the outer slices of `params`, of `size` slices of `width` elements, those at the
/// positions (TensorFlow `GatherV2`, `GatherNd`).
pub(crate) fn gather<T: Copy + Send + Sync>(
    params: &[T],
    size: usize,
    positions: &[usize],
    width: usize,
    out: &mut [T],
) {
    if out.is_empty() {
        return;
    }
    for_chunks(out, width, |begin, out| {
        let first = begin / width;
        let (mut outer, mut at) = (first / positions.len(), first % positions.len());
        for out in out.chunks_mut(width) {
            out.copy_from_slice(&params[(outer * size + positions[at]) * width..][..width]);
            at += 1;
            if at == positions.len() {
                (outer, at) = (outer + 1, 0);
            }
        }
    });
}

/// Adds each slice of `updates` to the slice of `out` that [`gather`] would find in its place.
pub(crate) fn scatter_add<T: Number>(
    updates: &[T],
    size: usize,
    positions: &[usize],
    width: usize,
    out: &mut [T],
) {
    scatter(updates, size, positions, width, out, |out, updates| {
        out.iter_mut().zip(updates).for_each(|(out, update)| *out = out.plus(*update));
    });
}

/// Replaces the slice of `out` at each position by the slice of `updates`.
pub(crate) fn scatter_update<T: Copy + Send + Sync>(
    updates: &[T],
    positions: &[usize],
    width: usize,
    out: &mut [T],
) {
    let size = out.len().checked_div(width).unwrap_or(0);
    scatter(updates, size, positions, width, out, <[T]>::copy_from_slice);
}

fn scatter<T: Copy + Send + Sync>(
    updates: &[T],
    size: usize,
    positions: &[usize],
    width: usize,
    out: &mut [T],
    put: impl Fn(&mut [T], &[T]) + Sync,
) {
    if updates.is_empty() || out.is_empty() {
        return;
    }
    let (block, updates_of_block) = (size * width, positions.len() * width);
    for_chunks(out, block, |begin, out| {
        let updates = updates.chunks(updates_of_block).skip(begin / block);
        for (out, updates) in out.chunks_mut(block).zip(updates) {
            for (position, update) in positions.iter().zip(updates.chunks(width)) {
                put(&mut out[position * width..][..width], update);
            }
        }
    });
}

/// `on` at the index along an axis of `depth`, and `off` elsewhere. Outside the axis are the outer
/// slices of the indices; inside it are `inner` indices each (TensorFlow `OneHot`).
pub(crate) fn one_hot<T: Copy>(
    indices: &Tensor,
    depth: usize,
    inner: usize,
    (on, off): (T, T),
    out: &mut [T],
) {
    out.fill(off);
    let mut mark = |(i, index): (usize, i64)| {
        if let Some(position) = usize::try_from(index).ok().filter(|position| *position < depth) {
            out[(i / inner * depth + position) * inner + i % inner] = on;
        }
    };
    match indices.dtype() {
        DType::I32 => indices
            .slice::<i32>()
            .iter()
            .map(|index| i64::from(*index))
            .enumerate()
            .for_each(&mut mark),
        _ => indices.slice::<i64>().iter().copied().enumerate().for_each(&mut mark),
    }
}
