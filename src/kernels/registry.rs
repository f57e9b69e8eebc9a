//! Finds the kernel of an operation of a graph, and the kernel's cost.

mod array;
mod chain;
mod elementwise;
mod loss;
mod norm;
mod product;
mod reduce;
mod sparse;
mod views;
mod window;

use half::bf16;
use smallvec::{SmallVec, smallvec};

use super::cost::Cost;
use super::indexed::IndexOutOfRange;
use super::learning_rate::learning_rate;
use super::number::Float;
use super::sparse::NoSuchRow;
use super::{convert, random, rows, softmax};
use crate::graph::{ComputeError, Defined, Known, Op, Outputs, RandomLaw, TensorType};
use crate::tensor::{DType, Element, Shape, Tensor};

/// An error of a kernel that can't work on the values that it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A label that is not a class.
    #[error(transparent)]
    Label(#[from] softmax::LabelOutOfRange),
    /// Integers without a quotient or power.
    #[error(
        "{0} of integers needs divisors other than 0 and exponents of at least 0; cast to f32 \
         where others come"
    )]
    Integers(&'static str),
    /// An index outside its axis.
    #[error(transparent)]
    Index(#[from] IndexOutOfRange),
    /// An id without a row.
    #[error(transparent)]
    Row(#[from] NoSuchRow),
    /// An error of a defined operation.
    #[error(transparent)]
    Defined(#[from] ComputeError),
    /// A definition that contradicts itself.
    #[error("`{kind}` computed {computed}, but its shape inference says {inferred}: mend either")]
    Contradiction {
        /// The operation's kind.
        kind: &'static str,
        /// The types of its kernel's outputs.
        computed: String,
        /// The types that its outputs should have.
        inferred: String,
    },
    /// Values of different types or shapes.
    #[error("{0} and {1} can't be added")]
    Unlike(String, String),
    /// The shape of the result depends on values that are not computed.
    #[error(
        "the shape of what {0} gives depends on numbers that numerics = \"shapes\" does not \
         compute; feed its input, or make it of integers alone"
    )]
    Shapeless(&'static str),
}

pub(crate) use array::{by_number, by_word, bytes as bytes_of, filled_in};
pub(crate) use chain::{Link, follows, is_link, run as run_chain};
pub(crate) use reduce::{by_float, by_position, cost as cost_of_reduction};
pub(crate) use sparse::gather_rows;

/// Runs the kernel of `op`, whose inputs shape inference has checked.
///
/// # Errors
/// If the operation can't work on the inputs' values, though their types fit.
///
/// # Panics
/// If `op` is one that a parameter server runs, or the graph never does.
pub(crate) fn call(op: &Op, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    let outputs = match (op, inputs) {
        (Op::NoOp, _) => smallvec![],
        (Op::Identity, [x]) => smallvec![(*x).clone()],
        (Op::Fill { shape, value }, []) => smallvec![filled(*shape, value)],
        (Op::Random { law, shape, seeds, offset }, []) => {
            one(*shape, |out| draw(*law, *seeds, *offset, out))
        }
        (Op::MatMul { transpose_a, transpose_b }, [a, b]) => {
            product::call(a, b, *transpose_a, *transpose_b)
        }
        (Op::BatchMatMul { adj_x, adj_y }, [x, y]) => product::call(x, y, *adj_x, *adj_y),
        (Op::BiasAdd | Op::BiasAddGrad | Op::ScaleRows, [x, ..]) => match x.dtype() {
            DType::F32 => by_rows::<f32>(op, inputs),
            _ => by_rows::<f64>(op, inputs),
        },
        (Op::LearningRate(rate), [step]) => {
            smallvec![learning_rate(rate, step.slice::<i64>()[0]).into()]
        }
        (Op::Reduce(op), [x]) => reduce::call(*op, x),
        (Op::ReduceGrad(op), inputs) => reduce::call_grad(*op, inputs),
        (Op::Norm(norm), inputs) => norm::call(*norm, inputs),
        (Op::Loss(loss), inputs) => return loss::call(*loss, inputs),
        (Op::Cast(to), [x]) => smallvec![cast(x, *to)],
        (Op::Array(array), inputs) => return array::call(array, inputs),
        (Op::Sparse(sparse), inputs) => return sparse::call(sparse, inputs),
        (Op::Unary(_) | Op::UnaryGrad(_) | Op::Binary(_) | Op::Compare(_) | Op::Logical(_), _)
        | (Op::Select | Op::SumToLike | Op::AddN, _) => return elementwise::call(op, inputs),
        (Op::Window(window), inputs) => return window::call(window, inputs),
        (Op::Defined(op), inputs) => return defined(op, inputs),
        (op, _) => panic!("{} has no kernel for {} inputs", op.kind(), inputs.len()),
    };
    Ok(outputs)
}

/// The cost of the kernel of `op`, for inputs and outputs of these types.
pub(crate) fn cost(op: &Op, inputs: &[Known], outputs: &[Known]) -> Cost {
    let elements = outputs.first().map_or(0, |(_, shape)| shape.elements());
    let shapes: SmallVec<[Shape; 3]> = inputs.iter().map(|(_, shape)| *shape).collect();
    match (op, shapes.as_slice()) {
        (Op::Array(array), _) => array::cost(array, inputs, outputs),
        (Op::Sparse(sparse), _) => sparse::cost(sparse, inputs, outputs),
        (Op::Unary(_) | Op::UnaryGrad(_) | Op::Binary(_) | Op::Compare(_) | Op::Logical(_), _)
        | (Op::Select | Op::SumToLike | Op::AddN, _) => elementwise::cost(op, inputs, outputs),
        (Op::Window(window), _) => window::cost(window, inputs, outputs),
        (Op::Defined(op), _) => op.definition().cost(inputs, outputs),
        (Op::Norm(norm), _) => norm::cost(*norm, inputs, outputs),
        (
            Op::MatMul { transpose_a: a, transpose_b: b } | Op::BatchMatMul { adj_x: a, adj_y: b },
            _,
        ) => product::cost(inputs, outputs, *a, *b),
        (Op::Reduce(_) | Op::ReduceGrad(_), _) => reduce::cost(inputs, outputs),
        (Op::Fill { .. }, _) => Cost::moved(bytes(outputs)),
        (Op::Random { .. }, _) => Cost::random(elements),
        (Op::BiasAdd | Op::ScaleRows, _) => Cost::work(elements, bytes(inputs) + bytes(outputs)),
        (Op::BiasAddGrad, [x]) => Cost::work(x.elements(), bytes(inputs) + bytes(outputs)),
        (Op::Loss(loss), _) => loss::cost(*loss, inputs, outputs),
        (Op::Cast(_), _) => Cost::moved(bytes(inputs) + bytes(outputs)),
        (Op::LearningRate(_), _) => {
            Cost::work(2 * super::cost::EXP, bytes(inputs) + bytes(outputs))
        }
        _ => Cost::default(),
    }
}

/// Computes a defined operation, and checks that its outputs have the inferred types, on which
/// others rely.
fn defined(op: &Defined, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    let definition = op.definition();
    let type_of = |x: &Tensor| TensorType::new(x.dtype(), x.shape());
    let types: SmallVec<[TensorType; 3]> = inputs.iter().map(|x| type_of(x)).collect();
    let inferred = definition.infer(&types).expect("an operation runs once its types are inferred");
    let outputs = definition.compute(inputs)?;
    let fits = |(output, inferred): (&Tensor, &TensorType)| {
        let shape = crate::tensor::PartialShape::from(output.shape());
        output.dtype() == inferred.dtype && inferred.shape.merge(&shape).is_some()
    };
    if outputs.len() == inferred.len() && outputs.iter().zip(&inferred).all(fits) {
        return Ok(outputs);
    }
    let list = |types: &[TensorType]| {
        types.iter().map(|of| of.to_string()).collect::<Vec<_>>().join(" and ")
    };
    let computed: Vec<TensorType> = outputs.iter().map(type_of).collect();
    Err(KernelError::Contradiction {
        kind: definition.kind(),
        computed: list(&computed),
        inferred: list(&inferred),
    })
}

/// The memory that values of these types take \[bytes\].
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
        (dtype, other)
            if (a.is_hollow() || b.is_hollow()) && dtype == other && a.shape() == b.shape() =>
        {
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
pub(crate) fn one<T: Element>(shape: Shape, write: impl FnOnce(&mut [T])) -> Outputs {
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    smallvec![out]
}

/// The kernels of rows and a value for each column or row.
fn by_rows<T: Float>(op: &Op, inputs: &[&Tensor]) -> Outputs {
    let x = inputs[0];
    match (op, inputs) {
        (Op::BiasAdd, [_, bias]) => {
            one::<T>(x.shape(), |out| rows::bias_add(x.slice(), bias.slice(), out))
        }
        (Op::ScaleRows, [_, factors]) => {
            one::<T>(x.shape(), |out| rows::scale_rows(x.slice(), factors.slice(), out))
        }
        _ => {
            let (_, columns) = x.shape().rows_and_columns();
            one::<T>(Shape::from([columns]), |out| rows::bias_add_grad(x.slice(), out))
        }
    }
}

/// `value` everywhere.
fn filled(shape: Shape, value: &Tensor) -> Tensor {
    fn with<T: Element>(shape: Shape, value: &Tensor) -> Tensor {
        let mut out = Tensor::uninitialised::<T>(shape);
        convert::fill(value.slice::<T>()[0], out.make_mut());
        out
    }
    match value.dtype() {
        DType::F32 => with::<f32>(shape, value),
        DType::F64 => with::<f64>(shape, value),
        DType::BF16 => with::<bf16>(shape, value),
        DType::I32 => with::<i32>(shape, value),
        DType::I64 => with::<i64>(shape, value),
        DType::I8 => with::<i8>(shape, value),
        DType::Bool => with::<bool>(shape, value),
    }
}

fn draw(law: RandomLaw, (seed, operation): (u64, u64), offset: usize, out: &mut [f32]) {
    let key = random::Key { seed, operation, offset };
    match law {
        RandomLaw::Uniform { low, high } => random::uniform(key, low, high, out),
        RandomLaw::Normal { mean, deviation } => random::normal(key, mean, deviation, out),
        RandomLaw::TruncatedNormal { mean, deviation } => {
            random::truncated_normal(key, mean, deviation, out)
        }
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
        DType::I8 => cast_from::<i8>(x, to),
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
        DType::I8 => into::<From, i8>(x),
        DType::Bool => into::<From, bool>(x),
    }
}
