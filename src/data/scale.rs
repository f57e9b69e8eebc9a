//! The scale of features: a warning, once, of values so large that a training may diverge.

use std::sync::atomic::{AtomicBool, Ordering};

/// A feature's size above which a training may diverge.
const LARGE: f32 = 100.0;

/// Warns, the first time, if one of `values` is so large that the training may diverge. `place`
/// names the file and the feature of a value's position.
pub(super) fn warn<P>(values: impl IntoIterator<Item = (P, f32)>, place: impl FnOnce(P) -> String) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let large = values.into_iter().find(|(_, value)| value.abs() > LARGE);
    let Some((position, value)) = large else { return };
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        let place = place(position);
        tracing::warn!(
            "{place} has values such as {value}: scale it to about -1 to 1, or the training may \
             diverge"
        );
    }
}
