//! Dropout: the choice of elements depends on a key, a counter and the element's position alone.
//!
//! An element's random number is a function of its position (Widynski 2020, "Squares: a fast
//! counter-based RNG"), so the mask is never stored: the gradient computes it again.

use rand::RngExt;

use super::number::Number;
use super::parallel::{for_chunks, vectorised};
use super::random::Key;
use crate::random::stream;

/// `out[i]` = 0 for a share `rate` of all `i`, else `x[i]` times `factor`. The same for the same
/// key and counter.
pub(crate) fn dropout<T: Number>(
    x: &[T],
    key: Key,
    counter: i64,
    rate: f32,
    factor: T,
    out: &mut [T],
) {
    assert_eq!(x.len(), out.len(), "dropout keeps the shape");
    let (operation, counter) = (key.operation.to_string(), counter.to_string());
    let key = stream(key.seed, &["dropout", &operation, &counter]).random::<u64>() | 1;
    let dropped = (f64::from(rate) * f64::from(1u32 << 16) * f64::from(1u32 << 16)) as u32;
    for_chunks(out, 1, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            for ((out, x), position) in out.iter_mut().zip(x).zip(start as u64..) {
                *out = if squares(position, key) >= dropped { x.times(factor) } else { T::ZERO };
            }
        });
    });
}

/// 32 random bits for a position: the algorithm's four rounds.
#[inline(always)]
fn squares(position: u64, key: u64) -> u32 {
    let y = position.wrapping_mul(key);
    let z = y.wrapping_add(key);
    let round = |x: u64, add: u64| x.wrapping_mul(x).wrapping_add(add).rotate_right(32);
    let x = round(round(round(y, y), z), y);
    (x.wrapping_mul(x).wrapping_add(z) >> 32) as u32
}
