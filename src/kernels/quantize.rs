//! Kernels that write reals as 8-bit integers, with a scale for each block of them, and back.

use super::parallel::{for_chunks, vectorised};

/// The largest integer that is written, so that the range is symmetric about 0.
const MOST: f32 = 127.0;

/// `scales[b] = max|x| / 127` of each block of `block` values, the last of which may be shorter.
///
/// The scale is NaN if a value is NaN or infinite, so that all of the block is NaN when it is read.
/// It is 0 if it would not be a normal number: values below 1.5e-36 are written as 0.
pub(crate) fn scales(x: &[f32], block: usize, scales: &mut [f32]) {
    assert_eq!(scales.len(), x.len().div_ceil(block), "every block has one scale");
    for_chunks(scales, 1, |start, scales| {
        let blocks = x[start * block..].chunks(block);
        blocks.zip(scales).for_each(|(x, scale)| *scale = vectorised(|| scale_of(x)));
    });
}

#[inline(always)]
fn scale_of(x: &[f32]) -> f32 {
    // The bits of a positive float are in the order of the floats, with infinity and NaN above them
    // all.
    let greatest = x.iter().fold(0, |greatest: u32, x| greatest.max(x.to_bits() & !(1 << 31)));
    let greatest = f32::from_bits(greatest);
    match greatest / MOST {
        _ if !greatest.is_finite() => f32::NAN,
        scale if scale < f32::MIN_POSITIVE => 0.0,
        // The greatest value must come back finite.
        scale if (scale * MOST).is_infinite() => scale.next_down(),
        scale => scale,
    }
}

/// `out[i] = x[i] / scale` of its block, rounded to the nearest, of two to the even one.
pub(crate) fn quantize(x: &[f32], block: usize, scales: &[f32], out: &mut [i8]) {
    assert_eq!(x.len(), out.len(), "every value is written");
    for_chunks(out, block, |start, out| {
        let scales = &scales[start / block..];
        for ((x, out), scale) in x[start..].chunks(block).zip(out.chunks_mut(block)).zip(scales) {
            let scale = if *scale == 0.0 { f32::INFINITY } else { *scale };
            vectorised(|| {
                x.iter().zip(out).for_each(|(x, out)| *out = (x / scale).round_ties_even() as i8)
            });
        }
    });
}

/// `out[i] = values[i] · scale` of its block.
pub(crate) fn dequantize(values: &[i8], block: usize, scales: &[f32], out: &mut [f32]) {
    assert_eq!(values.len(), out.len(), "every value is read");
    for_chunks(out, block, |start, out| {
        let scales = &scales[start / block..];
        for ((values, out), scale) in
            values[start..].chunks(block).zip(out.chunks_mut(block)).zip(scales)
        {
            vectorised(|| {
                values.iter().zip(out).for_each(|(value, out)| *out = f32::from(*value) * scale)
            });
        }
    });
}
