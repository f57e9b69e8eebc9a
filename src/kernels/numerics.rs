//! Whether kernels compute numbers, or only the types of their results.

use serde::Deserialize;

use crate::tensor::Tensor;

/// Whether the numbers are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numerics {
    /// Real gradients, real loss.
    #[default]
    Real,
    /// Shapes, costs and bytes only, without loss and accuracy: for models too large for this
    /// machine.
    ///
    /// Floats, and all values computed from them, are hollow tensors, which take no memory. Values
    /// that are computed from integers and truth values alone are real (ids, steps, verdicts), and
    /// so are constants and feeds.
    Shapes,
}

impl Numerics {
    /// `value` as a variable keeps it: hollow, if floats have no numbers.
    pub(crate) fn kept(self, value: Tensor) -> Tensor {
        match self {
            Self::Shapes if value.dtype().is_float() => {
                Tensor::hollow(value.dtype(), value.shape())
            }
            _ => value,
        }
    }
}
