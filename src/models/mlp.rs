//! The multilayer perceptron: dense layers with relu between them.

use super::stages::Stages;
use crate::graph::{GraphError, Output, dense};

/// The logits of `classes` classes, after layers of the given widths; without any it is softmax
/// regression.
pub(super) fn logits(
    features: &Output,
    hidden: &[usize],
    classes: usize,
    stages: &Stages,
) -> Result<Output, GraphError> {
    let (mut layer, layers) = (features.clone(), hidden.len() + 1);
    for (at, units) in hidden.iter().enumerate() {
        layer = stages.layer(at, layers, || Ok::<_, GraphError>(dense(&layer, *units)?.relu()))?;
    }
    stages.layer(hidden.len(), layers, || dense(&layer, classes))
}
