//! Element types, and the Rust type of each.

use std::fmt;

use half::bf16;
use serde::{Deserialize, Serialize};

use super::Tensor;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// The upper half of an [`F32`](Self::F32), for storage and the wire: kernels compute with it
    /// only after a cast.
    BF16,
    /// 32-bit signed integers: labels, indices.
    I32,
    /// 64-bit signed integers: the global step, `argmax`.
    I64,
    /// 8-bit signed integers, for storage and the wire: kernels compute with them only after a
    /// cast.
    I8,
    /// Truth values, a byte each.
    Bool,
}

impl DType {
    /// The size of one element \[bytes\].
    pub fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::BF16 => 2,
            Self::I8 | Self::Bool => 1,
        }
    }

    /// Its number outside of this process.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::F64 => 2,
            Self::BF16 => 3,
            Self::I32 => 4,
            Self::I64 => 5,
            Self::Bool => 6,
            Self::I8 => 7,
        }
    }

    /// The type with this number.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [Self::F32, Self::F64, Self::BF16, Self::I32, Self::I64, Self::Bool, Self::I8]
            .into_iter()
            .find(|dtype| dtype.code() == code)
    }

    /// Whether it is a type of real numbers that kernels compute with.
    pub(crate) fn is_real(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Whether it is a type of integers that kernels compute with.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I64)
    }

    /// Whether it is a type of numbers that kernels compute with.
    pub(crate) fn is_number(self) -> bool {
        self.is_real() || self.is_integer()
    }

    /// Whether it is a type of real numbers, also one for storage.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::BF16)
    }

    /// Whether it must be cast before kernels compute with it.
    pub(crate) fn is_for_storage(self) -> bool {
        matches!(self, Self::BF16 | Self::I8)
    }

    /// Writes the first `limit` elements of `tensor` to a debug list.
    pub(super) fn entries(self, tensor: &Tensor, limit: usize, list: &mut fmt::DebugList<'_, '_>) {
        match self {
            Self::F32 => list.entries(tensor.slice::<f32>().iter().take(limit)),
            Self::F64 => list.entries(tensor.slice::<f64>().iter().take(limit)),
            Self::BF16 => list.entries(tensor.slice::<bf16>().iter().take(limit)),
            Self::I32 => list.entries(tensor.slice::<i32>().iter().take(limit)),
            Self::I64 => list.entries(tensor.slice::<i64>().iter().take(limit)),
            Self::I8 => list.entries(tensor.slice::<i8>().iter().take(limit)),
            Self::Bool => list.entries(tensor.slice::<bool>().iter().take(limit)),
        };
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I8 => "i8",
            Self::Bool => "bool",
        })
    }
}

/// A Rust type that a tensor can hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor an element of one",
    note = "an element is `f32`, `f64`, `bf16`, `i32`, `i64`, `i8` or `bool`; several are a tensor \
            by their shape: `Tensor::new([2], &[1.0f32, 2.0])?`"
)]
pub trait Element:
    bytemuck::NoUninit + bytemuck::CheckedBitPattern + fmt::Debug + PartialEq + Send + Sync
{
    /// Its element type.
    const DTYPE: DType;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
impl Element for f64 {
    const DTYPE: DType = DType::F64;
}
impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
}
impl Element for i32 {
    const DTYPE: DType = DType::I32;
}
impl Element for i64 {
    const DTYPE: DType = DType::I64;
}
impl Element for i8 {
    const DTYPE: DType = DType::I8;
}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
}
