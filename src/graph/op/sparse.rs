//! Operations on rows that are found by their number: what embeddings are made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What is done with rows and their numbers. Ids are i32 or i64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sparse {
    /// `(x [n])`: its different values, in the order in which they first occur, and for each
    /// element of `x` which of them it is (i32 \[n\]).
    Unique,
    /// `(x [ids…, row…], ids […])`: row `i` of the result is the sum of the rows of `x` whose id is
    /// `i`, in their order. As many rows as this says; with `None`, `(…, like [rows, …])`, as many
    /// as `like` has, whose values are not used.
    UnsortedSegmentSum(Option<usize>),
    /// `(ids [n])`: for each shard of a table the ids of its rows, as the shard counts them, then
    /// for each shard where in `ids` they stand (i32). TensorFlow has it as arithmetic on ids and
    /// two `DynamicPartition`s.
    ShardIds(Sharding),
    /// `(positions [n0], …, rows [n0, row…], …)`: all rows, each where its position says; the
    /// positions are all from 0, each once (TensorFlow: `DynamicStitch`).
    Stitch,
    /// `(gradient, positions…)`: for each list of positions the gradient's rows there.
    StitchGrad,
}

/// How the rows of a table are divided among its shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharding {
    /// The table, for errors.
    pub table: Arc<str>,
    /// How many rows it has.
    pub rows: usize,
    /// How many shards; the first `rows % shards` of them have a row more than the others.
    pub shards: usize,
    /// Which row is where.
    pub strategy: ShardStrategy,
}

/// Which shard has which row (TensorFlow: `partition_strategy` of `embedding_lookup`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardStrategy {
    /// Each shard has rows that follow each other.
    #[default]
    Div,
    /// Row `id` is in shard `id % shards`.
    Mod,
}

impl Sparse {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unique => "Unique",
            Self::UnsortedSegmentSum(_) => "UnsortedSegmentSum",
            Self::ShardIds(_) => "ShardIds",
            Self::Stitch => "DynamicStitch",
            Self::StitchGrad => "DynamicStitchGrad",
        }
    }
}

impl Sharding {
    /// The shard that row `id` is in, and its number there; none where the table has no such row.
    pub(crate) fn locate(&self, id: i64) -> Option<(usize, usize)> {
        let id = usize::try_from(id).ok().filter(|id| *id < self.rows)?;
        if self.strategy == ShardStrategy::Mod {
            return Some((id % self.shards, id / self.shards));
        }
        let (each, extras) = (self.rows / self.shards, self.rows % self.shards);
        let in_larger = extras * (each + 1);
        Some(if id < in_larger {
            (id / (each + 1), id % (each + 1))
        } else {
            (extras + (id - in_larger) / each, (id - in_larger) % each)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TensorFlow's formula, as `embedding_ops.py` writes it.
    fn tensorflow_div(id: usize, rows: usize, shards: usize) -> (usize, usize) {
        let (each, extras) = (rows / shards, rows % shards);
        let shard = (id / (each + 1)).max(id.saturating_sub(extras) / each);
        (shard, if shard < extras { id % (each + 1) } else { (id - extras) % each })
    }

    #[test]
    fn every_row_is_in_one_shard_where_tensorflow_has_it_and_no_other_id_is() {
        for (rows, shards) in [(10, 3), (12, 4), (7, 7), (5, 1), (9, 4)] {
            let table = Arc::from("table");
            let mut sharding = Sharding { table, rows, shards, strategy: ShardStrategy::Div };
            for id in 0..rows {
                assert_eq!(
                    sharding.locate(id as i64),
                    Some(tensorflow_div(id, rows, shards)),
                    "{id} of {rows}"
                );
            }
            sharding.strategy = ShardStrategy::Mod;
            for id in 0..rows {
                assert_eq!(sharding.locate(id as i64), Some((id % shards, id / shards)));
            }
            assert_eq!((sharding.locate(-1), sharding.locate(rows as i64)), (None, None));
        }
    }
}
