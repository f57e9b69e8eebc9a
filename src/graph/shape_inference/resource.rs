//! The outputs of operations on queues and accumulators.

use smallvec::smallvec;

use super::{OutputTypes, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::{ResourceAction, ResourceKind};
use crate::tensor::{DType, MAX_RANK, PartialShape, Shape};

/// The outputs of `action` on a resource of `kind`.
///
/// # Errors
/// [`GraphProblem::Inputs`] if the inputs don't fit the action.
pub(super) fn infer(
    kind: &ResourceKind,
    action: &ResourceAction,
    inputs: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    use ResourceAction as Do;
    use ResourceKind::{ConditionalAccumulator, FifoQueue, SparseConditionalAccumulator};
    let outputs = match (kind, action, inputs) {
        _ if !is_sound(kind, action) => None,
        (FifoQueue { components, .. }, Do::Enqueue, inputs) => {
            fit(components, inputs).then(OutputTypes::new)
        }
        (FifoQueue { components, .. }, Do::EnqueueMany, inputs) => {
            fit(&rows_of(components, None), inputs).then(OutputTypes::new)
        }
        (FifoQueue { components, .. }, Do::Dequeue, []) => {
            Some(components.iter().copied().collect())
        }
        (FifoQueue { components, .. }, Do::DequeueMany(count), []) => {
            Some(rows_of(components, Some(*count)).into_iter().collect())
        }
        (FifoQueue { components, .. }, Do::DequeueUpTo(_), []) => {
            Some(rows_of(components, None).into_iter().collect())
        }
        (FifoQueue { .. }, Do::CloseQueue { .. }, []) => Some(smallvec![]),
        (FifoQueue { .. }, Do::QueueIsClosed, []) => Some(one(DType::Bool, Shape::SCALAR)),
        (FifoQueue { .. }, Do::QueueSize, []) => Some(one(DType::I32, Shape::SCALAR)),
        (FifoQueue { .. }, ..) => None,
        (ConditionalAccumulator { value, .. }, Do::ApplyGradient, [step, gradient]) => {
            (is_scalar(DType::I64, step) && fits(value, gradient))
                .then(|| one(DType::I64, Shape::SCALAR))
        }
        (SparseConditionalAccumulator { whole, .. }, Do::ApplyGradient, [step, indices, rows]) => {
            let are_slices = is_list(indices) && fits(&rows_of_whole(whole), rows);
            (is_scalar(DType::I64, step) && are_slices).then(|| one(DType::I64, Shape::SCALAR))
        }
        (ConditionalAccumulator { value, .. }, Do::TakeGradient, [number]) => {
            is_scalar(DType::I32, number).then(|| smallvec![*value])
        }
        (SparseConditionalAccumulator { whole, .. }, Do::TakeGradient, [number]) => {
            let indices = TensorType::new(DType::I64, [None]);
            is_scalar(DType::I32, number).then(|| smallvec![indices, rows_of_whole(whole)])
        }
        (_, Do::NumAccumulated, []) => Some(one(DType::I32, Shape::SCALAR)),
        (_, Do::SetGlobalStep, [step]) => is_scalar(DType::I64, step).then(OutputTypes::new),
        _ => None,
    };
    outputs.ok_or_else(|| refused(&needs(kind, action), inputs))
}

/// Whether there can be a resource of this kind, and such an action on it. A handle's constructor
/// sees to it; another process may not have used one.
fn is_sound(kind: &ResourceKind, action: &ResourceAction) -> bool {
    use ResourceAction::{DequeueMany, DequeueUpTo, EnqueueMany};
    match kind {
        ResourceKind::FifoQueue { components, .. } => {
            let stacks = matches!(action, EnqueueMany | DequeueMany(_) | DequeueUpTo(_));
            let can_stack = |component: &TensorType| component.shape.rank() < MAX_RANK;
            !components.is_empty() && (!stacks || components.iter().all(can_stack))
        }
        ResourceKind::ConditionalAccumulator { value, .. } => value.dtype == DType::F32,
        ResourceKind::SparseConditionalAccumulator { whole, .. } => {
            whole.dtype == DType::F32 && matches!(whole.shape.dims(), [Some(_), ..])
        }
    }
}

fn needs(kind: &ResourceKind, action: &ResourceAction) -> String {
    let list = |types: &[TensorType]| {
        types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    };
    match (kind, action) {
        (ResourceKind::FifoQueue { .. }, _) if !is_sound(kind, action) => {
            let most = MAX_RANK - 1;
            format!("components, each of at most {most} dimensions where elements are stacked")
        }
        (ResourceKind::FifoQueue { components, .. }, ResourceAction::Enqueue) => {
            format!("the components of an element, {}", list(components))
        }
        (ResourceKind::FifoQueue { components, .. }, ResourceAction::EnqueueMany) => {
            format!("the components of elements, {}", list(&rows_of(components, None)))
        }
        (ResourceKind::ConditionalAccumulator { value, .. }, ResourceAction::ApplyGradient) => {
            format!("an i64 scalar as local step and a gradient {value}")
        }
        (
            ResourceKind::SparseConditionalAccumulator { whole, .. },
            ResourceAction::ApplyGradient,
        ) => {
            let rows = rows_of_whole(whole);
            format!(
                "an i64 scalar as local step, and the numbers (i32 or i64) and the rows {rows} of \
                 a gradient"
            )
        }
        (_, ResourceAction::TakeGradient) => "an i32 scalar as number of gradients".to_owned(),
        (_, ResourceAction::SetGlobalStep) => "an i64 scalar as global step".to_owned(),
        _ => "no inputs".to_owned(),
    }
}

fn is_scalar(dtype: DType, x: &TensorType) -> bool {
    x.dtype == dtype && x.shape.rank() == 0
}

fn is_list(x: &TensorType) -> bool {
    x.dtype.is_integer() && x.shape.rank() == 1
}

/// The type of any number of rows of `whole`.
fn rows_of_whole(whole: &TensorType) -> TensorType {
    let dims: Vec<Option<usize>> =
        std::iter::once(None).chain(whole.shape.dims().iter().skip(1).copied()).collect();
    TensorType::new(whole.dtype, PartialShape::new(&dims))
}

fn fit(wanted: &[TensorType], given: &[TensorType]) -> bool {
    wanted.len() == given.len()
        && wanted.iter().zip(given).all(|(wanted, given)| fits(wanted, given))
}

fn fits(wanted: &TensorType, given: &TensorType) -> bool {
    wanted.dtype == given.dtype && wanted.shape.merge(&given.shape).is_some()
}

/// The types of the components of `count` elements, stacked.
fn rows_of(components: &[TensorType], count: Option<usize>) -> Vec<TensorType> {
    let rows = |component: &TensorType| {
        let dims: Vec<Option<usize>> =
            std::iter::once(count).chain(component.shape.dims().iter().copied()).collect();
        TensorType::new(component.dtype, PartialShape::new(&dims))
    };
    components.iter().map(rows).collect()
}
