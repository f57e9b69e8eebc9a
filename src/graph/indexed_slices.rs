//! A gradient as an optimizer takes it: of every element, or of the rows that a step has touched.

use super::error::{GraphError, GraphProblem};
use super::output::Output;

/// The derivative of a loss by a variable.
#[derive(Clone, Debug)]
pub enum Gradient {
    /// The gradient of every element.
    Dense(Output),
    /// The gradient of some rows; it is zero for the others.
    Slices(IndexedSlices),
}

/// Rows of a value that is zero elsewhere (TensorFlow: `tf.IndexedSlices`). If a row occurs more
/// than once, its value is the sum.
#[derive(Clone, Debug)]
pub struct IndexedSlices {
    values: Output,
    indices: Output,
    rows: usize,
}

impl IndexedSlices {
    /// Rows `values` (f32 \[n, row…\]) with the numbers `indices` (i32 or i64 \[n\]), of a value
    /// that has `rows` rows.
    ///
    /// # Errors
    /// If their types are others, their counts differ, or they belong to two graphs.
    #[track_caller]
    pub fn new(values: &Output, indices: &Output, rows: usize) -> Result<Self, GraphError> {
        let name = "IndexedSlices";
        values.graph().check_own(name, indices)?;
        let (value, index) = (values.tensor_type(), indices.tensor_type());
        let is_numbered = match (value.float_dims(), index.shape.dims()) {
            (Some([count, ..]), [numbered]) => {
                count.is_none() || numbered.is_none() || count == numbered
            }
            _ => false,
        };
        if is_numbered && index.dtype.is_integer() {
            return Ok(Self { values: values.clone(), indices: indices.clone(), rows });
        }
        let needs = "f32 rows and a vector with the number, i32 or i64, of each".to_owned();
        Err(GraphError::new(name, GraphProblem::Inputs { needs, inputs: vec![value, index] }))
    }

    /// The rows (f32 \[n, row…\]).
    pub fn values(&self) -> &Output {
        &self.values
    }

    /// Their numbers (i32 or i64 \[n\]).
    pub fn indices(&self) -> &Output {
        &self.indices
    }

    /// The number of rows of the whole value.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The same slices with each row once: rows that occur more than once are summed, in their
    /// order.
    #[track_caller]
    pub fn sum_duplicates(&self) -> Self {
        let (indices, index) = self.indices.unique().expect("the numbers of rows are a vector");
        let values = self
            .values
            .segment_sum_like(&index, &indices)
            .expect("rows and their numbers were checked");
        Self { values, indices, rows: self.rows }
    }

    /// The whole value; rows that are not among the slices are zeros (TensorFlow:
    /// `tf.convert_to_tensor`).
    #[track_caller]
    pub fn to_dense(&self) -> Output {
        self.values
            .unsorted_segment_sum(&self.indices, self.rows)
            .expect("rows and their numbers were checked")
    }
}

impl Gradient {
    /// The derivative by every element.
    #[track_caller]
    pub fn to_dense(&self) -> Output {
        match self {
            Self::Dense(gradient) => gradient.clone(),
            Self::Slices(slices) => slices.to_dense(),
        }
    }

    /// The same gradient, with each row once.
    #[track_caller]
    pub(crate) fn sum_duplicates(&self) -> Self {
        match self {
            Self::Dense(gradient) => Self::Dense(gradient.clone()),
            Self::Slices(slices) => Self::Slices(slices.sum_duplicates()),
        }
    }

    /// The values: of every element, or of the rows in the slices.
    pub(crate) fn values(&self) -> &Output {
        match self {
            Self::Dense(gradient) => gradient,
            Self::Slices(slices) => slices.values(),
        }
    }

    /// The outputs it consists of: the rows and their numbers, or one value.
    pub(crate) fn parts(&self) -> Vec<&Output> {
        match self {
            Self::Dense(gradient) => vec![gradient],
            Self::Slices(IndexedSlices { values, indices, .. }) => vec![values, indices],
        }
    }
}

impl From<Output> for Gradient {
    fn from(gradient: Output) -> Self {
        Self::Dense(gradient)
    }
}

impl From<IndexedSlices> for Gradient {
    fn from(slices: IndexedSlices) -> Self {
        Self::Slices(slices)
    }
}
