//! The subscripts of a slice, and the mirrors of a padding.

use std::ops::{RangeFrom, RangeFull, RangeTo};

use serde::{Deserialize, Serialize};

/// The positions that a strided slice takes along one axis: TensorFlow's `begin`, `end` and
/// `strides` with the masks of `StridedSlice` resolved, written as Python writes a subscript.
///
/// A Rust range that is open on a side converts to a subscript of stride 1, and an integer to a
/// position: `(1..).into()`, `3.into()`. For a range with two ends there is [`Subscript::between`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subscript {
    /// `begin:end:stride`. A negative position counts from the end, a position outside the axis is
    /// moved to the axis's end, and `None` reaches to the axis's end on that side; a negative
    /// stride goes backwards.
    Every {
        /// The first position taken.
        begin: Option<i64>,
        /// The first position not taken any more.
        end: Option<i64>,
        /// The distance from one position to the next; not 0.
        stride: i64,
    },
    /// One position, without its axis (TensorFlow: `shrink_axis_mask`).
    At(i64),
    /// A new axis of size 1 (TensorFlow: `new_axis_mask`).
    NewAxis,
}

/// The positions that a subscript takes along an axis of known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) stride: isize,
}

impl Subscript {
    /// All of an axis.
    pub const ALL: Self = Self::Every { begin: None, end: None, stride: 1 };

    /// Every position from `begin` to before `end`: Python's `begin:end`.
    pub const fn between(begin: i64, end: i64) -> Self {
        Self::Every { begin: Some(begin), end: Some(end), stride: 1 }
    }

    /// The positions along an axis of `size`; `None` if the stride is 0 or a position is outside
    /// the axis. A new axis gives its own only position.
    pub(crate) fn positions(self, size: usize) -> Option<Positions> {
        let size = size as i64;
        let from_end =
            |position: i64| if position < 0 { position.saturating_add(size) } else { position };
        match self {
            Self::NewAxis => Some(Positions { first: 0, count: 1, stride: 0 }),
            Self::At(position) => {
                let first =
                    usize::try_from(from_end(position)).ok().filter(|at| (*at as i64) < size)?;
                Some(Positions { first, count: 1, stride: 0 })
            }
            Self::Every { stride: 0 | i64::MIN, .. } => None,
            Self::Every { begin, end, stride } => {
                let (low, high) = if stride > 0 { (0, size) } else { (-1, size - 1) };
                let (near, far) = if stride > 0 { (low, high) } else { (high, low) };
                let within =
                    |at: Option<i64>, open| at.map_or(open, |at| from_end(at).clamp(low, high));
                let (begin, end) = (within(begin, near), within(end, far));
                let span = if stride > 0 { end - begin } else { begin - end };
                let count = span.max(0).unsigned_abs().div_ceil(stride.unsigned_abs()) as usize;
                let first = if count == 0 { 0 } else { begin as usize };
                Some(Positions { first, count, stride: stride as isize })
            }
        }
    }
}

impl From<i64> for Subscript {
    fn from(position: i64) -> Self {
        Self::At(position)
    }
}

impl From<RangeFrom<i64>> for Subscript {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::Every { begin: Some(range.start), end: None, stride: 1 }
    }
}

impl From<RangeTo<i64>> for Subscript {
    fn from(range: RangeTo<i64>) -> Self {
        Self::Every { begin: None, end: Some(range.end), stride: 1 }
    }
}

impl From<RangeFull> for Subscript {
    fn from(_: RangeFull) -> Self {
        Self::ALL
    }
}

/// The position of the mirror of a `MirrorPad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mirror {
    /// On the outermost element, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// Outside the outermost element: `b a | a b c | c b`.
    Symmetric,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions as a list.
    fn taken(subscript: Subscript, size: usize) -> Vec<i64> {
        let positions = subscript.positions(size).unwrap();
        (0..positions.count as i64)
            .map(|i| positions.first as i64 + i * positions.stride as i64)
            .collect()
    }

    #[test]
    fn a_subscript_takes_what_python_takes() {
        let every = |begin, end, stride| Subscript::Every { begin, end, stride };
        assert_eq!(taken(Subscript::between(1, -1), 5), [1, 2, 3]);
        assert_eq!(taken((-2..).into(), 5), [3, 4]);
        assert_eq!(taken((..9).into(), 3), [0, 1, 2]);
        assert_eq!(taken(every(None, None, -1), 4), [3, 2, 1, 0]);
        assert_eq!(taken(every(None, None, -2), 4), [3, 1]);
        assert_eq!(taken(every(Some(-2), Some(0), -1), 5), [3, 2, 1]);
        assert_eq!(taken(every(Some(9), Some(-9), -3), 5), [4, 1]);
        assert_eq!(taken(every(Some(1), None, 3), 8), [1, 4, 7]);
        assert_eq!(taken(Subscript::between(3, 1), 5), [0i64; 0]);
        assert_eq!(taken(Subscript::ALL, 0), [0i64; 0]);
        assert_eq!(taken((-1).into(), 5), [4]);
    }

    #[test]
    fn a_position_outside_the_axis_and_a_stride_of_0_take_nothing() {
        for subscript in [
            Subscript::At(3),
            Subscript::At(-4),
            Subscript::Every { begin: None, end: None, stride: 0 },
        ] {
            assert_eq!(subscript.positions(3), None, "{subscript:?}");
        }
    }
}
