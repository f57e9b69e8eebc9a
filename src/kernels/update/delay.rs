//! The correction of a gradient that was computed from an older value of its variable.

use super::super::cost::Cost;
use super::super::parallel::{for_chunks, vectorised};

/// `g = g + lambda * g * g * (now - read)` (Zheng et al. 2017, DC-ASGD: the outer product of the
/// gradient with itself stands for the Hessian, of which the diagonal is kept).
pub(crate) fn compensate(gradient: &mut [f32], now: &[f32], read: &[f32], lambda: f32) {
    assert_eq!(
        (now.len(), read.len()),
        (gradient.len(), gradient.len()),
        "all three have the shape of the variable"
    );
    for_chunks(gradient, 1, |start, gradient| {
        let (now, read) = (&now[start..][..gradient.len()], &read[start..][..gradient.len()]);
        vectorised(|| {
            gradient
                .iter_mut()
                .zip(now)
                .zip(read)
                .for_each(|((g, now), read)| *g = compensated(*g, *now, *read, lambda));
        });
    });
}

/// The definition, for an element.
#[inline(always)]
fn compensated(g: f32, now: f32, read: f32, lambda: f32) -> f32 {
    g + lambda * g * g * (now - read)
}

impl Cost {
    /// [`compensate`] of `elements` elements: three are read and one is written.
    pub(crate) fn compensate(elements: usize) -> Self {
        Self::work(5 * elements, 4 * size_of::<f32>() * elements)
    }
}
