//! Rows of a tensor, the parts along its first dimension, and the tensor of some rows.

use super::{Shape, Tensor};

impl Tensor {
    /// Row `row`: the part at that position of the first dimension.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn row(&self, row: usize) -> Self {
        let dims = self.held().shape.dims();
        assert!(row < dims[0], "a row is one of those there are");
        let one = Shape::new(&dims[1..]);
        self.copy_of(row * one.elements(), one)
    }

    /// `count` rows from row `first` on: a part along the first dimension.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn rows(&self, first: usize, count: usize) -> Self {
        let dims = self.held().shape.dims();
        assert!(first + count <= dims[0], "rows are some of those there are");
        let before = first * dims[1..].iter().product::<usize>();
        self.copy_of(before, Shape::new(&[&[count][..], &dims[1..]].concat()))
    }

    /// The elements from number `first` on, in the shape of the part that they are, in memory of
    /// its own; hollow if this tensor is.
    fn copy_of(&self, first: usize, shape: Shape) -> Self {
        if self.is_hollow() {
            return Self::hollow(self.dtype(), shape);
        }
        let mut part = Self::unwritten(self.dtype(), shape);
        let (begin, len) = (first * self.dtype().size(), part.byte_len());
        part.bytes_mut().copy_from_slice(&self.bytes()[begin..][..len]);
        part
    }

    /// The tensor with these rows, all of one type; hollow if one of them is.
    ///
    /// # Panics
    /// If they are of different types, or there are none.
    pub(crate) fn of_rows(rows: &[&Self]) -> Self {
        let (dtype, shape) = (rows[0].dtype(), rows[0].shape());
        let dims: Vec<usize> =
            std::iter::once(rows.len()).chain(shape.dims().iter().copied()).collect();
        if rows.iter().any(|row| row.is_hollow()) {
            return Self::hollow(dtype, Shape::new(&dims));
        }
        let mut all = Self::unwritten(dtype, Shape::new(&dims));
        let len = rows[0].byte_len();
        for (row, to) in rows.iter().zip(all.bytes_mut().chunks_exact_mut(len.max(1))) {
            assert_eq!((row.dtype(), row.shape()), (dtype, shape), "rows are of one type");
            to.copy_from_slice(row.bytes());
        }
        all
    }
}
