//! The multilayer perceptron: dense layers with relu between them.

use crate::graph::{GraphError, Output, dense};

/// The logits of `classes` classes, after layers of the given widths; without any it is softmax
/// regression.
pub(super) fn logits(
    features: &Output,
    hidden: &[usize],
    classes: usize,
) -> Result<Output, GraphError> {
    let mut layer = features.clone();
    for units in hidden {
        layer = dense(&layer, *units)?.relu();
    }
    dense(&layer, classes)
}
