//! Operations on rows that are found by their number.

use super::Output;
use crate::graph::error::GraphError;
use crate::graph::op::{Op, Sparse};

impl Output {
    /// The distinct values of a vector of i32 or i64, in the order in which they first occur, and
    /// for each element its index among them (i32 \[n\]; TensorFlow `tf.unique`).
    ///
    /// # Errors
    /// If it is not such a vector.
    #[track_caller]
    pub fn unique(&self) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[], Op::Sparse(Sparse::Unique))?;
        let index = values.sibling(1);
        Ok((values, index))
    }

    /// Sums rows by id: row `i` of the result (f32 \[rows, row…\]) is the sum of the rows here that
    /// have the id `i`, in their order (TensorFlow `tf.math.unsorted_segment_sum`). The shape of
    /// the ids is that of the first dimensions here. A step fails if an id is outside `0..rows`;
    /// TensorFlow instead leaves out negative ids.
    ///
    /// # Errors
    /// If there is not one id, i32 or i64, for each row of f32.
    #[track_caller]
    pub fn unsorted_segment_sum(&self, ids: &Self, rows: usize) -> Result<Self, GraphError> {
        self.with(&[ids], Op::Sparse(Sparse::UnsortedSegmentSum(Some(rows))))
    }
}
