//! A wide and deep model of sparse samples (Cheng et al. 2016, <https://arxiv.org/abs/1606.07792>).

use super::model::Embedding;
use super::stages::Stages;
use crate::graph::{
    Graph, GraphError, InitialRows, Output, Partitioner, RandomLaw, ShardStrategy, dense,
    embedding_lookup_unique,
};

/// The logits of `classes` for features `ids` (i64 \[batch, slots\]) of values `values` (f32,
/// likewise).
///
/// Deep: the mean of the features' rows of a table, weighted by their values, through dense layers.
/// Wide: the sum of the features' own logits, weighted likewise; they begin at zero. Both tables
/// are cut into the same shards.
pub(in crate::models) fn logits(
    g: &Graph,
    ids: &Output,
    values: &Output,
    settings: &Embedding,
    classes: usize,
    stages: &Stages,
) -> Result<Output, GraphError> {
    let deviation = 1.0 / (settings.dim as f32).sqrt();
    let random = InitialRows::Random(RandomLaw::TruncatedNormal { mean: 0.0, deviation });
    let pooled = |name: &str, width: usize, initial| {
        let shards = Partitioner::FixedSize(settings.partitions);
        let table = g.partitioned_variable(name, [settings.rows, width], initial, shards)?;
        let rows = embedding_lookup_unique(&table, ids, ShardStrategy::Div)?;
        sum_of_slots(&rows, values, settings.slots, width)
    };
    let sum = pooled("embedding", settings.dim, random)?;
    let mut layer = sum.mul(&g.constant(1.0 / settings.slots as f32))?;
    let layers = settings.hidden.len() + 1;
    for (at, units) in settings.hidden.iter().enumerate() {
        layer = stages.layer(at, layers, || Ok::<_, GraphError>(dense(&layer, *units)?.relu()))?;
    }
    let deep = stages.layer(settings.hidden.len(), layers, || dense(&layer, classes))?;
    deep.add(&pooled("wide", classes, InitialRows::Constant(0.0))?)
}

/// The sum over the slots of `rows` \[batch, slots, width\], each row times its value in `values`
/// \[batch, slots\].
fn sum_of_slots(
    rows: &Output,
    values: &Output,
    slots: usize,
    width: usize,
) -> Result<Output, GraphError> {
    let weighted = rows.reshape([None, Some(width)])?.scale_rows(&values.reshape([None])?)?;
    let side_by_side = weighted.reshape([None, Some(slots * width)])?;
    let parts = side_by_side.split(&vec![width; slots], 1)?;
    let (first, others) = parts.split_first().expect("there is a slot");
    others.iter().try_fold(first.clone(), |sum, part| sum.add(part))
}
