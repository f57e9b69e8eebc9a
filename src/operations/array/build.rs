//! The methods of `Output` that change the shape or order of elements. A negative axis counts from
//! the innermost, which is -1.

use super::Array;
use crate::graph::{Graph, GraphError, GraphProblem, Mirror, NewOperation, Output, Subscript};
use crate::tensor::{DType, PartialShape, Tensor};

impl Graph {
    /// The values `start`, `start + delta`, … that do not reach `limit`: f32, i32 or i64
    /// (TensorFlow `tf.range`).
    ///
    /// # Errors
    /// If the three are not of one type, `delta` is 0, or the values have no end.
    #[track_caller]
    pub fn range<T: Into<Tensor>>(
        &self,
        start: T,
        limit: T,
        delta: T,
    ) -> Result<Output, GraphError> {
        let range = Array::Range { start: start.into(), limit: limit.into(), delta: delta.into() };
        Ok(self.output(self.add(NewOperation::of(range))?))
    }
}

/// The same elements in another shape or order.
impl Output {
    /// The same elements in another shape; one dimension may be `None`, and follows from the
    /// others.
    ///
    /// # Errors
    /// If the shape holds another number of elements.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<PartialShape>) -> Result<Self, GraphError> {
        self.with(&[], Array::Reshape(shape.into()))
    }

    /// Inserts an axis of size 1, which is axis `axis` of the result (TensorFlow `tf.expand_dims`).
    ///
    /// # Errors
    /// If the result can't have such an axis, or has too many dimensions.
    #[track_caller]
    pub fn expand_dims(&self, axis: isize) -> Result<Self, GraphError> {
        let axis = self.new_axis(axis)?;
        self.with(&[], Array::ExpandDims(axis))
    }

    /// Removes these axes, which must be of size 1; if none is named, removes every axis known to
    /// be of size 1 (TensorFlow `tf.squeeze`).
    ///
    /// # Errors
    /// If there is no such axis, or it is of another size.
    #[track_caller]
    pub fn squeeze(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let axes = if axes.is_empty() {
            let dims = self.tensor_type().shape;
            (0..)
                .zip(dims.dims())
                .filter(|(_, dim)| **dim == Some(1))
                .map(|(axis, _)| axis)
                .collect()
        } else {
            self.axes(axes)?
        };
        self.with(&[], Array::Squeeze(axes))
    }

    /// Reorders the axes: axis `i` of the result is axis `order[i]` (TensorFlow `tf.transpose`).
    ///
    /// # Errors
    /// If `order` does not name each axis once.
    #[track_caller]
    pub fn transpose(&self, order: &[isize]) -> Result<Self, GraphError> {
        let order = self.axes(order)?;
        self.with(&[], Array::Transpose(order))
    }

    /// Reverses the order of the elements along these axes (TensorFlow `tf.reverse`).
    ///
    /// # Errors
    /// If there is no such axis.
    #[track_caller]
    pub fn reverse(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let axes = self.axes(axes)?;
        self.with(&[], Array::Reverse(axes))
    }
}

/// Parts of a value.
impl Output {
    /// Cuts the value into parts of these sizes along `axis`; the sizes add up to the axis's
    /// (TensorFlow `tf.split`).
    ///
    /// # Errors
    /// If there is no such axis, or the sizes don't add up to it.
    #[track_caller]
    pub fn split(&self, sizes: &[usize], axis: isize) -> Result<Vec<Self>, GraphError> {
        let axis = self.axis(axis)?;
        let first = self.with(&[], Array::Split { axis, sizes: sizes.to_vec() })?;
        Ok((0..sizes.len() as u32).map(|part| first.sibling(part)).collect())
    }

    /// The value at each position of `axis`, without that axis (TensorFlow `tf.unstack`).
    ///
    /// # Errors
    /// If there is no such axis, or its size is not known.
    #[track_caller]
    pub fn unstack(&self, axis: isize) -> Result<Vec<Self>, GraphError> {
        let axis = self.axis(axis)?;
        let first = self.with(&[], Array::Unstack { axis })?;
        let count = self.tensor_type().shape.dims()[axis].unwrap_or_default();
        Ok((0..count as u32).map(|part| first.sibling(part)).collect())
    }

    /// The part of `size` that begins at `begin`; `None` is the rest of an axis (TensorFlow
    /// `tf.slice`, where it is -1).
    ///
    /// # Errors
    /// If there are not as many begins and sizes as axes, or the part ends outside the value.
    #[track_caller]
    pub fn slice(&self, begin: &[usize], size: &[Option<usize>]) -> Result<Self, GraphError> {
        self.with(&[], Array::Slice { begin: begin.to_vec(), size: size.to_vec() })
    }

    /// The part that the subscripts take, axis by axis, with the whole of each axis after them
    /// (TensorFlow `tf.strided_slice`): `x[1:-1, 3]` is
    /// `x.strided_slice(&[Subscript::between(1, -1), 3.into()])`.
    ///
    /// # Errors
    /// If there are more subscripts than axes, a position is outside its axis, or a stride is 0.
    #[track_caller]
    pub fn strided_slice(&self, subscripts: &[Subscript]) -> Result<Self, GraphError> {
        self.with(&[], Array::StridedSlice(subscripts.to_vec()))
    }
}

