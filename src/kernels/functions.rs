//! The definition of every elementwise function, for one element: what the kernels' loops call.
//!
//! The gradient of a function takes what arrives, `dy`, and what the function saw: its input `x` or
//! its result `y`, as the parameter is called.

use super::number::{Float, Number};

/// The factor by which [`selu`] stretches (Klambauer et al. 2017, equation 14).
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
/// The factor by which [`selu`] stretches below 0: the scale times alpha.
const SELU_SCALE_ALPHA: f64 = 1.758_099_340_847_376_6;
/// √(2/π), of [`gelu_tanh`].
const GELU_ROOT: f64 = 0.797_884_560_802_865_4;
/// The coefficient of x³ in [`gelu_tanh`] (Hendrycks and Gimpel 2016).
const GELU_CUBE: f64 = 0.044_715;

/// `max(x, 0)`; a NaN stays one (TensorFlow `Relu`).
#[inline(always)]
pub(crate) fn relu<T: Number>(x: T) -> T {
    if x < T::ZERO { T::ZERO } else { x }
}

/// `dy` where `y` is above 0, else 0 (TensorFlow `ReluGrad`).
#[inline(always)]
pub(crate) fn relu_grad<T: Number>(dy: T, y: T) -> T {
    if y > T::ZERO { dy } else { T::ZERO }
}

/// `min(max(x, 0), 6)`; a NaN stays one (TensorFlow `Relu6`).
#[inline(always)]
pub(crate) fn relu6<T: Float>(x: T) -> T {
    let above = relu(x);
    if above > T::of(6.0) { T::of(6.0) } else { above }
}

/// `dy` where `y` is between 0 and 6, else 0 (TensorFlow `Relu6Grad`).
#[inline(always)]
pub(crate) fn relu6_grad<T: Float>(dy: T, y: T) -> T {
    if y > T::ZERO && y < T::of(6.0) { dy } else { T::ZERO }
}

/// `x`, below 0 times `alpha` (TensorFlow `LeakyRelu`).
#[inline(always)]
pub(crate) fn leaky_relu<T: Float>(x: T, alpha: T) -> T {
    if x > T::ZERO { x } else { x * alpha }
}

/// `dy`, times `alpha` unless `x` is above 0 (TensorFlow `LeakyReluGrad`).
#[inline(always)]
pub(crate) fn leaky_relu_grad<T: Float>(dy: T, x: T, alpha: T) -> T {
    if x > T::ZERO { dy } else { dy * alpha }
}

/// `x`, below 0 `eˣ - 1` (TensorFlow `Elu`).
#[inline(always)]
pub(crate) fn elu<T: Float>(x: T) -> T {
    let below = x.expm1();
    if x < T::ZERO { below } else { x }
}

/// The gradient of [`elu`] (TensorFlow `EluGrad`).
#[inline(always)]
pub(crate) fn elu_grad<T: Float>(dy: T, y: T) -> T {
    if y < T::ZERO { dy * (y + T::ONE) } else { dy }
}

/// [`elu`], stretched so that it keeps mean 0 and variance 1 (TensorFlow `Selu`).
#[inline(always)]
pub(crate) fn selu<T: Float>(x: T) -> T {
    let below = T::of(SELU_SCALE_ALPHA) * x.expm1();
    if x < T::ZERO { below } else { T::of(SELU_SCALE) * x }
}

/// The gradient of [`selu`] (TensorFlow `SeluGrad`).
#[inline(always)]
pub(crate) fn selu_grad<T: Float>(dy: T, y: T) -> T {
    if y < T::ZERO { dy * (y + T::of(SELU_SCALE_ALPHA)) } else { dy * T::of(SELU_SCALE) }
}

