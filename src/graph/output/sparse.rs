//! Rows found by their number.

use super::Output;
use crate::graph::error::GraphError;
use crate::graph::op::{Op, Sparse};

impl Output {
    /// The different values of a vector of i32 or i64, in the order in which they first occur, and
    /// for each element which of them it is (i32 \[n\]) (TensorFlow `tf.unique`).
    ///
    /// # Errors
    /// If it is no such vector.
    #[track_caller]
    pub fn unique(&self) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[], Op::Sparse(Sparse::Unique))?;
        let index = values.sibling(1);
        Ok((values, index))
    }

    /// Row `i` of the result (f32 \[rows, row…\]) is the sum of the rows here that have the id `i`,
    /// in their order (TensorFlow `tf.math.unsorted_segment_sum`). The ids' shape is that of the
    /// first dimensions here. A step with an id that is none of `0..rows` fails, a negative one
    /// too, which TensorFlow leaves out.
    ///
    /// # Errors
    /// If there is not one id, i32 or i64, for each row of f32.
    #[track_caller]
    pub fn unsorted_segment_sum(&self, ids: &Self, rows: usize) -> Result<Self, GraphError> {
        self.with(&[ids], Op::Sparse(Sparse::UnsortedSegmentSum(Some(rows))))
    }
}
