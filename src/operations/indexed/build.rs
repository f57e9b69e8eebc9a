//! The methods of `Output` that build operations on elements found by indices.

use super::Indexed;
use crate::graph::{GraphError, Output};
use crate::tensor::{Shape, Tensor};

/// Elements found by indices, i32 or i64, which count from 0. An index outside its axis fails the
/// step.
impl Output {
    /// The slices at `indices` along `axis`, which the indices' shape replaces (TensorFlow
    /// `tf.gather`).
    ///
    /// # Errors
    /// If there is no such axis, or the indices are not integers.
    #[track_caller]
    pub fn gather(&self, indices: &Self, axis: isize) -> Result<Self, GraphError> {
        let axis = self.axis(axis)?;
        self.with(&[indices], Indexed::Gather { axis, batch: 0 })
    }

    /// The slices at `indices` \[…, k\], whose last dimension is a position along the first `k`
    /// axes (TensorFlow `tf.gather_nd`).
    ///
    /// # Errors
    /// If the indices are not integers, or `k` is unknown or more than the number of axes.
    #[track_caller]
    pub fn gather_nd(&self, indices: &Self) -> Result<Self, GraphError> {
        self.with(&[indices], Indexed::GatherNd)
    }

    /// Zeros of `shape`, with `updates` added at these indices \[…, k\] (TensorFlow
    /// `tf.scatter_nd`).
    ///
    /// # Errors
    /// As [`Output::gather_nd`], or if the updates are not numbers or not of the shape that it
    /// would give.
    #[track_caller]
    pub fn scatter_nd(&self, updates: &Self, shape: impl Into<Shape>) -> Result<Self, GraphError> {
        self.with(&[updates], Indexed::ScatterNd(shape.into()))
    }

    /// This value with `updates` added at `indices` \[…, k\] (TensorFlow
    /// `tf.tensor_scatter_nd_add`).
    ///
    /// # Errors
    /// As [`Output::scatter_nd`].
    #[track_caller]
    pub fn tensor_scatter_add(&self, indices: &Self, updates: &Self) -> Result<Self, GraphError> {
        self.with(&[indices, updates], Indexed::TensorScatterAdd)
    }

    /// This value with `updates` in place of the elements at `indices` \[…, k\]; of several for one
    /// place the last counts (TensorFlow `tf.tensor_scatter_nd_update`).
    ///
    /// # Errors
    /// As [`Output::scatter_nd`], except that the updates may be truth values.
    #[track_caller]
    pub fn tensor_scatter_update(
        &self,
        indices: &Self,
        updates: &Self,
    ) -> Result<Self, GraphError> {
        self.with(&[indices, updates], Indexed::TensorScatterUpdate)
    }

    /// `on` at these indices along a new axis of size `depth`, at position `axis` of the result,
    /// and `off` elsewhere; `off` everywhere for an index outside it (TensorFlow `tf.one_hot`).
    ///
    /// # Errors
    /// If these are not integers, there is no such place for an axis, or `on` and `off` are not
    /// scalars of one type.
    #[track_caller]
    pub fn one_hot<T: Into<Tensor>>(
        &self,
        depth: usize,
        on: T,
        off: T,
        axis: isize,
    ) -> Result<Self, GraphError> {
        let (axis, on, off) = (self.new_axis(axis)?, on.into(), off.into());
        self.with(&[], Indexed::OneHot { depth, axis, on, off })
    }
}
