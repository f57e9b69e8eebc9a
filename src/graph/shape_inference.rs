//! What each operation gives for what it is given: element types and shapes, as far as they are known.
//!
//! Used twice: when a graph is built, where the batch may be unknown, and when a step runs, where
//! every dimension is known and the result says how much work a kernel is.

mod array;
mod indexed;
mod loss;
mod order;
mod product;
mod reduce;
mod resource;
mod slices;
mod sparse;
mod window;

use smallvec::{SmallVec, smallvec};

use super::TensorType;
use super::error::GraphProblem;
use super::op::Op;
use crate::tensor::{DType, PartialShape, Shape};

/// The types of an operation's outputs.
pub(crate) type OutputTypes = SmallVec<[TensorType; 2]>;

/// The outputs of `op` for inputs and variables of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] or [`GraphProblem::Variable`] where they don't fit.
pub(crate) fn infer(op: &Op, inputs: &[TensorType], variables: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    if op.is_stateful() {
        return stateful(op, inputs, variables);
    }
    let (outputs, needs) = match (op, inputs) {
        (Op::Placeholder { dtype, shape }, []) => return Ok(one(*dtype, *shape)),
        (Op::Const(value), []) => return Ok(one(value.dtype(), value.shape())),
        (Op::Fill { shape, .. } | Op::Random { shape, .. }, []) => return Ok(one(DType::F32, *shape)),
        (Op::Variable(_) | Op::Resource(_) | Op::NoOp, []) => return Ok(smallvec![]),
        (Op::Identity, [x]) => return Ok(smallvec![*x]),
        (Op::Cast(dtype), [x]) => return Ok(one(*dtype, x.shape)),
        (Op::Array(array), inputs) => return array::infer(array, inputs),
        (Op::Sparse(sparse), inputs) => return sparse::infer(sparse, inputs),
        (Op::Indexed(indexed), inputs) => return indexed::infer(indexed, inputs),
        (Op::Window(window), inputs) => return window::infer(window, inputs),
        (Op::MatMul { transpose_a, transpose_b }, inputs) => return product::infer(inputs, *transpose_a, *transpose_b),
        (Op::BatchMatMul { adj_x, adj_y }, inputs) => return product::infer_batch(inputs, *adj_x, *adj_y),
        (Op::BiasAdd, [x, bias]) => (bias_add(*x, *bias), "f32 […, n] and a bias [n]"),
        (Op::BiasAddGrad, [x]) => (columns(*x).map(|columns| one(DType::F32, [columns])), "f32 of rank 2 or more"),
        (Op::Unary(_), [x]) => (same(inputs).map(|_| smallvec![*x]), "one f32"),
        (Op::UnaryGrad(_), [_, _]) => (same(inputs), "two f32 of one shape"),
        (Op::Binary(_), [a, b]) => (binary(*a, *b), "two f32 of one shape, or a scalar and another"),
        (Op::AddN, [_, ..]) => (same(inputs), "f32 of one shape"),
        (Op::ScaleRows, [x, factor]) => {
            (scale_rows(*x, *factor), "an f32 matrix [rows, n] and a factor for each row [rows]")
        }
        (Op::Reduce(op), inputs) => return reduce::infer(op, inputs),
        (Op::ReduceGrad(op), inputs) => return reduce::infer_grad(op, inputs),
        (Op::Order(order), inputs) => return order::infer(order, inputs),
        (Op::Loss(loss), inputs) => return loss::infer(loss, inputs),
        (Op::Equal, [a, b]) => (equal(*a, *b), "two i32 or two i64 of one shape"),
        _ => (None, "another number of inputs"),
    };
    outputs.ok_or_else(|| refused(needs, inputs))
}

/// That `inputs` are not what an operation needs.
fn refused(needs: &str, inputs: &[TensorType]) -> GraphProblem {
    let stored = inputs.iter().any(|input| input.dtype == DType::BF16);
    let hint = if stored { " (bf16 is for storage: cast it to f32 to compute with it)" } else { "" };
    GraphProblem::Inputs { needs: format!("{needs}{hint}"), inputs: inputs.to_vec() }
}

