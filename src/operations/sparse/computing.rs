//! What operations on numbered rows compute.

use smallvec::smallvec;

use crate::graph::{ComputeError, Outputs, Sharding};
use crate::kernels::indexed::{self, IndexOutOfRange};
use crate::kernels::{by_word, filled_in, sparse};
use crate::operations::indexed::gathered;
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

/// For each part the rows of `x` that are of it.
pub(super) fn partition(x: &Tensor, of: &Tensor, parts: usize) -> Result<Outputs, ComputeError> {
    let shape = x.shape();
    let row = &shape.dims()[of.shape().rank()..];
    let mut lists = vec![Vec::new(); parts];
    for (at, part) in of.slice::<i32>().iter().enumerate() {
        let list = usize::try_from(*part).ok().and_then(|part| lists.get_mut(part));
        let outside = || IndexOutOfRange { index: i64::from(*part), place: at, size: parts };
        list.ok_or_else(outside)?.push(at);
    }
    let rows = of.shape().elements();
    Ok(lists.iter().map(|list| gathered_rows(x, rows, list, row)).collect())
}

/// The rows of `x` at the positions, in the shape of these.
pub(super) fn rows_at(x: &Tensor, positions: &Tensor) -> Result<Tensor, IndexOutOfRange> {
    let shape = x.shape();
    let (rows, row) = shape.dims().split_first().expect("it has rows");
    Ok(gathered_rows(x, *rows, &indexed::positions(positions, *rows)?, row))
}

fn gathered_rows(x: &Tensor, rows: usize, positions: &[usize], row: &[usize]) -> Tensor {
    let shape = Shape::new(&[&[positions.len()], row].concat());
    gathered(x, rows, positions, row.iter().product(), shape)
}

/// All rows, each at its position.
pub(super) fn stitch(positions: &[&Tensor], rows: &[&Tensor]) -> Result<Tensor, ComputeError> {
    let count = positions.iter().map(|list| list.shape().elements()).sum();
    let positions = positions.iter().map(|list| indexed::positions(list, count));
    let positions = positions.collect::<Result<Vec<_>, _>>()?;
    let mut is_placed = vec![false; count];
    for position in positions.iter().flatten() {
        if std::mem::replace(&mut is_placed[*position], true) {
            return Err(ComputeError::new(format!("two rows have the position {position}")));
        }
    }
    let (dtype, shape) = (rows[0].dtype(), rows[0].shape());
    let row = &shape.dims()[1..];
    let width = row.iter().product();
    Ok(by_word!(dtype, W => {
        filled_in::<W>(dtype, Shape::new(&[&[count], row].concat()), |out| {
            for (positions, rows) in positions.iter().zip(rows) {
                sparse::stitch(positions, rows.words(), width, out);
            }
        })
    }))
}

fn vector<T: Element>(values: &[T]) -> Tensor {
    Tensor::new([values.len()], values).expect("a vector has as many values as it has")
}
