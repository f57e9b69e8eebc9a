//! Kernels of one result an element: activations and their gradients, arithmetic, sums of many.
//!
//! Every result depends on its own operands alone, so chunks can't change a bit.

use super::math;
use super::parallel::{for_chunks, map, map2, vectorised};

/// `max(x, 0)`; a NaN stays one (TensorFlow `Relu`).
pub(crate) fn relu(x: &[f32], out: &mut [f32]) {
    map(x, out, |x| if x < 0.0 { 0.0 } else { x });
}

/// `gradient` where `features` is above 0, else 0 (TensorFlow `ReluGrad`).
pub(crate) fn relu_grad(gradient: &[f32], features: &[f32], out: &mut [f32]) {
    map2(gradient, features, out, |gradient, x| if x > 0.0 { gradient } else { 0.0 });
}

/// `1 / (1 + e^-x)` (TensorFlow `Sigmoid`).
pub(crate) fn sigmoid(x: &[f32], out: &mut [f32]) {
    map(x, out, math::sigmoid);
}

/// `dy * y * (1 - y)`, where `y` is the sigmoid (TensorFlow `SigmoidGrad`).
pub(crate) fn sigmoid_grad(y: &[f32], dy: &[f32], out: &mut [f32]) {
    map2(y, dy, out, |y, dy| dy * y * (1.0 - y));
}

/// The hyperbolic tangent (TensorFlow `Tanh`).
pub(crate) fn tanh(x: &[f32], out: &mut [f32]) {
    map(x, out, math::tanh);
}

/// `dy * (1 - y * y)`, where `y` is the hyperbolic tangent (TensorFlow `TanhGrad`).
pub(crate) fn tanh_grad(y: &[f32], dy: &[f32], out: &mut [f32]) {
    map2(y, dy, out, |y, dy| dy * (1.0 - y * y));
}

/// `e^x`, within 2 units in the last place; infinite above 88.7228.
pub(crate) fn exp(x: &[f32], out: &mut [f32]) {
    map(x, out, math::exp);
}

/// The natural logarithm, within 2 units in the last place; NaN below 0, -infinity at 0.
pub(crate) fn log(x: &[f32], out: &mut [f32]) {
    map(x, out, math::log);
}

/// `x * x`.
pub(crate) fn square(x: &[f32], out: &mut [f32]) {
    map(x, out, |x| x * x);
}

/// `out = 2 dy x`, the gradient of [`square`].
pub(crate) fn square_grad(dy: &[f32], x: &[f32], out: &mut [f32]) {
    map2(dy, x, out, |dy, x| 2.0 * dy * x);
}

/// `-x`.
pub(crate) fn negate(x: &[f32], out: &mut [f32]) {
    map(x, out, |x| -x);
}

/// `a + b`; an operand of one element stands for that value everywhere.
pub(crate) fn add(a: &[f32], b: &[f32], out: &mut [f32]) {
    binary(a, b, out, |a, b| a + b);
}

/// `a - b`; an operand of one element stands for that value everywhere.
pub(crate) fn sub(a: &[f32], b: &[f32], out: &mut [f32]) {
    binary(a, b, out, |a, b| a - b);
}

/// `a * b`; an operand of one element stands for that value everywhere.
pub(crate) fn mul(a: &[f32], b: &[f32], out: &mut [f32]) {
    binary(a, b, out, |a, b| a * b);
}

/// `a / b`; an operand of one element stands for that value everywhere.
pub(crate) fn div(a: &[f32], b: &[f32], out: &mut [f32]) {
    binary(a, b, out, |a, b| a / b);
}

#[inline(always)]
fn binary(a: &[f32], b: &[f32], out: &mut [f32], op: impl Fn(f32, f32) -> f32 + Copy + Sync) {
    match (a, b) {
        (&[a], b) => map(b, out, |b| op(a, b)),
        (a, &[b]) => map(a, out, |a| op(a, b)),
        _ => map2(a, b, out, op),
    }
}

/// `((inputs[0] + inputs[1]) + inputs[2] ...) * scale`, in the order given: the aggregate of a
/// synchronous step's gradients (TensorFlow `AddN`, then the division of the mean).
///
/// # Panics
/// If there is no input.
pub(crate) fn add_n(inputs: &[&[f32]], scale: f32, out: &mut [f32]) {
    /// Small enough to stay in the first-level cache while all inputs are added, in elements.
    const BLOCK: usize = 2048;
    let (first, others) = inputs.split_first().expect("a sum has at least one input");
    assert!(inputs.iter().all(|input| input.len() == out.len()), "the inputs of a sum have the shape of the sum");
    for_chunks(out, BLOCK, |chunk, out| {
        for (i, out) in out.chunks_mut(BLOCK).enumerate() {
            let here = chunk + i * BLOCK..chunk + i * BLOCK + out.len();
            vectorised(|| {
                out.copy_from_slice(&first[here.clone()]);
                for input in others {
                    out.iter_mut().zip(&input[here.clone()]).for_each(|(out, x)| *out += x);
                }
                out.iter_mut().for_each(|out| *out *= scale);
            });
        }
    });
}
