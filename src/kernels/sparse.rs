//! Kernels on rows that are found by their number: duplicates, sums, shards.
//!
//! Ids are checked before, and come as positions ([`super::indexed::positions`]).

use super::parallel::vectorised;
use crate::graph::{ComputeError, Sharding};

/// An id without a row in its table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id {id} is no row of `{table}`, which has {rows} rows from 0 on")]
pub(crate) struct NoSuchRow {
    /// The table.
    pub(crate) table: String,
    /// The id.
    pub(crate) id: i64,
    /// The number of rows.
    pub(crate) rows: usize,
}

impl From<NoSuchRow> for ComputeError {
    fn from(error: NoSuchRow) -> Self {
        Self::new(error.to_string())
    }
}

/// The different values of `x` in the order of their first occurrence, and for each element of `x`
/// the index of its value among them (TensorFlow `Unique`).
///
/// By a hash table of twice the size, probed from a place that depends on the value alone.
pub(crate) fn unique<T: Copy + PartialEq + Into<i64>>(x: &[T]) -> (Vec<T>, Vec<i32>) {
    const EMPTY: u32 = u32::MAX;
    let bits = (2 * x.len()).next_power_of_two().trailing_zeros().max(1);
    let mut places = vec![EMPTY; 1 << bits];
    let (mut values, mut index): (Vec<T>, _) = (Vec::new(), Vec::with_capacity(x.len()));
    for x in x {
        // Fibonacci hashing (Knuth, volume 3, 6.4): the high bits of a product with 2^64 over the
        // golden ratio.
        let hash = ((*x).into() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> (64 - bits)) as usize;
        while places[place] != EMPTY && values[places[place] as usize] != *x {
            place = (place + 1) % places.len();
        }
        if places[place] == EMPTY {
            places[place] = values.len() as u32;
            values.push(*x);
        }
        index.push(places[place] as i32);
    }
    (values, index)
}

/// `out[p]` = the sum of the rows of `x`, of `width` elements, whose position is `p`, in their
/// order, from 0 (TensorFlow `UnsortedSegmentSum`).
pub(crate) fn segment_sum(x: &[f32], positions: &[usize], width: usize, out: &mut [f32]) {
    assert_eq!(x.len(), positions.len() * width, "there is one position a row");
    out.fill(0.0);
    if width == 0 {
        return;
    }
    vectorised(|| {
        for (x, position) in x.chunks_exact(width).zip(positions) {
            out[position * width..][..width].iter_mut().zip(x).for_each(|(out, x)| *out += x);
        }
    });
}

/// The request to one shard: its rows by their numbers in the shard, and the place of each in the
/// list of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardRows<T> {
    pub(crate) ids: Vec<T>,
    pub(crate) positions: Vec<i32>,
}

/// The shards' parts of `ids`, each in the order of the list. `narrow` converts an id to the ids'
/// type.
///
/// # Errors
/// For the first id without a row in the table.
pub(crate) fn shard_ids<T: Copy + Into<i64>>(
    ids: &[T],
    sharding: &Sharding,
    narrow: impl Fn(usize) -> T,
) -> Result<Vec<ShardRows<T>>, NoSuchRow> {
    let mut shards: Vec<_> = (0..sharding.shards)
        .map(|_| ShardRows { ids: Vec::new(), positions: Vec::new() })
        .collect();
    for (position, id) in (0..).zip(ids) {
        let id = (*id).into();
        let missing = || NoSuchRow { table: sharding.table.to_string(), id, rows: sharding.rows };
        let (shard, row) = sharding.locate(id).ok_or_else(missing)?;
        shards[shard].ids.push(narrow(row));
        shards[shard].positions.push(position);
    }
    Ok(shards)
}

/// `out[positions[i]] = rows[i]`, of rows of `width` elements (TensorFlow `DynamicStitch`).
pub(crate) fn stitch<T: Copy>(positions: &[usize], rows: &[T], width: usize, out: &mut [T]) {
    assert_eq!(rows.len(), positions.len() * width, "there is one position a row");
    for (i, position) in positions.iter().enumerate() {
        out[position * width..][..width].copy_from_slice(&rows[i * width..][..width]);
    }
}
