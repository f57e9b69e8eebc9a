//! The same elements in another shape or order.

use super::Output;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Op};
use crate::tensor::PartialShape;

impl Output {
    /// The same elements in another shape; one dimension may be `None`, and is what the others leave.
    ///
    /// # Errors
    /// If the shape holds another number of elements.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<PartialShape>) -> Result<Self, GraphError> {
        self.with(&[], Op::Array(Array::Reshape(shape.into())))
    }
}