/// `x Φ(x)`, where Φ is the normal distribution (TensorFlow `tf.nn.gelu`).
#[inline(always)]
pub(crate) fn gelu<T: Float>(x: T) -> T {
    T::of(0.5) * x * (T::ONE + (x * T::of(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

/// `dy (Φ(x) + x φ(x))`
#[inline(always)]
pub(crate) fn gelu_grad<T: Float>(dy: T, x: T) -> T {
    let distribution = T::of(0.5) * (T::ONE + (x * T::of(std::f64::consts::FRAC_1_SQRT_2)).erf());
    let density = T::of(0.5 * GELU_ROOT) * (-(x * x) * T::of(0.5)).exp();
    dy * (distribution + x * density)
}

/// `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))` (TensorFlow `tf.nn.gelu` with `approximate`).
#[inline(always)]
pub(crate) fn gelu_tanh<T: Float>(x: T) -> T {
    T::of(0.5) * x * (T::ONE + gelu_argument(x).tanh())
}

/// The gradient of [`gelu_tanh`].
#[inline(always)]
pub(crate) fn gelu_tanh_grad<T: Float>(dy: T, x: T) -> T {
    let t = gelu_argument(x).tanh();
    let slope = T::of(GELU_ROOT) * (T::ONE + T::of(3.0 * GELU_CUBE) * x * x);
    dy * T::of(0.5) * (T::ONE + t + x * (T::ONE - t * t) * slope)
}

#[inline(always)]
fn gelu_argument<T: Float>(x: T) -> T {
    T::of(GELU_ROOT) * (x + T::of(GELU_CUBE) * x * x * x)
}

/// `1 / (1 + e⁻ˣ)` (TensorFlow `Sigmoid`), of f32 within 4 units in the last place; 0 below
/// -88.7228, where its e⁻ˣ is infinite.
#[inline(always)]
pub(crate) fn sigmoid<T: Float>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

/// `dy y (1 - y)` (TensorFlow `SigmoidGrad`).
#[inline(always)]
pub(crate) fn sigmoid_grad<T: Float>(dy: T, y: T) -> T {
    dy * y * (T::ONE - y)
}

/// `dy (1 - y²)` (TensorFlow `TanhGrad`).
#[inline(always)]
pub(crate) fn tanh_grad<T: Float>(dy: T, y: T) -> T {
    dy * (T::ONE - y * y)
}

/// `ln(1 + eˣ)` (TensorFlow `Softplus`).
#[inline(always)]
pub(crate) fn softplus<T: Float>(x: T) -> T {
    relu(x) + (-x.magnitude()).exp().log1p()
}

/// The gradient of [`softplus`] (TensorFlow `SoftplusGrad`).
#[inline(always)]
pub(crate) fn softplus_grad<T: Float>(dy: T, x: T) -> T {
    dy * sigmoid(x)
}

/// `x / (1 + |x|)` (TensorFlow `Softsign`).
#[inline(always)]
pub(crate) fn softsign<T: Float>(x: T) -> T {
    x / (T::ONE + x.magnitude())
}

/// The gradient of [`softsign`] (TensorFlow `SoftsignGrad`).
#[inline(always)]
pub(crate) fn softsign_grad<T: Float>(dy: T, x: T) -> T {
    let below = T::ONE + x.magnitude();
    dy / (below * below)
}

/// `x / (1 + e⁻ˣ)` (TensorFlow `tf.nn.silu`).
#[inline(always)]
pub(crate) fn silu<T: Float>(x: T) -> T {
    x * sigmoid(x)
}

/// The gradient of [`silu`].
#[inline(always)]
pub(crate) fn silu_grad<T: Float>(dy: T, x: T) -> T {
    let s = sigmoid(x);
    dy * s * (T::ONE + x * (T::ONE - s))
}

/// `-ln(1 + e⁻ˣ)` (TensorFlow `tf.math.log_sigmoid`).
#[inline(always)]
pub(crate) fn log_sigmoid<T: Float>(x: T) -> T {
    -softplus(-x)
}

/// The gradient of [`log_sigmoid`].
#[inline(always)]
pub(crate) fn log_sigmoid_grad<T: Float>(dy: T, x: T) -> T {
    dy * sigmoid(-x)
}

/// `dy eˣ`
#[inline(always)]
pub(crate) fn expm1_grad<T: Float>(dy: T, x: T) -> T {
    dy * x.exp()
}

/// `dy / (1 + x)`
#[inline(always)]
pub(crate) fn log1p_grad<T: Float>(dy: T, x: T) -> T {
    dy / (T::ONE + x)
}

/// `dy / 2y`, and 0 where `dy` is 0 (TensorFlow `SqrtGrad`).
#[inline(always)]
pub(crate) fn sqrt_grad<T: Float>(dy: T, y: T) -> T {
    if dy == T::ZERO { T::ZERO } else { T::of(0.5) * dy / y }
}

/// `1 / √x` (TensorFlow `Rsqrt`).
#[inline(always)]
pub(crate) fn rsqrt<T: Float>(x: T) -> T {
    T::ONE / x.sqrt()
}

/// `-dy y³ / 2`, and 0 where `dy` is 0 (TensorFlow `RsqrtGrad`).
#[inline(always)]
pub(crate) fn rsqrt_grad<T: Float>(dy: T, y: T) -> T {
    if dy == T::ZERO { T::ZERO } else { T::of(-0.5) * dy * y * y * y }
}

/// `1 / x` (TensorFlow `Reciprocal`).
#[inline(always)]
pub(crate) fn reciprocal<T: Float>(x: T) -> T {
    T::ONE / x
}

/// `-dy y²`, and 0 where `dy` is 0 (TensorFlow `ReciprocalGrad`).
#[inline(always)]
pub(crate) fn reciprocal_grad<T: Float>(dy: T, y: T) -> T {
    if dy == T::ZERO { T::ZERO } else { -dy * y * y }
}

/// `x²`
#[inline(always)]
pub(crate) fn square<T: Number>(x: T) -> T {
    x.times(x)
}

/// `2 dy x`
#[inline(always)]
pub(crate) fn square_grad<T: Float>(dy: T, x: T) -> T {
    T::of(2.0) * dy * x
}

/// `dy` times the sign of `x`
#[inline(always)]
pub(crate) fn abs_grad<T: Float>(dy: T, x: T) -> T {
    dy * x.sign()
}

/// `dy 2/√π e^(-x²)`
#[inline(always)]
pub(crate) fn erf_grad<T: Float>(dy: T, x: T) -> T {
    dy * T::of(std::f64::consts::FRAC_2_SQRT_PI) * (-(x * x)).exp()
}

/// The remainder of `a` after division by `b` to the integer below, with the sign of `b`
/// (TensorFlow `FloorMod`).
#[inline(always)]
pub(crate) fn floor_mod<T: Number>(a: T, b: T) -> T {
    let left = a.remainder(b);
    if left != T::ZERO && (left < T::ZERO) != (b < T::ZERO) { left.plus(b) } else { left }
}

/// `(a - b)²` (TensorFlow `SquaredDifference`).
#[inline(always)]
pub(crate) fn squared_difference<T: Number>(a: T, b: T) -> T {
    square(a.minus(b))
}
