//! What a run leaves out of the values that its tasks send each other.

use std::fmt;
use std::num::NonZeroU32;

use crate::runtime::Encoding;

/// What a run leaves out of the values that its tasks send each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// The lower half of every f32.
    Bf16,
    /// All but 8 bits of every f32, by a scale for each block of values.
    Int8 {
        /// The values of a block. Default: 256.
        block: NonZeroU32,
    },
    /// The smaller elements of every gradient, which the worker keeps and adds to its next one.
    TopK {
        /// The share that is sent, above 0 and at most 1.
        fraction: f64,
    },
}

impl Compression {
    /// How values are written on their way.
    pub fn encoding(self) -> Encoding {
        match self {
            Self::None | Self::TopK { .. } => Encoding::Exact,
            Self::Bf16 => Encoding::Bf16,
            Self::Int8 { block } => Encoding::Int8 { block },
        }
    }

    /// The share of each gradient that is sent, where that is not all of it.
    pub fn top_k(self) -> Option<f64> {
        match self {
            Self::TopK { fraction } => Some(fraction),
            Self::None | Self::Bf16 | Self::Int8 { .. } => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Bf16 => f.write_str("bf16"),
            Self::Int8 { block } => write!(f, "int8 in blocks of {block}"),
            Self::TopK { fraction } => write!(f, "top {} %", fraction * 100.0),
        }
    }
}
