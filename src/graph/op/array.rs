//! Operations that move elements, and change none.

use crate::tensor::PartialShape;

/// What becomes of the elements' shape or order.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// `(x)`, its elements in this shape; one dimension may be `None`, and is what the others leave
    /// (TensorFlow `Reshape`, where it is -1).
    Reshape(PartialShape),
    /// `(x, like)`: the elements of `x` in the shape of `like`, whose values are not used.
    ReshapeLike,
}

impl Array {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Reshape(_) => "Reshape",
            Self::ReshapeLike => "ReshapeLike",
        }
    }
}
