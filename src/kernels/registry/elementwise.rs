//! The kernels of one result an element: functions of one and of two, comparisons, selections.

use smallvec::{SmallVec, smallvec};

use super::super::broadcast::{Operand, map2_broadcast};
use super::super::functions as f;
use super::super::number::{Float, Number};
use super::super::parallel::{map, map2, vectorised};
use super::super::{broadcast, convert, cost, elementwise};
use super::{Cost, KernelError, Known, Outputs, bytes, one};
use crate::graph::{Binary, Comparison, Logical, Op, Unary};
use crate::tensor::{DType, Element, Shape, Tensor};

/// As [`super::call`].
pub(super) fn call(op: &Op, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    Ok(match (op, inputs) {
        (Op::Unary(op), [x]) => match x.dtype() {
            DType::F32 => one::<f32>(x.shape(), |out| unary(*op, x.slice(), out)),
            DType::F64 => one::<f64>(x.shape(), |out| unary(*op, x.slice(), out)),
            DType::I32 => one::<i32>(x.shape(), |out| unary_of_any(*op, x.slice(), out)),
            _ => one::<i64>(x.shape(), |out| unary_of_any(*op, x.slice(), out)),
        },
        (Op::UnaryGrad(op), [dy, seen]) => match dy.dtype() {
            DType::F32 => {
                one::<f32>(dy.shape(), |out| unary_grad(*op, dy.slice(), seen.slice(), out))
            }
            _ => one::<f64>(dy.shape(), |out| unary_grad(*op, dy.slice(), seen.slice(), out)),
        },
        (Op::Binary(op), [a, b]) => return binary(*op, a, b),
        (Op::Compare(op), [a, b]) => compare(*op, a, b),
        (Op::Logical(Logical::Not), [x]) => {
            one(x.shape(), |out| map(x.slice::<bool>(), out, |x| !x))
        }
        (Op::Logical(Logical::And), [a, b]) => zipped::<bool, _>(a, b, |a, b| a & b),
        (Op::Logical(_), [a, b]) => zipped::<bool, _>(a, b, |a, b| a | b),
        (Op::Select, [condition, a, b]) => match a.dtype() {
            DType::F32 => select::<f32>(condition, a, b),
            DType::F64 => select::<f64>(condition, a, b),
            DType::BF16 => select::<half::bf16>(condition, a, b),
            DType::I32 => select::<i32>(condition, a, b),
            DType::I64 => select::<i64>(condition, a, b),
            DType::I8 => select::<i8>(condition, a, b),
            DType::Bool => select::<bool>(condition, a, b),
        },
        (Op::SumToLike, [dy, x]) if dy.shape().elements() == x.shape().elements() => {
            smallvec![dy.reshaped(x.shape())]
        }
        (Op::SumToLike, [dy, x]) => match dy.dtype() {
            DType::F32 => one::<f32>(x.shape(), |out| {
                broadcast::sum_to((dy.slice(), dy.shape()), out, x.shape())
            }),
            _ => one::<f64>(x.shape(), |out| {
                broadcast::sum_to((dy.slice(), dy.shape()), out, x.shape())
            }),
        },
        (Op::AddN, [first, ..]) => match first.dtype() {
            DType::F32 => add_n::<f32>(inputs),
            DType::F64 => add_n::<f64>(inputs),
            DType::I32 => add_n::<i32>(inputs),
            _ => add_n::<i64>(inputs),
        },
        (op, _) => panic!("{} has no kernel for {} inputs", op.kind(), inputs.len()),
    })
}

/// As [`super::cost`].
pub(super) fn cost(op: &Op, inputs: &[Known], outputs: &[Known]) -> Cost {
    let elements: usize = outputs.iter().map(|(_, shape)| shape.elements()).sum();
    let flops = match op {
        Op::Unary(op) => elements * unary_flops(*op),
        Op::UnaryGrad(op) => elements * unary_grad_flops(*op),
        Op::Binary(Binary::Pow) => elements * 2 * cost::EXP,
        Op::AddN => elements * inputs.len(),
        Op::SumToLike => match inputs {
            [(_, dy), (_, x)] if dy.elements() == x.elements() => return Cost::default(),
            [dy, _] => return Cost::work(dy.1.elements(), bytes(&[*dy]) + bytes(outputs)),
            _ => 0,
        },
        _ => elements,
    };
    Cost::work(flops, bytes(inputs) + bytes(outputs))
}

/// The operations of a function.
fn unary_flops(op: Unary) -> usize {
    match op {
        Unary::Exp | Unary::Expm1 | Unary::Log | Unary::Log1p | Unary::Sin | Unary::Cos => {
            cost::EXP
        }
        Unary::Elu | Unary::Selu => cost::EXP + 2,
        Unary::Sigmoid | Unary::Tanh | Unary::Silu | Unary::Erf | Unary::Gelu { .. } => cost::TANH,
        Unary::Softplus | Unary::LogSigmoid => 2 * cost::EXP,
        Unary::Relu6 | Unary::Softsign | Unary::Rsqrt => 2,
        _ => 1,
    }
}

/// The operations of a function's gradient.
fn unary_grad_flops(op: Unary) -> usize {
    match op {
        Unary::Gelu { .. } => cost::TANH + cost::EXP,
        Unary::Softplus | Unary::LogSigmoid | Unary::Silu => cost::TANH,
        Unary::Expm1 | Unary::Erf | Unary::Sin | Unary::Cos => cost::EXP,
        _ => 2,
    }
}

