//! The division of a table's rows among its shards.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The division of a table's rows among its shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharding {
    /// The table's name, for errors.
    pub table: Arc<str>,
    /// The number of the table's rows.
    pub rows: usize,
    /// The number of shards; the first `rows % shards` of them have a row more than the others.
    pub shards: usize,
    /// The rule that assigns rows to shards.
    pub strategy: ShardStrategy,
}

/// The rule that assigns rows to shards (TensorFlow: `partition_strategy` of `embedding_lookup`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardStrategy {
    /// Each shard has consecutive rows.
    #[default]
    Div,
    /// Row `id` is in shard `id % shards`.
    Mod,
}

impl Sharding {
    /// The shard of row `id`, and the row's number there; `None` if the table has no such row.
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
