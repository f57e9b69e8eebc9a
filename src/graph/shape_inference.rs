//! The element types and shapes of each operation's outputs, as far as they follow from its inputs.
//!
//! It runs twice: when a graph is built, where the batch may be unknown, and when a step runs,
//! where every dimension is known and the result tells the work of a kernel.

mod resource;
mod rows;

use smallvec::{SmallVec, smallvec};

use super::TensorType;
use super::error::GraphProblem;
use super::op::{FirstValue, LearningRate, Op, Slot, UpdateRule};
use crate::tensor::{DType, PartialShape, Shape};

/// The types of an operation's outputs.
pub type OutputTypes = SmallVec<[TensorType; 2]>;

/// The outputs of `op` for inputs and variables of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] or [`GraphProblem::Variable`] if they don't fit, or an output would
/// have more elements than a tensor may have.
pub(crate) fn infer(
    op: &Op,
    inputs: &[TensorType],
    variables: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    let outputs = infer_any_size(op, inputs, variables)?;
    match outputs.iter().find(|output| !output.shape.is_possible()) {
        Some(output) => Err(refused(
            &format!("smaller inputs: its output would be {output}, which no memory holds"),
            inputs,
        )),
        None => Ok(outputs),
    }
}

/// As [`infer`], without the limit of elements.
fn infer_any_size(
    op: &Op,
    inputs: &[TensorType],
    variables: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    if op.is_stateful() {
        return stateful(op, inputs, variables);
    }
    let (outputs, needs) = match (op, inputs) {
        (Op::Placeholder { dtype, shape }, []) => return Ok(one(*dtype, *shape)),
        (Op::Const(value), []) => return Ok(one(value.dtype(), value.shape())),
        (Op::Fill { shape, value }, []) => return Ok(one(value.dtype(), *shape)),
        (Op::Variable(_) | Op::Resource(_) | Op::NoOp, []) => return Ok(smallvec![]),
        (Op::Identity, [x]) => return Ok(smallvec![*x]),
        (Op::Defined(op), inputs) => return op.definition().infer(inputs),
        (Op::LearningRate(rate), [step]) => {
            (learning_rate(rate, *step)?, "an i64 scalar as global step")
        }
        _ => (None, "another number of inputs"),
    };
    outputs.ok_or_else(|| refused(needs, inputs))
}

/// The error that `inputs` don't fit what an operation `needs`.
pub(crate) fn refused(needs: &str, inputs: &[TensorType]) -> GraphProblem {
    let stored = inputs.iter().map(|input| input.dtype).find(|dtype| dtype.is_for_storage());
    let hint =
        stored.map(|dtype| format!(" ({dtype} is for storage: cast it to f32 to compute with it)"));
    GraphProblem::Inputs {
        needs: format!("{needs}{}", hint.unwrap_or_default()),
        inputs: inputs.to_vec(),
    }
}

