//! The kernels of operations on numbered rows.

use smallvec::smallvec;

use super::{Cost, KernelError, Known, Outputs};
use crate::graph::{Sharding, Sparse};
use crate::kernels::indexed::{self, positions};
use crate::kernels::sparse;
use crate::tensor::{DType, Element, Shape, Tensor};

/// As [`super::call`].
pub(super) fn call(op: &Sparse, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    Ok(match (op, inputs) {
        (Sparse::Unique, [x]) => match x.dtype() {
            DType::I32 => unique::<i32>(x),
            _ => unique::<i64>(x),
        },
        (Sparse::UnsortedSegmentSum(rows), [x, ids, like @ ..]) => {
            let rows = rows.unwrap_or_else(|| like[0].shape().dims()[0]);
            let dims = x.shape();
            let row = &dims.dims()[ids.shape().rank()..];
            let positions = positions(ids, rows)?;
            let mut out = Tensor::uninitialised::<f32>(Shape::new(&[&[rows], row].concat()));
            sparse::segment_sum(x.slice(), &positions, row.iter().product(), out.make_mut());
            smallvec![out]
        }
        (Sparse::ShardIds(sharding), [ids]) => match ids.dtype() {
            DType::I32 => shard_ids::<i32>(ids, sharding, |row| row as i32)?,
            _ => shard_ids::<i64>(ids, sharding, |row| row as i64)?,
        },
        (Sparse::Stitch, inputs) => {
            let (positions, rows) = inputs.split_at(inputs.len() / 2);
            let (count, dims) =
                (positions.iter().map(|p| p.shape().elements()).sum(), rows[0].shape());
            let row = &dims.dims()[1..];
            let mut out = Tensor::uninitialised::<f32>(Shape::new(&[&[count], row].concat()));
            let width = row.iter().product();
            for (positions, rows) in positions.iter().zip(rows) {
                sparse::stitch(positions.slice(), rows.slice(), width, out.make_mut());
            }
            smallvec![out]
        }
        (Sparse::StitchGrad, [dy, lists @ ..]) => {
            let parts = lists.iter().map(|list| gather_rows(dy, list));
            parts.collect::<Result<_, _>>()?
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    })
}

/// As [`super::cost()`]: the values that are read and written, and an addition for each summed
/// value.
pub(super) fn cost(op: &Sparse, inputs: &[Known], outputs: &[Known]) -> Cost {
    let bytes = |values: &[Known]| {
        values.iter().map(|(dtype, shape)| shape.elements() * dtype.size()).sum::<usize>()
    };
    match op {
        // The outputs are as large as the ids at most, and are counted so: how large, the values
        // decide.
        Sparse::Unique | Sparse::ShardIds(_) => {
            Cost::moved(2 * bytes(inputs) + 4 * inputs[0].1.elements())
        }
        Sparse::UnsortedSegmentSum(_) => {
            let elements = inputs[0].1.elements();
            let moved = Cost::moved(bytes(&inputs[..2]) + 4 * elements + bytes(outputs));
            Cost { flops: elements as u64, ..moved }
        }
        Sparse::Stitch => Cost::moved(bytes(inputs) + bytes(outputs)),
        Sparse::StitchGrad => Cost::moved(bytes(&inputs[1..]) + 2 * bytes(outputs)),
    }
}

/// The rows of `table` that `ids` name, in the shape of the ids; hollow, where the table is.
///
/// # Errors
/// If the table has no row of such an id.
pub(crate) fn gather_rows(
    table: &Tensor,
    ids: &Tensor,
) -> Result<Tensor, indexed::IndexOutOfRange> {
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
    indexed::gather(table.slice::<f32>(), rows, &positions, row.iter().product(), out.make_mut());
    Ok(out)
}

fn vector<T: Element>(values: &[T]) -> Tensor {
    Tensor::new([values.len()], values).expect("a vector has as many values as it has")
}

fn unique<T: Element + Into<i64>>(x: &Tensor) -> Outputs {
    let (values, index) = sparse::unique::<T>(x.slice());
    smallvec![vector(&values), vector(&index)]
}

fn shard_ids<T: Element + Into<i64>>(
    ids: &Tensor,
    sharding: &Sharding,
    narrow: impl Fn(usize) -> T,
) -> Result<Outputs, KernelError> {
    let shards = sparse::shard_ids(ids.slice(), sharding, narrow)?;
    let ids = shards.iter().map(|shard| vector(&shard.ids));
    Ok(ids.chain(shards.iter().map(|shard| vector(&shard.positions))).collect())
}
