//! What operations on numbered rows compute.

use smallvec::smallvec;

use crate::graph::{ComputeError, Outputs, Sharding};
use crate::kernels::indexed::IndexOutOfRange;
use crate::kernels::sparse;
use crate::tensor::{Element, Shape, Tensor};

/// The positions of the elements that hold.
pub(super) fn places(x: &Tensor) -> Result<Tensor, ComputeError> {
    let shape = x.shape();
    let dims = shape.dims();
    let mut rows: Vec<i64> = Vec::new();
    for at in (0..).zip(x.slice::<bool>()).filter(|(_, holds)| **holds).map(|(at, _)| at) {
        let mut rest: usize = at;
        let first = rows.len();
        rows.resize(first + dims.len(), 0);
        for (axis, dim) in dims.iter().enumerate().rev() {
            rows[first + axis] = (rest % dim) as i64;
            rest /= dim;
        }
    }
    let count = x.slice::<bool>().iter().filter(|holds| **holds).count();
    Ok(Tensor::new([count, dims.len()], &rows)?)
}

pub(super) fn set_difference<T: Element + Into<i64> + Ord>(
    x: &Tensor,
    y: &Tensor,
) -> Result<Outputs, ComputeError> {
    let (sets, size) = x.shape().rows_and_columns();
    let (_, others) = y.shape().rows_and_columns();
    let (mut places, mut values, mut most) = (Vec::new(), Vec::new(), 0);
    for set in 0..sets {
        let row: std::collections::BTreeSet<T> =
            x.slice::<T>()[set * size..][..size].iter().copied().collect();
        let other = &y.slice::<T>()[set * others..][..others];
        let left = row.into_iter().filter(|value| !other.contains(value));
        let first = values.len();
        values.extend(left);
        most = most.max(values.len() - first);
        places.extend((0..(values.len() - first) as i64).flat_map(|at| [set as i64, at]));
    }
    let places = Tensor::new([values.len(), 2], &places)?;
    Ok(smallvec![places, vector(&values), vector(&[sets as i64, most as i64])])
}

pub(super) fn unique<T: Element + Into<i64>>(x: &Tensor) -> Outputs {
    let (values, index) = sparse::unique::<T>(x.slice());
    smallvec![vector(&values), vector(&index)]
}

pub(super) fn list_diff<T: Element + Into<i64> + Ord>(x: &Tensor, y: &Tensor) -> Outputs {
    let others: std::collections::BTreeSet<&T> = y.slice::<T>().iter().collect();
    let left = x.slice::<T>().iter().enumerate().filter(|(_, value)| !others.contains(value));
    let (positions, values): (Vec<i32>, Vec<T>) = left.map(|(at, x)| (at as i32, *x)).unzip();
    smallvec![vector(&values), vector(&positions)]
}

/// The sum of the rows of each id. Rows whose id is below 0 go to one row more, which is cut off.
pub(super) fn sum_of_segments(
    x: &Tensor,
    ids: &Tensor,
    rows: usize,
    row: &[usize],
) -> Result<Tensor, ComputeError> {
    let ids = ids.integers();
    let position = |(place, id): (usize, &i64)| match usize::try_from(*id) {
        Err(_) => Ok(rows),
        Ok(position) if position < rows => Ok(position),
        Ok(_) => Err(IndexOutOfRange { index: *id, place, size: rows }),
    };
    let positions = ids.iter().enumerate().map(position).collect::<Result<Vec<_>, _>>()?;
    let shape = |rows: usize| Shape::new(&[&[rows], row].concat());
    let width = row.iter().product();
    let has_more = positions.contains(&rows);
    let mut out = Tensor::uninitialised::<f32>(shape(rows + usize::from(has_more)));
    sparse::segment_sum(x.slice(), &positions, width, out.make_mut());
    if !has_more {
        return Ok(out);
    }
    Ok(Tensor::new(shape(rows), &out.slice::<f32>()[..rows * width])?)
}

pub(super) fn shard_ids<T: Element + Into<i64>>(
    ids: &Tensor,
    sharding: &Sharding,
    narrow: impl Fn(usize) -> T,
) -> Result<Outputs, ComputeError> {
    let shards = sparse::shard_ids(ids.slice(), sharding, narrow)?;
    let ids = shards.iter().map(|shard| vector(&shard.ids));
    Ok(ids.chain(shards.iter().map(|shard| vector(&shard.positions))).collect())
}

fn vector<T: Element>(values: &[T]) -> Tensor {
    Tensor::new([values.len()], values).expect("a vector has as many values as it has")
}
