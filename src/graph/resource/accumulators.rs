//! Conditional accumulators, of whole gradients and of some of their rows.

use super::Resource;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Reduction, ResourceAction, ResourceKind};
use crate::graph::output::{Output, Target};
use crate::graph::{Graph, IndexedSlices, TensorType, Variable};
use crate::tensor::{DType, PartialShape};

/// Collects gradients, whoever sends them, until as many are there as somebody wants to take
/// (TensorFlow: `tf.compat.v1.ConditionalAccumulator`).
///
/// Gradients of steps before the accumulator's own, which each taking raises by one, are dropped
/// without a word.
#[derive(Clone)]
pub struct ConditionalAccumulator {
    resource: Resource,
}

/// [`ConditionalAccumulator`] for gradients of some rows (TensorFlow:
/// `tf.compat.v1.SparseConditionalAccumulator`).
///
/// The mean of a row is over the gradients that have it, not over all, so that it differs from the
/// mean of the dense gradients. Numbers of rows are expected to be sorted and each to come once;
/// [`SparseSum`](crate::sync::SparseSum) says what becomes of others.
#[derive(Clone)]
pub struct SparseConditionalAccumulator {
    resource: Resource,
    rows: usize,
}

impl ConditionalAccumulator {
    /// An accumulator of gradients of this type; what is taken is their mean or their sum.
    ///
    /// # Errors
    /// If the name is taken or illegal, or the values are no numbers.
    #[track_caller]
    pub fn new(
        g: &Graph,
        name: &str,
        dtype: DType,
        shape: impl Into<PartialShape>,
        reduction: Reduction,
    ) -> Result<Self, GraphError> {
        let value = TensorType::new(dtype, shape);
        check(name, value, reduction)?;
        let kind = ResourceKind::ConditionalAccumulator { value, reduction };
        Ok(Self { resource: Resource::new(g, name, kind)? })
    }

    /// An accumulator of gradients of `variable`, where that is, whose mean is taken.
    #[track_caller]
    pub(crate) fn beside(variable: &Variable, name: &str) -> Result<Self, GraphError> {
        let (value, reduction) = (variable.spec().tensor_type(), Reduction::Mean);
        check(name, value, reduction)?;
        let kind = ResourceKind::ConditionalAccumulator { value, reduction };
        Ok(Self { resource: Resource::beside(variable, name, kind)? })
    }

    /// Adds `gradient`, unless `local_step` (i64), the step that it was computed in, is before the
    /// accumulator's. Its output says how many steps it is before that (i64).
    ///
    /// # Errors
    /// If the gradient is of another type.
    #[track_caller]
    pub fn apply_grad(&self, gradient: &Output, local_step: &Output) -> Result<Target, GraphError> {
        self.resource.add(ResourceAction::ApplyGradient, &[local_step, gradient])
    }

    /// The mean or sum of all gradients, as soon as there are `number` (i32); ends the
    /// accumulator's step.
    ///
    /// # Errors
    /// If `number` is no i32 scalar.
    #[track_caller]
    pub fn take_grad(&self, number: &Output) -> Result<Output, GraphError> {
        let target = self.resource.add(ResourceAction::TakeGradient, &[number])?;
        Ok(target.output(0).expect("what takes a gradient gives it"))
    }

    /// How many gradients there are (i32).
    #[track_caller]
    pub fn num_accumulated(&self) -> Output {
        self.resource.ask(ResourceAction::NumAccumulated)
    }

    /// From now on drops gradients of steps before `step` (i64).
    ///
    /// # Errors
    /// If `step` is no i64 scalar.
    #[track_caller]
    pub fn set_global_step(&self, step: &Output) -> Result<Target, GraphError> {
        self.resource.add(ResourceAction::SetGlobalStep, &[step])
    }
}

impl SparseConditionalAccumulator {
    /// An accumulator of f32 rows of a whole of this shape, whose number of rows has to be known;
    /// what is taken is the mean or the sum of each row.
    ///
    /// # Errors
    /// If the name is taken or illegal, or there is no known number of rows.
    #[track_caller]
    pub fn new(
        g: &Graph,
        name: &str,
        shape: impl Into<PartialShape>,
        reduction: Reduction,
    ) -> Result<Self, GraphError> {
        let whole = TensorType::new(DType::F32, shape);
        let rows = check_rows(name, whole, reduction)?;
        let kind = ResourceKind::SparseConditionalAccumulator { whole, reduction };
        Ok(Self { resource: Resource::new(g, name, kind)?, rows })
    }

    /// An accumulator of rows of `variable`, where that is, whose mean is taken.
    #[track_caller]
    pub(crate) fn beside(variable: &Variable, name: &str) -> Result<Self, GraphError> {
        let (whole, reduction) = (variable.spec().tensor_type(), Reduction::Mean);
        let rows = check_rows(name, whole, reduction)?;
        let kind = ResourceKind::SparseConditionalAccumulator { whole, reduction };
        Ok(Self { resource: Resource::beside(variable, name, kind)?, rows })
    }

    /// Adds `gradient`, unless `local_step` (i64), the step that it was computed in, is before the
    /// accumulator's. Its output says how many steps it is before that (i64).
    ///
    /// # Errors
    /// If the rows are of another shape.
    #[track_caller]
    pub fn apply_grad(
        &self,
        gradient: &IndexedSlices,
        local_step: &Output,
    ) -> Result<Target, GraphError> {
        self.resource.add(
            ResourceAction::ApplyGradient,
            &[local_step, gradient.indices(), gradient.values()],
        )
    }

    /// The mean or sum of each row, as soon as there are `number` (i32) gradients; ends the
    /// accumulator's step.
    ///
    /// # Errors
    /// If `number` is no i32 scalar.
    #[track_caller]
    pub fn take_grad(&self, number: &Output) -> Result<IndexedSlices, GraphError> {
        let taken = self.resource.add(ResourceAction::TakeGradient, &[number])?;
        let part = |output| taken.output(output).expect("what takes slices gives numbers and rows");
        IndexedSlices::new(&part(1), &part(0), self.rows)
    }

    /// How many gradients there are (i32).
    #[track_caller]
    pub fn num_accumulated(&self) -> Output {
        self.resource.ask(ResourceAction::NumAccumulated)
    }

    /// From now on drops gradients of steps before `step` (i64).
    ///
    /// # Errors
    /// If `step` is no i64 scalar.
    #[track_caller]
    pub fn set_global_step(&self, step: &Output) -> Result<Target, GraphError> {
        self.resource.add(ResourceAction::SetGlobalStep, &[step])
    }
}

#[track_caller]
fn check(name: &str, value: TensorType, reduction: Reduction) -> Result<(), GraphError> {
    if value.dtype == DType::F32 && matches!(reduction, Reduction::Sum | Reduction::Mean) {
        return Ok(());
    }
    let needs = "gradients of f32, and their mean or sum".to_owned();
    Err(GraphError::new(name, GraphProblem::Inputs { needs, inputs: vec![value] }))
}

/// How many rows there are in `whole`.
#[track_caller]
fn check_rows(name: &str, whole: TensorType, reduction: Reduction) -> Result<usize, GraphError> {
    check(name, whole, reduction)?;
    whole.shape.dims().first().copied().flatten().ok_or_else(|| {
        let needs = "a whole whose number of rows is known".to_owned();
        GraphError::new(name, GraphProblem::Inputs { needs, inputs: vec![whole] })
    })
}
