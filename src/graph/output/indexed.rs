//! Elements found by indices, i32 or i64, which count from 0. An index outside its axis fails the
//! step.

use super::Output;
use crate::graph::error::GraphError;
use crate::graph::op::{Indexed, Op};
use crate::tensor::{Shape, Tensor};

impl Output {
    /// The slices at `indices` along `axis`, in whose place the indices' shape is (TensorFlow
    /// `tf.gather`).
    ///
    /// # Errors
    /// If there is no such axis, or the indices are no integers.
    #[track_caller]
    pub fn gather(&self, indices: &Self, axis: isize) -> Result<Self, GraphError> {
        let axis = self.axis(axis)?;
        self.with(&[indices], Op::Indexed(Indexed::Gather { axis }))
    }

    /// The slices at `indices` \[…, k\], whose last dimension is a position along the first `k`
    /// axes (TensorFlow `tf.gather_nd`).
    ///
    /// # Errors
    /// If the indices are no integers, or `k` is unknown or more than there are axes.
    #[track_caller]
    pub fn gather_nd(&self, indices: &Self) -> Result<Self, GraphError> {
        self.with(&[indices], Op::Indexed(Indexed::GatherNd))
    }

    /// Zeros of `shape`, and `updates` added at these indices \[…, k\] (TensorFlow
    /// `tf.scatter_nd`).
    ///
    /// # Errors
    /// As [`Output::gather_nd`], or if the updates are no numbers or not of the shape that it would
    /// give.
    #[track_caller]
    pub fn scatter_nd(&self, updates: &Self, shape: impl Into<Shape>) -> Result<Self, GraphError> {
        self.with(&[updates], Op::Indexed(Indexed::ScatterNd(shape.into())))
    }

    /// With `updates` added at `indices` \[…, k\] (TensorFlow `tf.tensor_scatter_nd_add`).
    ///
    /// # Errors
    /// As [`Output::scatter_nd`].
    #[track_caller]
    pub fn tensor_scatter_add(&self, indices: &Self, updates: &Self) -> Result<Self, GraphError> {
        self.with(&[indices, updates], Op::Indexed(Indexed::TensorScatterAdd))
    }

    /// With `updates` in place of what is at `indices` \[…, k\], the last of several for one place
    /// (TensorFlow `tf.tensor_scatter_nd_update`).
    ///
    /// # Errors
    /// As [`Output::scatter_nd`], except that the updates may be truth values.
    #[track_caller]
    pub fn tensor_scatter_update(
        &self,
        indices: &Self,
        updates: &Self,
    ) -> Result<Self, GraphError> {
        self.with(&[indices, updates], Op::Indexed(Indexed::TensorScatterUpdate))
    }

    /// `on` at these indices along a new axis of size `depth` that is number `axis` of the result,
    /// `off` elsewhere; `off` all along for an index outside it (TensorFlow `tf.one_hot`).
    ///
    /// # Errors
    /// If these are no integers, there is no such place for an axis, or `on` and `off` are no
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
        self.with(&[], Op::Indexed(Indexed::OneHot { depth, axis, on, off }))
    }
}
