//! Conditional accumulators, of dense gradients and of gradients of some rows.

use super::Resource;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Reduction, ResourceAction, ResourceKind};
use crate::graph::output::{Output, Target};
use crate::graph::{Graph, IndexedSlices, TensorType, Variable};
use crate::tensor::{DType, PartialShape};

/// Collects gradients, whoever sends them, until there are as many as a step wants to take
/// (TensorFlow: `tf.compat.v1.ConditionalAccumulator`).
///
/// The accumulator has a step, which each taking raises by one. Gradients of earlier steps are
/// dropped silently.
#[derive(Clone, Debug)]
pub struct ConditionalAccumulator {
    resource: Resource,
}

/// [`ConditionalAccumulator`] for gradients of some rows (TensorFlow:
/// `tf.compat.v1.SparseConditionalAccumulator`).
///
/// The mean of a row is over the gradients that have the row, not over all, so that it differs from
/// the mean of the dense gradients. Row numbers are expected to be sorted and to occur once each;
/// as in TensorFlow, the result of others can have several rows of one number.
#[derive(Clone, Debug)]
pub struct SparseConditionalAccumulator {
    resource: Resource,
    rows: usize,
}

impl ConditionalAccumulator {
    /// An accumulator of gradients of this type; it gives their mean or their sum.
    ///
    /// # Errors
    /// If the name is taken or illegal, the values are not f32, or `reduction` is another than
    /// [`Reduction::Mean`] and [`Reduction::Sum`].
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

    /// An accumulator of gradients of `variable`, on the variable's device; it gives their mean.
    #[track_caller]
    pub(crate) fn beside(variable: &Variable, name: &str) -> Result<Self, GraphError> {
        let (value, reduction) = (variable.spec().tensor_type(), Reduction::Mean);
        check(name, value, reduction)?;
        let kind = ResourceKind::ConditionalAccumulator { value, reduction };
        Ok(Self { resource: Resource::beside(variable, name, kind)? })
    }

    /// Adds `gradient`, unless `local_step` (i64), the step that it was computed in, is before the
    /// accumulator's. The operation's output is the number of steps that it is before it (i64).
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
    /// If `number` is not an i32 scalar.
    #[track_caller]
    pub fn take_grad(&self, number: &Output) -> Result<Output, GraphError> {
        let target = self.resource.add(ResourceAction::TakeGradient, &[number])?;
        Ok(target.output(0).expect("what takes a gradient gives it"))
    }
}

impl SparseConditionalAccumulator {
    /// An accumulator of f32 rows of a value of this shape, whose number of rows must be known; it
    /// gives the mean or the sum of each row.
    ///
    /// # Errors
    /// If the name is taken or illegal, the number of rows is unknown, or `reduction` is another
    /// than [`Reduction::Mean`] and [`Reduction::Sum`].
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

    /// An accumulator of rows of `variable`, on the variable's device; it gives the mean of each
    /// row.
    #[track_caller]
    pub(crate) fn beside(variable: &Variable, name: &str) -> Result<Self, GraphError> {
        let (whole, reduction) = (variable.spec().tensor_type(), Reduction::Mean);
        let rows = check_rows(name, whole, reduction)?;
        let kind = ResourceKind::SparseConditionalAccumulator { whole, reduction };
        Ok(Self { resource: Resource::beside(variable, name, kind)?, rows })
    }

    /// Adds `gradient`, unless `local_step` (i64), the step that it was computed in, is before the
    /// accumulator's. The operation's output is the number of steps that it is before it (i64).
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
    /// If `number` is not an i32 scalar.
    #[track_caller]
    pub fn take_grad(&self, number: &Output) -> Result<IndexedSlices, GraphError> {
        let taken = self.resource.add(ResourceAction::TakeGradient, &[number])?;
        let part = |output| taken.output(output).expect("what takes slices gives numbers and rows");
        IndexedSlices::new(&part(1), &part(0), self.rows)
    }
}

macro_rules! of_both_kinds {
    ($($accumulator:ident)*) => {$(
        impl $accumulator {
            /// The number of gradients (i32).
            #[track_caller]
            pub fn num_accumulated(&self) -> Output {
                self.resource.ask(ResourceAction::NumAccumulated)
            }

            /// From now on drops gradients of steps before `step` (i64).
            ///
            /// # Errors
            /// If `step` is not an i64 scalar.
            #[track_caller]
            pub fn set_global_step(&self, step: &Output) -> Result<Target, GraphError> {
                self.resource.add(ResourceAction::SetGlobalStep, &[step])
            }
        }
    )*};
}
of_both_kinds! { ConditionalAccumulator SparseConditionalAccumulator }

#[track_caller]
fn check(name: &str, value: TensorType, reduction: Reduction) -> Result<(), GraphError> {
    if value.dtype == DType::F32 && matches!(reduction, Reduction::Sum | Reduction::Mean) {
        return Ok(());
    }
    let needs = "gradients of f32, and their mean or sum".to_owned();
    Err(GraphError::new(name, GraphProblem::Inputs { needs, inputs: vec![value] }))
}

/// The number of rows of `whole`.
#[track_caller]
fn check_rows(name: &str, whole: TensorType, reduction: Reduction) -> Result<usize, GraphError> {
    check(name, whole, reduction)?;
    whole.shape.dims().first().copied().flatten().ok_or_else(|| {
        let needs = "a whole whose number of rows is known".to_owned();
        GraphError::new(name, GraphProblem::Inputs { needs, inputs: vec![whole] })
    })
}
