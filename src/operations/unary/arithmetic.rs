//! The arithmetic of functions of one element, and of their gradients.

use super::Unary;
use crate::kernels::convert;
use crate::kernels::functions as f;
use crate::kernels::number::{Float, Number};
use crate::kernels::parallel::{map, map2, vectorised};

/// `out[i] = op(x[i])`, of the functions that integers have too.
pub(super) fn of_any<T: Number>(op: Unary, x: &[T], out: &mut [T]) {
    match op {
        Unary::Square => map(x, out, f::square),
        Unary::Abs => map(x, out, T::magnitude),
        Unary::Sign => map(x, out, T::sign),
        Unary::Neg => map(x, out, T::negated),
        _ => panic!("{op:?} is a function of real numbers"),
    }
}

/// `out[i] = op(x[i])`
pub(super) fn unary<T: Float>(op: Unary, x: &[T], out: &mut [T]) {
    match op {
        Unary::Relu => map(x, out, f::relu),
        Unary::Relu6 => map(x, out, f::relu6),
        Unary::LeakyRelu(alpha) => map(x, out, move |x| f::leaky_relu(x, T::of(alpha.into()))),
        Unary::Elu => map(x, out, f::elu),
        Unary::Selu => map(x, out, f::selu),
        Unary::Gelu { approximate: false } => map(x, out, f::gelu),
        Unary::Gelu { approximate: true } => map(x, out, f::gelu_tanh),
        Unary::Sigmoid => map(x, out, f::sigmoid),
        Unary::Tanh => map(x, out, T::tanh),
        Unary::Softplus => map(x, out, f::softplus),
        Unary::Softsign => map(x, out, f::softsign),
        Unary::Silu => map(x, out, f::silu),
        Unary::LogSigmoid => map(x, out, f::log_sigmoid),
        Unary::Exp => map(x, out, T::exp),
        Unary::Expm1 => map(x, out, T::expm1),
        Unary::Log => map(x, out, T::log),
        Unary::Log1p => map(x, out, T::log1p),
        Unary::Sqrt => map(x, out, T::sqrt),
        Unary::Rsqrt => map(x, out, f::rsqrt),
        Unary::Reciprocal => map(x, out, f::reciprocal),
        Unary::Square | Unary::Abs | Unary::Sign | Unary::Neg => of_any(op, x, out),
        Unary::Floor => map(x, out, T::floor),
        Unary::Ceil => map(x, out, T::ceil),
        Unary::Round => map(x, out, T::round),
        Unary::Sin if turns_are_known(x) => map(x, out, T::sin),
        Unary::Sin => map(x, out, T::sin_of_any),
        Unary::Cos if turns_are_known(x) => map(x, out, T::cos),
        Unary::Cos => map(x, out, T::cos_of_any),
        Unary::Erf => map(x, out, T::erf),
    }
}

/// `out[i]` = the gradient of `op` at `seen[i]`, times `dy[i]`; [`Unary::gradient_sees`] says what
/// is seen.
pub(super) fn unary_grad<T: Float>(op: Unary, dy: &[T], seen: &[T], out: &mut [T]) {
    match op {
        Unary::Relu => map2(dy, seen, out, f::relu_grad),
        Unary::Relu6 => map2(dy, seen, out, f::relu6_grad),
        Unary::LeakyRelu(alpha) => {
            map2(dy, seen, out, move |dy, x| f::leaky_relu_grad(dy, x, T::of(alpha.into())))
        }
        Unary::Elu => map2(dy, seen, out, f::elu_grad),
        Unary::Selu => map2(dy, seen, out, f::selu_grad),
        Unary::Gelu { approximate: false } => map2(dy, seen, out, f::gelu_grad),
        Unary::Gelu { approximate: true } => map2(dy, seen, out, f::gelu_tanh_grad),
        Unary::Sigmoid => map2(dy, seen, out, f::sigmoid_grad),
        Unary::Tanh => map2(dy, seen, out, f::tanh_grad),
        Unary::Softplus => map2(dy, seen, out, f::softplus_grad),
        Unary::Softsign => map2(dy, seen, out, f::softsign_grad),
        Unary::Silu => map2(dy, seen, out, f::silu_grad),
        Unary::LogSigmoid => map2(dy, seen, out, f::log_sigmoid_grad),
        Unary::Exp => map2(dy, seen, out, |dy, y| dy * y),
        Unary::Expm1 => map2(dy, seen, out, f::expm1_grad),
        Unary::Log => map2(dy, seen, out, |dy, x| dy / x),
        Unary::Log1p => map2(dy, seen, out, f::log1p_grad),
        Unary::Sqrt => map2(dy, seen, out, f::sqrt_grad),
        Unary::Rsqrt => map2(dy, seen, out, f::rsqrt_grad),
        Unary::Reciprocal => map2(dy, seen, out, f::reciprocal_grad),
        Unary::Square => map2(dy, seen, out, f::square_grad),
        Unary::Abs => map2(dy, seen, out, f::abs_grad),
        Unary::Sign => convert::fill(T::ZERO, out),
        Unary::Sin if turns_are_known(seen) => map2(dy, seen, out, |dy, x| dy * x.cos()),
        Unary::Sin => map2(dy, seen, out, |dy, x| dy * x.cos_of_any()),
        Unary::Cos if turns_are_known(seen) => map2(dy, seen, out, |dy, x| -dy * x.sin()),
        Unary::Cos => map2(dy, seen, out, |dy, x| -dy * x.sin_of_any()),
        Unary::Erf => map2(dy, seen, out, f::erf_grad),
        Unary::Neg | Unary::Floor | Unary::Ceil | Unary::Round => {
            panic!("the gradient of {op:?} has no kernel")
        }
    }
}

/// Whether all angles are such that the fast sine and cosine are good.
fn turns_are_known<T: Float>(x: &[T]) -> bool {
    vectorised(|| x.iter().fold(true, |known, x| known & x.turns_are_known()))
}
