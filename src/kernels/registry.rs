//! From an operation of a graph to its kernel, and to what the kernel costs.

mod array;
mod indexed;
mod loss;
mod product;
mod reduce;
mod sparse;
mod views;
mod window;

use half::bf16;
use smallvec::{SmallVec, smallvec};

use super::cost::Cost;
use super::indexed::IndexOutOfRange;
use super::sparse::NoSuchRow;
use super::{convert, cost, elementwise, random, rows, softmax};
use crate::graph::{Binary, Op, RandomLaw, Unary};
use crate::tensor::{DType, Element, Shape, Tensor};

/// The outputs of a kernel.
pub(crate) type Outputs = SmallVec<[Tensor; 2]>;

/// The element type and the shape of a value.
pub(crate) type Known = (DType, Shape);

/// Why a kernel can't do its work, on account of the values it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A label that names no class.
    #[error(transparent)]
    Label(#[from] softmax::LabelOutOfRange),
    /// An index that is no position.
    #[error(transparent)]
    Index(#[from] IndexOutOfRange),
    /// An id that names no row.
    #[error(transparent)]
    Row(#[from] NoSuchRow),
    /// Values of different types or shapes.
    #[error("{0} and {1} can't be added")]
    Unlike(String, String),
}

pub(crate) use sparse::gather_rows;

/// Runs the kernel of `op`, whose inputs shape inference has checked.
///
/// # Errors
/// If the values, as distinct from their types, are not what the operation can work on.
///
/// # Panics
/// If `op` is one that a parameter server runs, or the graph never does.
pub(crate) fn call(op: &Op, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    let outputs = match (op, inputs) {
        (Op::NoOp, _) => smallvec![],
        (Op::Identity, [x]) => smallvec![(*x).clone()],
        (Op::Fill { shape, value }, []) => one(*shape, |out| convert::fill(*value, out)),
        (Op::Random { law, shape, seeds, offset }, []) => one(*shape, |out| draw(*law, *seeds, *offset, out)),
        (Op::MatMul { transpose_a, transpose_b }, [a, b]) => product::call(a, b, *transpose_a, *transpose_b),
        (Op::BatchMatMul { adj_x, adj_y }, [x, y]) => product::call(x, y, *adj_x, *adj_y),
        (Op::BiasAdd, [x, bias]) => one(x.shape(), |out| rows::bias_add(x.slice(), bias.slice(), out)),
        (Op::BiasAddGrad, [x]) => {
            let (_, columns) = x.shape().rows_and_columns();
            one(Shape::from([columns]), |out| rows::bias_add_grad(x.slice(), out))
        }
        (Op::ScaleRows, [x, factors]) => one(x.shape(), |out| rows::scale_rows(x.slice(), factors.slice(), out)),
        (Op::Unary(unary), [x]) => one(x.shape(), |out| apply_unary(*unary, x.slice(), out)),
        (Op::UnaryGrad(unary), [dy, seen]) => {
            one(dy.shape(), |out| apply_unary_grad(*unary, dy.slice(), seen.slice(), out))
        }
        (Op::Binary(binary), [a, b]) => {
            let shape = if a.shape().rank() == 0 { b.shape() } else { a.shape() };
            one(shape, |out| apply_binary(*binary, a.slice(), b.slice(), out))
        }
        (Op::AddN, [first, ..]) => {
            let slices: SmallVec<[&[f32]; 8]> = inputs.iter().map(|input| input.slice()).collect();
            one(first.shape(), |out| elementwise::add_n(&slices, 1.0, out))
        }
        (Op::Reduce(op), [x]) => reduce::call(*op, x),
        (Op::ReduceGrad(op), inputs) => reduce::call_grad(*op, inputs),
        (Op::Order(order), inputs) => reduce::call_order(*order, inputs),
        (Op::Loss(loss), inputs) => return loss::call(*loss, inputs),
        (Op::Equal, [a, b]) => one(a.shape(), |out| match a.dtype() {
            DType::I32 => convert::equal(a.slice::<i32>(), b.slice(), out),
            _ => convert::equal(a.slice::<i64>(), b.slice(), out),
        }),
        (Op::Cast(to), [x]) => smallvec![cast(x, *to)],
        (Op::Array(array), inputs) => return array::call(array, inputs),
        (Op::Sparse(sparse), inputs) => return sparse::call(sparse, inputs),
        (Op::Indexed(indexed), inputs) => return indexed::call(indexed, inputs),
        (Op::Window(window), inputs) => return window::call(window, inputs),
        (op, _) => panic!("{} has no kernel for {} inputs", op.kind(), inputs.len()),
    };
    Ok(outputs)
}

/// What the kernel of `op` costs, for inputs and outputs of these types.
pub(crate) fn cost(op: &Op, inputs: &[Known], outputs: &[Known]) -> Cost {
    let elements = outputs.first().map_or(0, |(_, shape)| shape.elements());
    let shapes: SmallVec<[Shape; 3]> = inputs.iter().map(|(_, shape)| *shape).collect();
    match (op, shapes.as_slice()) {
        (Op::Array(array), _) => array::cost(array, inputs, outputs),
        (Op::Sparse(sparse), _) => sparse::cost(sparse, inputs, outputs),
        (Op::Indexed(indexed), _) => indexed::cost(indexed, inputs, outputs),
        (Op::Window(window), _) => window::cost(window, inputs, outputs),
        (Op::MatMul { transpose_a: a, transpose_b: b } | Op::BatchMatMul { adj_x: a, adj_y: b }, _) => {
            product::cost(inputs, outputs, *a, *b)
        }
        (Op::Reduce(_) | Op::ReduceGrad(_) | Op::Order(_), _) => reduce::cost(inputs, outputs),
        (Op::Fill { .. }, _) => Cost::moved(4 * elements),
        (Op::Random { .. }, _) => Cost::random(elements),
        (Op::BiasAdd | Op::ScaleRows, [_, other]) => Cost::broadcast(elements, other.elements()),
        (Op::BiasAddGrad, [x]) => Cost::reduction(x.elements(), elements),
        (Op::Unary(unary), _) => Cost::elementwise(elements, 1, unary_flops(*unary)),
        (Op::UnaryGrad(_), _) => Cost::elementwise(elements, 2, 2),
        (Op::Binary(_) | Op::Equal, _) => Cost::elementwise(elements, 2, 1),
        (Op::AddN, inputs) => Cost::add_n(inputs.len(), elements),
        (Op::Loss(loss), _) => loss::cost(*loss, inputs, outputs),
        (Op::Cast(_), _) => Cost::moved(bytes(inputs) + bytes(outputs)),
        _ => Cost::default(),
    }
}

/// How much memory values of these types take \[bytes\].
fn bytes(types: &[Known]) -> usize {
    types.iter().map(|(dtype, shape)| dtype.size() * shape.elements()).sum()
}

/// `a + b`, of any numbers of one type and shape.
///
/// # Errors
/// If the types or shapes differ.
pub(crate) fn add_values(a: &Tensor, b: &Tensor) -> Result<Tensor, KernelError> {
    fn sum<T: Element + std::ops::Add<Output = T>>(a: &Tensor, b: &Tensor) -> Tensor {
        let mut sum = Tensor::uninitialised::<T>(a.shape());
        let pairs = a.slice::<T>().iter().zip(b.slice::<T>());
        sum.make_mut::<T>().iter_mut().zip(pairs).for_each(|(sum, (a, b))| *sum = *a + *b);
        sum
    }
    match (a.dtype(), b.dtype()) {
        (dtype, other) if (a.is_hollow() || b.is_hollow()) && dtype == other && a.shape() == b.shape() => {
            Ok(Tensor::hollow(dtype, a.shape()))
        }
        (DType::F32, DType::F32) if a.shape() == b.shape() => Ok(sum::<f32>(a, b)),
        (DType::F64, DType::F64) if a.shape() == b.shape() => Ok(sum::<f64>(a, b)),
        (DType::I32, DType::I32) if a.shape() == b.shape() => Ok(sum::<i32>(a, b)),
        (DType::I64, DType::I64) if a.shape() == b.shape() => Ok(sum::<i64>(a, b)),
        _ => {
            let name = |x: &Tensor| format!("{}{}", x.dtype(), x.shape());
            Err(KernelError::Unlike(name(a), name(b)))
        }
    }
}

/// The output of a kernel that writes every element.
fn one<T: Element>(shape: Shape, write: impl FnOnce(&mut [T])) -> Outputs {
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    smallvec![out]
}

fn draw(law: RandomLaw, (seed, operation): (u64, u64), offset: usize, out: &mut [f32]) {
    let key = random::Key { seed, operation, offset };
    match law {
        RandomLaw::Uniform { low, high } => random::uniform(key, low, high, out),
        RandomLaw::Normal { mean, deviation } => random::normal(key, mean, deviation, out),
        RandomLaw::TruncatedNormal { mean, deviation } => random::truncated_normal(key, mean, deviation, out),
    }
}

fn apply_unary(unary: Unary, x: &[f32], out: &mut [f32]) {
    match unary {
        Unary::Relu => elementwise::relu(x, out),
        Unary::Sigmoid => elementwise::sigmoid(x, out),
        Unary::Tanh => elementwise::tanh(x, out),
        Unary::Exp => elementwise::exp(x, out),
        Unary::Log => elementwise::log(x, out),
        Unary::Square => elementwise::square(x, out),
        Unary::Neg => elementwise::negate(x, out),
    }
}

fn unary_flops(unary: Unary) -> usize {
    match unary {
        Unary::Relu | Unary::Square | Unary::Neg => 1,
        Unary::Exp | Unary::Log => cost::EXP,
        Unary::Sigmoid | Unary::Tanh => cost::TANH,
    }
}

/// `seen` is the function's result, or its input where [`Unary::gradient_needs_input`] says so.
fn apply_unary_grad(unary: Unary, dy: &[f32], seen: &[f32], out: &mut [f32]) {
    match unary {
        Unary::Relu => elementwise::relu_grad(dy, seen, out),
        Unary::Sigmoid => elementwise::sigmoid_grad(seen, dy, out),
        Unary::Tanh => elementwise::tanh_grad(seen, dy, out),
        Unary::Exp => elementwise::mul(dy, seen, out),
        Unary::Log => elementwise::div(dy, seen, out),
        Unary::Square => elementwise::square_grad(dy, seen, out),
        Unary::Neg => elementwise::negate(dy, out),
    }
}

fn apply_binary(binary: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    match binary {
        Binary::Add => elementwise::add(a, b, out),
        Binary::Sub => elementwise::sub(a, b, out),
        Binary::Mul => elementwise::mul(a, b, out),
        Binary::Div => elementwise::div(a, b, out),
    }
}

fn cast(x: &Tensor, to: DType) -> Tensor {
    match x.dtype() {
        from if from == to => x.clone(),
        DType::F32 => cast_from::<f32>(x, to),
        DType::F64 => cast_from::<f64>(x, to),
        DType::BF16 => cast_from::<bf16>(x, to),
        DType::I32 => cast_from::<i32>(x, to),
        DType::I64 => cast_from::<i64>(x, to),
        DType::Bool => cast_from::<bool>(x, to),
    }
}

fn cast_from<From: Element + convert::CastToAny>(x: &Tensor, to: DType) -> Tensor {
    fn into<From: Element + convert::CastTo<To>, To: Element>(x: &Tensor) -> Tensor {
        let mut out = Tensor::uninitialised::<To>(x.shape());
        convert::cast(x.slice::<From>(), out.make_mut::<To>());
        out
    }
    match to {
        DType::F32 => into::<From, f32>(x),
        DType::F64 => into::<From, f64>(x),
        DType::BF16 => into::<From, bf16>(x),
        DType::I32 => into::<From, i32>(x),
        DType::I64 => into::<From, i64>(x),
        DType::Bool => into::<From, bool>(x),
    }
}
