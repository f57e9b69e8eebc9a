//! Finds the kernel of an operation of a graph, and the kernel's cost.

use smallvec::{SmallVec, smallvec};

use crate::graph::{ComputeError, Cost, Known, Op, OpDef, Outputs, TensorType, bytes, infer};
use crate::kernels::cost::EXP;
use crate::kernels::learning_rate::learning_rate;
use crate::kernels::{Numerics, by_word, convert, filled_in};
use crate::tensor::{PartialShape, Shape, Tensor};

/// An error of a kernel that can't work on the values that it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
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
    /// The shape of the result depends on values that are not computed.
    #[error(
        "the shape of what {0} gives depends on numbers that numerics = \"shapes\" does not \
         compute; feed its input, or make it of integers alone"
    )]
    Shapeless(&'static str),
}

impl Numerics {
    /// Computes the outputs of `op`, whose inputs shape inference has checked.
    ///
    /// # Errors
    /// If the operation can't work on the inputs' values, though their types fit.
    pub(crate) fn call(self, op: &Op, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
        let hollow = match self {
            Self::Real => None,
            Self::Shapes => hollow_outputs(op, inputs)?,
        };
        hollow.map_or_else(|| call(op, inputs), Ok)
    }
}

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
        (Op::LearningRate(rate), [step]) => {
            smallvec![learning_rate(rate, step.slice::<i64>()[0]).into()]
        }
        (Op::Defined(op), inputs) if op.is_checked() => return checked(op.definition(), inputs),
        (Op::Defined(op), inputs) => op.definition().compute(inputs)?,
        (op, _) => panic!("{} has no kernel for {} inputs", op.kind(), inputs.len()),
    };
    Ok(outputs)
}

/// The cost of the kernel of `op`, for inputs and outputs of these types.
pub(crate) fn cost(op: &Op, inputs: &[Known], outputs: &[Known]) -> Cost {
    match op {
        Op::Defined(op) => op.definition().cost(inputs, outputs),
        Op::Fill { .. } => Cost::moved(bytes(outputs)),
        Op::LearningRate(_) => Cost::work(2 * EXP, bytes(inputs) + bytes(outputs)),
        _ => Cost::default(),
    }
}

/// Computes a program's operation, and checks that its outputs have the inferred types, on which
/// others rely.
fn checked(definition: &dyn OpDef, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    let type_of = |x: &Tensor| TensorType::new(x.dtype(), x.shape());
    let types: SmallVec<[TensorType; 3]> = inputs.iter().map(|x| type_of(x)).collect();
    let inferred = definition.infer(&types).expect("an operation runs once its types are inferred");
    let outputs = definition.compute(inputs)?;
    let fits = |(output, inferred): (&Tensor, &TensorType)| {
        let shape = PartialShape::from(output.shape());
        output.dtype() == inferred.dtype && inferred.shape.merge(&shape).is_some()
    };
    if outputs.len() == inferred.len() && outputs.iter().zip(&inferred).all(fits) {
        return Ok(outputs);
    }
    let list = |types: &[TensorType]| match types {
        [] => "nothing".to_owned(),
        types => types.iter().map(|of| of.to_string()).collect::<Vec<_>>().join(" and "),
    };
    let computed: Vec<TensorType> = outputs.iter().map(type_of).collect();
    Err(KernelError::Contradiction {
        kind: definition.kind(),
        computed: list(&computed),
        inferred: list(&inferred),
    })
}

/// `value` everywhere.
fn filled(shape: Shape, value: &Tensor) -> Tensor {
    by_word!(value.dtype(), W => {
        filled_in::<W>(value.dtype(), shape, |out| convert::fill(value.words::<W>()[0], out))
    })
}

/// The hollow outputs of `op`, if floats have no numbers; `None` if its outputs have numbers
/// anyway.
///
/// # Errors
/// If the shape of the outputs depends on an input without numbers.
fn hollow_outputs(op: &Op, inputs: &[&Tensor]) -> Result<Option<Outputs>, KernelError> {
    if let Op::Defined(op) = op
        && !op.definition().needs_values()
    {
        return Ok(None);
    }
    let types: Vec<TensorType> =
        inputs.iter().map(|input| TensorType::new(input.dtype(), input.shape())).collect();
    let outputs =
        infer(op, &types, &[]).expect("an operation runs once its outputs' types are inferred");
    let is_hollow = inputs.iter().any(|input| input.is_hollow())
        || outputs.iter().any(|output| output.dtype.is_float());
    if !is_hollow {
        return Ok(None);
    }
    let known = |output: &TensorType| output.shape.known().ok_or(KernelError::Shapeless(op.kind()));
    let hollow = outputs.iter().map(|output| Ok(Tensor::hollow(output.dtype, known(output)?)));
    hollow.collect::<Result<_, _>>().map(Some)
}
