//! Shapes: of a tensor, with every dimension known, and of a graph's edge, with some unknown.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DType;

/// The most dimensions a shape can have.
pub(crate) const MAX_RANK: usize = 6;
/// The most elements that a shape from outside can have, dimensions of 0 counted as 1: more than
/// any memory holds, and few enough that no size in bytes overflows.
pub(crate) const MAX_ELEMENTS: usize = 1 << 48;

/// The error that a list of dimensions from outside is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no shape: it has more than 6 dimensions, or more elements than any memory holds")]
pub struct ShapeError(Vec<Option<usize>>);

/// The dimensions of a tensor. Small and `Copy`; rank at most 6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Vec<usize>", try_from = "Vec<usize>")]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// The shape of one value.
    pub const SCALAR: Self = Self { rank: 0, dims: [0; MAX_RANK] };

    /// A shape of these dimensions.
    ///
    /// # Panics
    /// If there are more than 6.
    pub fn new(dims: &[usize]) -> Self {
        assert!(
            dims.len() <= MAX_RANK,
            "a shape has at most {MAX_RANK} dimensions, not {}",
            dims.len()
        );
        let mut shape = Self { rank: dims.len() as u8, ..Self::SCALAR };
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The number of elements of a tensor of this shape; more than there can be of one that no
    /// memory could hold.
    pub fn elements(&self) -> usize {
        self.dims().iter().fold(1, |product, dim| product.saturating_mul(*dim))
    }

    /// The length of a tensor of this shape \[bytes\], as [`Shape::elements`] counts.
    pub(crate) fn bytes_of(&self, dtype: DType) -> usize {
        self.elements().saturating_mul(dtype.size())
    }

    /// The numbers of rows and columns as a matrix: all but the last dimension are rows. A scalar
    /// is one row of one column.
    pub(crate) fn rows_and_columns(&self) -> (usize, usize) {
        match self.dims() {
            [] => (1, 1),
            [rows @ .., columns] => (rows.iter().product(), *columns),
        }
    }
}

impl From<Shape> for Vec<usize> {
    fn from(shape: Shape) -> Self {
        shape.dims().to_vec()
    }
}

impl TryFrom<Vec<usize>> for Shape {
    type Error = ShapeError;

    fn try_from(dims: Vec<usize>) -> Result<Self, ShapeError> {
        let known: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
        PartialShape::try_from(known).map(|_| Self::new(&dims))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self::new(&dims)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self::new(dims)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PartialShape::from(*self).fmt(f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The shape of an edge of a graph: a dimension that only a step knows (the batch) is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Vec<Option<usize>>", try_from = "Vec<Option<usize>>")]
pub struct PartialShape {
    rank: u8,
    dims: [Option<usize>; MAX_RANK],
}

impl PartialShape {
    /// A shape of these dimensions, outermost first.
    ///
    /// # Panics
    /// If there are more than 6.
    pub fn new(dims: &[Option<usize>]) -> Self {
        assert!(
            dims.len() <= MAX_RANK,
            "a shape has at most {MAX_RANK} dimensions, not {}",
            dims.len()
        );
        let mut shape = Self { rank: dims.len() as u8, dims: [None; MAX_RANK] };
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape
    }

    /// The same; `None` if there are more dimensions than a shape can have.
    pub(crate) fn checked(dims: &[Option<usize>]) -> Option<Self> {
        (dims.len() <= MAX_RANK).then(|| Self::new(dims))
    }

    /// Whether a tensor of this shape has at most as many elements as one may have, dimensions of 0
    /// counted as 1.
    pub(crate) fn is_possible(&self) -> bool {
        let mut known = self.dims().iter().flatten().map(|dim| (*dim).max(1));
        let elements = known.try_fold(1usize, |product, dim| product.checked_mul(dim));
        elements.is_some_and(|elements| elements <= MAX_ELEMENTS)
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[Option<usize>] {
        &self.dims[..usize::from(self.rank)]
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The shape, if every dimension is known.
    pub fn known(&self) -> Option<Shape> {
        let mut known = [0; MAX_RANK];
        for (known, dim) in known.iter_mut().zip(self.dims()) {
            *known = (*dim)?;
        }
        Some(Shape::new(&known[..self.rank()]))
    }

    /// Whether a tensor of `shape` can travel along an edge of this shape.
    pub fn admits(&self, shape: Shape) -> bool {
        self.rank() == shape.rank()
            && self
                .dims()
                .iter()
                .zip(shape.dims())
                .all(|(mine, its)| mine.is_none_or(|mine| mine == *its))
    }

    /// The shape of a value that has both shapes; `None` if no value can.
    pub fn merge(&self, other: &Self) -> Option<Self> {
        if self.rank != other.rank {
            return None;
        }
        let mut merged = *self;
        for (mine, its) in merged.dims.iter_mut().zip(other.dims) {
            match (*mine, its) {
                (Some(a), Some(b)) if a != b => return None,
                (None, known) => *mine = known,
                _ => {}
            }
        }
        Some(merged)
    }
}

impl From<PartialShape> for Vec<Option<usize>> {
    fn from(shape: PartialShape) -> Self {
        shape.dims().to_vec()
    }
}

impl TryFrom<Vec<Option<usize>>> for PartialShape {
    type Error = ShapeError;

    fn try_from(dims: Vec<Option<usize>>) -> Result<Self, ShapeError> {
        Self::checked(&dims).filter(Self::is_possible).ok_or(ShapeError(dims))
    }
}

impl From<Shape> for PartialShape {
    fn from(shape: Shape) -> Self {
        let mut partial = Self { rank: shape.rank, dims: [None; MAX_RANK] };
        for (to, from) in partial.dims.iter_mut().zip(shape.dims()) {
            *to = Some(*from);
        }
        partial
    }
}

impl<const N: usize> From<[usize; N]> for PartialShape {
    fn from(dims: [usize; N]) -> Self {
        Shape::from(dims).into()
    }
}

impl<const N: usize> From<[Option<usize>; N]> for PartialShape {
    fn from(dims: [Option<usize>; N]) -> Self {
        Self::new(&dims)
    }
}

impl fmt::Display for PartialShape {
    /// `[?,64]`: a `?` stands for a dimension that only a step knows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.dims().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match dim {
                Some(dim) => write!(f, "{comma}{dim}")?,
                None => write!(f, "{comma}?")?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Debug for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