fn stateful(
    op: &Op,
    inputs: &[TensorType],
    variables: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    let refuse = |needs: &str| refused(needs, inputs);
    let count = || TensorType::new(DType::I64, Shape::SCALAR);
    let inputs = match op.guard_at().and_then(|at| inputs.split_at_checked(at)) {
        Some((others, [guard])) if *guard == TensorType::new(DType::Bool, Shape::SCALAR) => others,
        Some((_, [_])) => return Err(refuse("a bool scalar as its last input")),
        _ => inputs,
    };
    match (op, inputs, variables) {
        (Op::OnResource { resource, action }, inputs, _) => {
            resource::infer(&resource.kind, action, inputs)
        }
        (Op::ReadVariable, [], [variable]) => Ok(smallvec![*variable, count()]),
        (Op::ResourceGather, [ids], [table]) => match rows::gathered(*ids, *table) {
            Some(rows) => Ok(rows.into_iter().chain([count()]).collect()),
            None => Err(refuse("i32 or i64 as ids of the rows of an f32 variable")),
        },
        (Op::IsVariableInitialized, [], [_]) => Ok(one(DType::Bool, Shape::SCALAR)),
        (Op::AwaitVariable, [], [_]) => Ok(smallvec![]),
        (Op::AssignAdd, [value], [_])
            if value.dtype == DType::Bool || value.dtype.is_for_storage() =>
        {
            Err(refuse("numbers"))
        }
        (Op::Assign | Op::AssignAdd, [value], [variable]) => {
            stores(*value, *variable)?;
            Ok(smallvec![*variable])
        }
        (Op::ApplyGradient { rule, .. }, _, [variable, slots @ ..])
            if !slots_fit(rule, *variable, slots) =>
        {
            Err(refuse(&format!("the slots of {} beside {variable}", rule.name())))
        }
        (Op::ApplyGradient { is_sparse: true, .. }, [rate, rows, ids, ..], [variable, ..]) => {
            let fits = rate.is_float_scalar() && rows::are_slices(*rows, *ids, *variable);
            let needs =
                || format!("an f32 scalar as learning rate, rows of {variable} and an id for each");
            if fits { Ok(smallvec![]) } else { Err(refuse(&needs())) }
        }
        (Op::ApplyGradient { .. }, [rate, gradient, ..], [variable, ..]) => {
            stores(*gradient, *variable)?;
            let is_f32 = rate.is_float_scalar() && gradient.dtype == DType::F32;
            if is_f32 {
                Ok(smallvec![])
            } else {
                Err(refuse("an f32 scalar as learning rate and an f32 gradient"))
            }
        }
        (Op::CommitStep(replica), [read, values @ ..], [step, set @ ..])
            if *read == count() && *step == count() =>
        {
            end_of_step(replica.mode.needs().has_votes(), values, set)
        }
        (Op::BeginStep(_), [_, ..], [step]) if *step == count() => Ok(smallvec![]),
        (Op::Fence(_) | Op::LiftFence(_) | Op::AwaitDepartures(_), [], [step])
            if *step == count() =>
        {
            Ok(smallvec![])
        }
        (
            Op::BeginStep(_)
            | Op::CommitStep(_)
            | Op::Fence(_)
            | Op::LiftFence(_)
            | Op::AwaitDepartures(_),
            _,
            _,
        ) => Err(refuse("an i64 scalar as global step")),
        _ => Err(refuse("another number of inputs or variables")),
    }
}

/// The outputs of the end of a worker's step. One that `votes` sets the variables `set` to the
/// first of its `values`.
fn end_of_step(
    votes: bool,
    values: &[TensorType],
    set: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    if values.len() < set.len() || !votes && !set.is_empty() {
        return Err(refused("a vote, with a value for each variable that it sets", values));
    }
    set.iter().zip(values).try_for_each(|(variable, value)| stores(*value, *variable))?;
    let count = TensorType::new(DType::I64, Shape::SCALAR);
    let applied = TensorType::new(DType::Bool, Shape::SCALAR);
    let mut outputs: OutputTypes = smallvec![count, count, applied];
    if votes {
        outputs.extend(one(DType::I64, [None]));
    }
    Ok(outputs)
}

/// Whether `slots` are those that `rule` keeps beside `variable`.
fn slots_fit(rule: &UpdateRule, variable: TensorType, slots: &[TensorType]) -> bool {
    let wanted = |slot: &Slot| match slot.first {
        FirstValue::Everywhere(_) => TensorType::new(DType::F32, variable.shape),
        FirstValue::Scalar(_) => TensorType::new(DType::F32, Shape::SCALAR),
        FirstValue::Count => TensorType::new(DType::I64, Shape::SCALAR),
    };
    rule.slots().iter().map(wanted).eq(slots.iter().copied())
}

fn stores(value: TensorType, variable: TensorType) -> Result<(), GraphProblem> {
    if value.dtype == variable.dtype && value.shape.merge(&variable.shape).is_some() {
        return Ok(());
    }
    Err(GraphProblem::Variable {
        variable: String::new(),
        holds: Box::new(variable),
        given: Box::new(value),
    })
}

pub(crate) fn one(dtype: DType, shape: impl Into<PartialShape>) -> OutputTypes {
    smallvec![TensorType::new(dtype, shape)]
}

fn learning_rate(
    rate: &LearningRate,
    step: TensorType,
) -> Result<Option<OutputTypes>, GraphProblem> {
    let is_step = step == TensorType::new(DType::I64, Shape::SCALAR);
    let outputs = is_step.then(|| one(DType::F32, Shape::SCALAR));
    rate.problem().map_or(Ok(outputs), |problem| Err(GraphProblem::Schedule(problem)))
}

/// The dimension that `a` and `b` both stand for; `None` if both are known and differ.
pub(crate) fn agree(a: Option<usize>, b: Option<usize>) -> Option<Option<usize>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => None,
        (a, b) => Some(a.or(b)),
    }
}
