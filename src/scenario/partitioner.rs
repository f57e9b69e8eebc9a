//! `program.partitioner`: how the weights of layers are cut into shards.

use serde::Deserialize;

use super::mistakes::Mistakes;
use crate::graph::Partitioner;
use crate::units::Bytes;

/// The key as it is typed: TensorFlow's three partitioners, along the rows.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PartitionerFile {
    /// `{ fixed_size = 4 }`: this many shards.
    FixedSize(usize),
    /// `{ min_max = { max_partitions = 4, min_slice = "256KiB" } }`: one shard for each
    /// `min_slice`, up to `max_partitions`.
    MinMax {
        max_partitions: usize,
        #[serde(default = "min_slice")]
        min_slice: Bytes,
    },
    /// `{ variable_axis_size = { max_shard = "1MB", max_shards = 8 } }`: the fewest shards of at
    /// most `max_shard`, and never more than `max_shards`, if that is given.
    VariableAxisSize { max_shard: Bytes, max_shards: Option<usize> },
}

/// TensorFlow's default.
fn min_slice() -> Bytes {
    Bytes(256 << 10)
}

impl PartitionerFile {
    pub(super) fn partitioner(self, found: &mut Mistakes) -> Partitioner {
        let path = "program.partitioner";
        let mut above_0 = |key: &str, number: u64| {
            found.at_least_1(number, &format!("{path}.{key}"));
        };
        match self {
            Self::FixedSize(shards) => {
                above_0("fixed_size", shards as u64);
                Partitioner::FixedSize(shards)
            }
            Self::MinMax { max_partitions, min_slice } => {
                above_0("min_max.max_partitions", max_partitions as u64);
                above_0("min_max.min_slice", min_slice.0);
                Partitioner::MinMax { max_partitions, min_slice_bytes: min_slice.0 }
            }
            Self::VariableAxisSize { max_shard, max_shards } => {
                above_0("variable_axis_size.max_shard", max_shard.0);
                above_0("variable_axis_size.max_shards", max_shards.unwrap_or(1) as u64);
                Partitioner::VariableAxisSize { max_shard_bytes: max_shard.0, max_shards }
            }
        }
    }
}
