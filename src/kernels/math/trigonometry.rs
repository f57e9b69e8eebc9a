//! Sine and cosine.

use super::polynomial;

/// The greatest angle whose number of turns [`sin`] and [`cos`] compute exactly enough.
pub(in crate::kernels) const TURNS_KNOWN: f32 = 1e6;
/// Added to a small number, it rounds that to an integer, which is then in the low bits: 1.5 *
/// 2^52.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// A quarter of a turn in two parts, the first of 33 bits so that its product with a count is
/// exact.
const QUARTER_HIGH: f64 = 1.570_796_326_734_125_6;
const QUARTER_LOW: f64 = 6.077_100_506_506_192e-11;

/// The sine within 2 units in the last place, for angles up to [`TURNS_KNOWN`] either way.
#[inline(always)]
pub(in crate::kernels) fn sin(x: f32) -> f32 {
    let (quarters, sin, cos) = reduced(x);
    let found = if quarters & 1 == 0 { sin } else { cos };
    if quarters & 2 == 0 { found } else { -found }
}

/// The cosine within 2 units in the last place, for angles up to [`TURNS_KNOWN`] either way.
#[inline(always)]
pub(in crate::kernels) fn cos(x: f32) -> f32 {
    let (quarters, sin, cos) = reduced(x);
    let found = if quarters & 1 == 0 { cos } else { sin };
    if quarters.wrapping_add(1) & 2 == 0 { found } else { -found }
}

/// The sine of any angle; the same bits as [`sin`] for angles in its range.
pub(in crate::kernels) fn sin_of_any(x: f32) -> f32 {
    if x.abs() <= TURNS_KNOWN { sin(x) } else { f64::from(x).sin() as f32 }
}

/// The cosine of any angle; the same bits as [`cos`] for angles in its range.
pub(in crate::kernels) fn cos_of_any(x: f32) -> f32 {
    if x.abs() <= TURNS_KNOWN { cos(x) } else { f64::from(x).cos() as f32 }
}

/// The number of quarter turns in the angle, to the nearest, and the sine and cosine of the
/// remaining angle.
#[inline(always)]
fn reduced(x: f32) -> (u32, f32, f32) {
    let wide = f64::from(x);
    let rounded = wide * std::f64::consts::FRAC_2_PI + ROUND;
    let n = rounded - ROUND;
    let r = (wide - n * QUARTER_HIGH - n * QUARTER_LOW) as f32;
    let square = r * r;
    let sin = polynomial(square, [-1.951_529_6e-4, 8.332_161e-3, -0.166_666_55]) * square * r + r;
    let cos =
        polynomial(square, [2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]) * square * square
            - 0.5 * square;
    // `copysign` also restores the sign of -0, which the series would make +0.
    (rounded.to_bits() as u32, sin.copysign(r), cos + 1.0)
}