fn stateful(op: &Op, inputs: &[TensorType], variables: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let refuse = |needs: &str| refused(needs, inputs);
    let count = || TensorType::new(DType::I64, Shape::SCALAR);
    match (op, inputs, variables) {
        (Op::OnResource { resource, action }, inputs, _) => resource::infer(&resource.kind, action, inputs),
        (Op::ReadVariable, [], [variable]) => Ok(smallvec![*variable, count()]),
        (Op::ResourceGather, [ids], [table]) => match sparse::gathered(*ids, *table) {
            Some(rows) => Ok(rows.into_iter().chain([count()]).collect()),
            None => Err(refuse("i32 or i64 as ids of the rows of an f32 variable")),
        },
        (Op::IsVariableInitialized, [], [_]) => Ok(one(DType::Bool, Shape::SCALAR)),
        (Op::AwaitVariable, [], [_]) => Ok(smallvec![]),
        (Op::AssignAdd, [value], [_]) if matches!(value.dtype, DType::Bool | DType::BF16) => Err(refuse("numbers")),
        (Op::Assign | Op::AssignAdd, [value], [variable]) => {
            stores(*value, *variable)?;
            Ok(smallvec![*variable])
        }
        (Op::ApplyGradient { is_sparse: true, .. }, [rate, rows, ids, ..], [variable, ..]) => {
            let fits = rate.is_float_scalar() && sparse::are_slices(*rows, *ids, *variable);
            let needs = || format!("an f32 scalar as learning rate, rows of {variable} and an id for each");
            if fits { Ok(smallvec![]) } else { Err(refuse(&needs())) }
        }
        (Op::ApplyGradient { .. }, [rate, gradient, ..], [variable, ..]) => {
            stores(*gradient, *variable)?;
            let is_f32 = rate.is_float_scalar() && gradient.dtype == DType::F32;
            if is_f32 { Ok(smallvec![]) } else { Err(refuse("an f32 scalar as learning rate and an f32 gradient")) }
        }
        (Op::Vote(_), _, _) => Ok(one(DType::I64, [None])),
        (Op::CommitStep(_), [read, ..], [step]) if *read == count() && *step == count() => {
            Ok(smallvec![count(), count(), TensorType::new(DType::Bool, Shape::SCALAR)])
        }
        (Op::CommitStep(_), _, _) => Err(refuse("an i64 scalar as global step")),
        _ => Err(refuse("another number of inputs or variables")),
    }
}

fn stores(value: TensorType, variable: TensorType) -> Result<(), GraphProblem> {
    if value.dtype == variable.dtype && value.shape.merge(&variable.shape).is_some() {
        return Ok(());
    }
    Err(GraphProblem::Variable { variable: String::new(), holds: Box::new(variable), given: Box::new(value) })
}

fn one(dtype: DType, shape: impl Into<PartialShape>) -> OutputTypes {
    smallvec![TensorType::new(dtype, shape)]
}

/// The dimensions of an f32 matrix.
fn matrix(x: TensorType) -> Option<[Option<usize>; 2]> {
    x.float_dims()?.try_into().ok()
}

/// The last dimension of an f32 that has others before it.
fn columns(x: TensorType) -> Option<Option<usize>> {
    x.float_dims()?.split_last().filter(|(_, rows)| !rows.is_empty()).map(|(columns, _)| *columns)
}

fn bias_add(x: TensorType, bias: TensorType) -> Option<OutputTypes> {
    let &[width] = bias.float_dims()? else { return None };
    let width = agree(columns(x)?, width)?;
    let rows = &x.shape.dims()[..x.shape.rank() - 1];
    Some(one(DType::F32, PartialShape::new(&[rows, &[width]].concat())))
}

fn scale_rows(x: TensorType, factor: TensorType) -> Option<OutputTypes> {
    let ([rows, columns], &[factors]) = (matrix(x)?, factor.float_dims()?) else { return None };
    Some(one(DType::F32, [agree(rows, factors)?, columns]))
}

fn equal(a: TensorType, b: TensorType) -> Option<OutputTypes> {
    let comparable = a.dtype == b.dtype && matches!(a.dtype, DType::I32 | DType::I64);
    comparable.then(|| a.shape.merge(&b.shape)).flatten().map(|shape| one(DType::Bool, shape))
}

fn binary(a: TensorType, b: TensorType) -> Option<OutputTypes> {
    if a.dtype != DType::F32 || b.dtype != DType::F32 {
        return None;
    }
    match (a.shape.rank(), b.shape.rank()) {
        (_, 0) => Some(smallvec![a]),
        (0, _) => Some(smallvec![b]),
        _ => a.shape.merge(&b.shape).map(|shape| one(DType::F32, shape)),
    }
}

fn same(inputs: &[TensorType]) -> Option<OutputTypes> {
    let shape = inputs.iter().try_fold(inputs[0].shape, |shape, input| shape.merge(&input.shape))?;
    inputs.iter().all(|input| input.dtype == DType::F32).then(|| one(DType::F32, shape))
}

/// The dimension that is both, where both can be one: `None` where they are known and differ.
fn agree(a: Option<usize>, b: Option<usize>) -> Option<Option<usize>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => None,
        (a, b) => Some(a.or(b)),
    }
}