fn add_n<T: Number>(inputs: &[&Tensor]) -> Outputs {
    let slices: SmallVec<[&[T]; 8]> = inputs.iter().map(|input| input.slice()).collect();
    one(inputs[0].shape(), |out| elementwise::add_n(&slices, T::ONE, out))
}

/// `out[i] = op(a[i], b[i])`, broadcast.
#[inline(always)]
fn zipped<X: Element, Y: Element>(
    a: &Tensor,
    b: &Tensor,
    op: impl Fn(X, X) -> Y + Copy + Sync,
) -> Outputs {
    let shape = broadcast::shape_of(a.shape(), b.shape());
    one(shape, |out| map2_broadcast((a.slice(), a.shape()), (b.slice(), b.shape()), out, shape, op))
}

fn select<T: Element>(condition: &Tensor, a: &Tensor, b: &Tensor) -> Outputs {
    let shape = broadcast::shape_of(condition.shape(), broadcast::shape_of(a.shape(), b.shape()));
    one::<T>(shape, |out| {
        let [chosen, other] = [a, b].map(|x| (x.slice(), x.shape()));
        broadcast::select((condition.slice(), condition.shape()), chosen, other, out, shape);
    })
}

fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Result<Outputs, KernelError> {
    let of_integers =
        |fits: bool| fits.then_some(()).ok_or_else(|| KernelError::Integers(Op::Binary(op).kind()));
    Ok(match a.dtype() {
        DType::F32 => arithmetic_of::<f32>(op, a, b),
        DType::F64 => arithmetic_of::<f64>(op, a, b),
        DType::I32 => {
            of_integers(divides(op, a, b.slice::<i32>()))?;
            arithmetic_of::<i32>(op, a, b)
        }
        _ => {
            of_integers(divides(op, a, b.slice::<i64>()))?;
            arithmetic_of::<i64>(op, a, b)
        }
    })
}

fn arithmetic_of<T: Number>(op: Binary, a: &Tensor, b: &Tensor) -> Outputs {
    let shape = broadcast::shape_of(a.shape(), b.shape());
    one(shape, |out| {
        arithmetic::<T>(op, (a.slice(), a.shape()), (b.slice(), b.shape()), out, shape)
    })
}

/// Whether integers have a result: no divisor is 0, and no exponent below.
fn divides<T: Number>(op: Binary, a: &Tensor, b: &[T]) -> bool {
    match op {
        Binary::Div | Binary::FloorDiv | Binary::FloorMod => {
            !b.contains(&T::ZERO) || a.shape().elements() == 0
        }
        Binary::Pow => b.iter().all(|b| *b >= T::ZERO) || a.shape().elements() == 0,
        _ => true,
    }
}

/// `out[i] = op(a[i], b[i])`, broadcast to `shape`.
pub(super) fn arithmetic<T: Number>(
    op: Binary,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
    shape: Shape,
) {
    match op {
        Binary::Add => map2_broadcast(a, b, out, shape, T::plus),
        Binary::Sub => map2_broadcast(a, b, out, shape, T::minus),
        Binary::Mul => map2_broadcast(a, b, out, shape, T::times),
        Binary::Div => map2_broadcast(a, b, out, shape, T::quotient),
        Binary::FloorDiv => map2_broadcast(a, b, out, shape, T::floor_quotient),
        Binary::FloorMod => map2_broadcast(a, b, out, shape, f::floor_mod::<T>),
        Binary::Pow => map2_broadcast(a, b, out, shape, T::power),
        Binary::Maximum => map2_broadcast(a, b, out, shape, f::maximum::<T>),
        Binary::Minimum => map2_broadcast(a, b, out, shape, f::minimum::<T>),
        Binary::SquaredDifference => map2_broadcast(a, b, out, shape, f::squared_difference::<T>),
    }
}

fn compare(op: Comparison, a: &Tensor, b: &Tensor) -> Outputs {
    fn of<T: Element + PartialOrd>(op: Comparison, a: &Tensor, b: &Tensor) -> Outputs {
        match op {
            Comparison::Equal => zipped(a, b, |a: T, b: T| a == b),
            Comparison::NotEqual => zipped(a, b, |a: T, b: T| a != b),
            Comparison::Less => zipped(a, b, |a: T, b: T| a < b),
            Comparison::LessEqual => zipped(a, b, |a: T, b: T| a <= b),
            Comparison::Greater => zipped(a, b, |a: T, b: T| a > b),
            Comparison::GreaterEqual => zipped(a, b, |a: T, b: T| a >= b),
        }
    }
    match a.dtype() {
        DType::F32 => of::<f32>(op, a, b),
        DType::F64 => of::<f64>(op, a, b),
        DType::I32 => of::<i32>(op, a, b),
        DType::I64 => of::<i64>(op, a, b),
        _ => of::<bool>(op, a, b),
    }
}

/// `out[i] = op(x[i])`, of the functions that integers have too.
fn unary_of_any<T: Number>(op: Unary, x: &[T], out: &mut [T]) {
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
        Unary::Square | Unary::Abs | Unary::Sign | Unary::Neg => unary_of_any(op, x, out),
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