/// Padding, repetition and sums.
impl Output {
    /// Pads each axis with `value`, this many times before and after (TensorFlow `tf.pad`).
    ///
    /// # Errors
    /// If there is not a pair for each axis, or the value is not a scalar of the same type.
    #[track_caller]
    pub fn pad(
        &self,
        paddings: &[(usize, usize)],
        value: impl Into<Tensor>,
    ) -> Result<Self, GraphError> {
        self.with(&[], Array::Pad { paddings: paddings.to_vec(), value: value.into() })
    }

    /// Pads each axis with the value's own elements, mirrored, before and after (TensorFlow
    /// `tf.pad`, modes `REFLECT` and `SYMMETRIC`).
    ///
    /// # Errors
    /// If there is not a pair for each axis, or an axis has fewer elements to mirror than the
    /// padding takes.
    #[track_caller]
    pub fn mirror_pad(
        &self,
        paddings: &[(usize, usize)],
        mirror: Mirror,
    ) -> Result<Self, GraphError> {
        self.with(&[], Array::MirrorPad { paddings: paddings.to_vec(), mirror })
    }

    /// Repeats the value this many times along each axis (TensorFlow `tf.tile`).
    ///
    /// # Errors
    /// If there is not a number for each axis.
    #[track_caller]
    pub fn tile(&self, multiples: &[usize]) -> Result<Self, GraphError> {
        self.with(&[], Array::Tile(multiples.to_vec()))
    }

    /// Repeats the value along new outer axes and axes of size 1 to fill `shape`, where `None`
    /// keeps a size (TensorFlow `tf.broadcast_to`).
    ///
    /// # Errors
    /// If an axis is neither of the given size nor of size 1.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<PartialShape>) -> Result<Self, GraphError> {
        self.with(&[], Array::BroadcastTo(shape.into()))
    }

    /// The sums along `axis` up to each element; with `exclusive` without the element itself, with
    /// `reverse` from the end (TensorFlow `tf.cumsum`). Integers wrap.
    ///
    /// # Errors
    /// If there is no such axis, or the elements can't be added.
    #[track_caller]
    pub fn cumsum(&self, axis: isize, exclusive: bool, reverse: bool) -> Result<Self, GraphError> {
        let axis = self.axis(axis)?;
        self.with(&[], Array::Cumsum { axis, exclusive, reverse })
    }

    /// Zeros (`false`) of the same type and shape (TensorFlow `tf.zeros_like`).
    #[track_caller]
    pub fn zeros_like(&self) -> Self {
        self.map(Array::ZerosLike)
    }
}

/// Sizes, as values that a step computes with.
impl Output {
    /// The size of each dimension, as i32 or i64 (TensorFlow `tf.shape`).
    ///
    /// # Errors
    /// If `dtype` is neither i32 nor i64.
    #[track_caller]
    pub fn shape_of(&self, dtype: DType) -> Result<Self, GraphError> {
        self.with(&[], Array::Shape(dtype))
    }

    /// The number of elements, as i32 or i64 (TensorFlow `tf.size`).
    ///
    /// # Errors
    /// If `dtype` is neither i32 nor i64.
    #[track_caller]
    pub fn size(&self, dtype: DType) -> Result<Self, GraphError> {
        self.with(&[], Array::Size(dtype))
    }

    /// The number of dimensions (i32; TensorFlow `tf.rank`).
    #[track_caller]
    pub fn rank(&self) -> Self {
        self.map(Array::Rank)
    }
}

impl Output {
    /// This value and `others`, concatenated along `axis`.
    #[track_caller]
    pub(crate) fn concat_with(&self, others: &[&Self], axis: usize) -> Result<Self, GraphError> {
        self.with(others, Array::Concat { axis })
    }

    /// This value and `others` along a new axis `axis`.
    #[track_caller]
    pub(crate) fn stack_with(&self, others: &[&Self], axis: usize) -> Result<Self, GraphError> {
        self.with(others, Array::Stack { axis })
    }

    /// These elements in the shape of `like`.
    #[track_caller]
    pub(crate) fn reshape_like(&self, like: &Self) -> Result<Self, GraphError> {
        self.with(&[like], Array::ReshapeLike)
    }

    /// The index of `axis`, counted from the outermost.
    #[track_caller]
    pub(crate) fn axis(&self, axis: isize) -> Result<usize, GraphError> {
        self.axis_of(axis, self.tensor_type().shape.rank())
    }

    /// The same for a result with one axis more.
    #[track_caller]
    pub(crate) fn new_axis(&self, axis: isize) -> Result<usize, GraphError> {
        self.axis_of(axis, self.tensor_type().shape.rank() + 1)
    }

    #[track_caller]
    fn axis_of(&self, axis: isize, rank: usize) -> Result<usize, GraphError> {
        let counted = if axis < 0 { axis.saturating_add(rank as isize) } else { axis };
        if let Some(axis) = usize::try_from(counted).ok().filter(|axis| *axis < rank) {
            return Ok(axis);
        }
        let needs = format!("more dimensions to have an axis {axis}");
        Err(GraphError::new(
            self.name(),
            GraphProblem::Inputs { needs, inputs: vec![self.tensor_type()] },
        ))
    }

    #[track_caller]
    fn axes(&self, axes: &[isize]) -> Result<Vec<usize>, GraphError> {
        let mut counted = Vec::with_capacity(axes.len());
        for axis in axes {
            counted.push(self.axis(*axis)?);
        }
        Ok(counted)
    }
}
