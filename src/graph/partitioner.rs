//! The number of shards of a large variable: TensorFlow's partitioners, along the rows.

use crate::tensor::{DType, Shape};

/// A rule for the number of shards of a variable (TensorFlow: `partitioned_variables.py`). A shard
/// has at least one row, so there are never more shards than rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// This many shards (TensorFlow: `fixed_size_partitioner`).
    FixedSize(usize),
    /// The fewest shards that are each at most a size, as far as one row is (TensorFlow:
    /// `variable_axis_size_partitioner`).
    VariableAxisSize {
        /// The size \[bytes\].
        max_shard_bytes: u64,
        /// The most shards, whatever their size.
        max_shards: Option<usize>,
    },
    /// One shard for each full or partial multiple of a size, up to a number (TensorFlow:
    /// `min_max_variable_partitioner`).
    MinMax {
        /// The most shards.
        max_partitions: usize,
        /// The size \[bytes\]; TensorFlow's default is 256 KiB.
        min_slice_bytes: u64,
    },
}

impl Partitioner {
    /// The most shards of a variable: each is a variable, and operations, of the graph.
    pub const MOST_SHARDS: usize = 10_000;

    /// The number of shards of an f32 variable of `shape`; `None` if it has no rows, a number here
    /// is 0, or there would be more than [`Self::MOST_SHARDS`].
    pub fn shards(self, shape: Shape) -> Option<usize> {
        let rows = shape.dims().first().copied().filter(|rows| *rows > 0)?;
        let total = (shape.elements() * DType::F32.size()) as u64;
        let shards = match self {
            Self::FixedSize(shards) => shards,
            Self::VariableAxisSize { max_shard_bytes: 0, .. }
            | Self::MinMax { min_slice_bytes: 0, .. } => 0,
            Self::VariableAxisSize { max_shard_bytes, max_shards } => {
                let row = total / rows as u64;
                let rows_a_shard = max_shard_bytes.checked_div(row).unwrap_or(rows as u64).max(1);
                let shards = (rows as u64).div_ceil(rows_a_shard) as usize;
                max_shards.map_or(shards, |most| shards.min(most))
            }
            Self::MinMax { max_partitions: 0, .. } => 0,
            Self::MinMax { max_partitions, min_slice_bytes } => {
                max_partitions.min(total.div_ceil(min_slice_bytes).max(1) as usize)
            }
        };
        Some(shards.min(rows)).filter(|shards| (1..=Self::MOST_SHARDS).contains(shards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(partitioner: Partitioner, shape: [usize; 2]) -> Option<usize> {
        partitioner.shards(shape.into())
    }

    #[test]
    fn the_numbers_of_shards_are_tensorflows() {
        let axis = |max_shard_bytes, max_shards| Partitioner::VariableAxisSize {
            max_shard_bytes,
            max_shards,
        };
        let min_max = |max_partitions, min_slice_bytes| Partitioner::MinMax {
            max_partitions,
            min_slice_bytes,
        };
        assert_eq!(shards(axis(1024, None), [64, 8]), Some(2));
        assert_eq!(shards(axis(100, Some(3)), [64, 8]), Some(3));
        assert_eq!(shards(axis(16, None), [64, 8]), Some(64), "a row is never cut");
        assert_eq!(shards(min_max(10, 1024), [1000, 2]), Some(8));
        assert_eq!(shards(min_max(4, 1024), [1000, 2]), Some(4));
        assert_eq!(shards(min_max(4, 1 << 18), [10, 2]), Some(1));
        assert_eq!(shards(Partitioner::FixedSize(5), [3, 2]), Some(3));
        assert_eq!(shards(Partitioner::FixedSize(3), [10, 4]), Some(3));
    }

    #[test]
    fn there_are_no_shards_of_nothing_and_no_shards_of_no_size() {
        for refused in [
            Partitioner::FixedSize(0),
            Partitioner::VariableAxisSize { max_shard_bytes: 0, max_shards: None },
            Partitioner::VariableAxisSize { max_shard_bytes: 1, max_shards: Some(0) },
            Partitioner::MinMax { max_partitions: 0, min_slice_bytes: 1 },
            Partitioner::MinMax { max_partitions: 1, min_slice_bytes: 0 },
        ] {
            assert_eq!(shards(refused, [4, 4]), None, "{refused:?}");
        }
        assert_eq!(shards(Partitioner::FixedSize(2), [0, 4]), None);
        assert_eq!(Partitioner::FixedSize(2).shards(Shape::SCALAR), None);
        assert_eq!(shards(Partitioner::FixedSize(1 << 20), [1 << 20, 1]), None, "too many");
    }
}
