//! A value of a step as it travels between tasks, perhaps in fewer bits.

use std::num::NonZeroU32;

use half::bf16;
use serde::{Deserialize, Serialize};

use super::{Arrivals, PackedArrivals};
use crate::kernels::{convert, quantize};
use crate::partition::CrossingId;
use crate::tensor::{DType, Element, Shape, Tensor};

/// The greatest length of a reason that a peer may give \[bytes\].
const LONGEST_REASON: usize = 1024;

/// A value on its way from task to task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Packed {
    /// Any value as it is.
    Exact(Tensor),
    /// An f32 value as bf16.
    Bf16(Tensor),
    /// An f32 value as integers times the scales of their blocks.
    Int8 {
        /// The integers (i8), in the shape of the value.
        values: Tensor,
        /// The scales, one for each block (f32).
        scales: Tensor,
        /// The number of values in a block.
        block: NonZeroU32,
    },
    /// No value: its sender had no memory to encode it, and says so.
    Refused(String),
}

impl Packed {
    /// The value, as near to the original as its encoding allows.
    ///
    /// # Errors
    /// Why the sender could not encode it.
    fn unpack(self) -> Result<Tensor, String> {
        Ok(match self {
            Self::Exact(value) => value,
            Self::Refused(why) => return Err(why),
            Self::Bf16(packed) => {
                written(packed.is_hollow(), packed.shape(), |out: &mut [f32]| {
                    convert::cast(packed.slice::<bf16>(), out);
                })
            }
            Self::Int8 { values, scales, block } => {
                written(values.is_hollow(), values.shape(), |out| {
                    quantize::dequantize(values.slice(), block.get() as usize, scales.slice(), out);
                })
            }
        })
    }

    /// The tensors that the value is sent as.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Tensor> {
        let (first, second) = match self {
            Self::Exact(value) | Self::Bf16(value) => (Some(value), None),
            Self::Int8 { values, scales, .. } => (Some(values), Some(scales)),
            Self::Refused(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Checks a value that came from another process; the error says what is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Bf16(value) if value.dtype() != DType::BF16 => {
                Err(format!("a value of {} that is to be one of bf16", value.dtype()))
            }
            Self::Int8 { values, scales, block } => {
                let blocks = values.shape().elements().div_ceil(block.get() as usize);
                let is_whole = (values.dtype(), scales.dtype()) == (DType::I8, DType::F32);
                if is_whole && scales.shape().dims() == [blocks] {
                    return Ok(());
                }
                let (values, scales) =
                    ((values.dtype(), values.shape()), (scales.dtype(), scales.shape()));
                Err(format!(
                    "{}{} in blocks of {block} with scales {}{}",
                    values.0, values.1, scales.0, scales.1
                ))
            }
            Self::Refused(why) if why.len() > LONGEST_REASON => {
                Err(format!("a reason of {} bytes for a value that is not there", why.len()))
            }
            Self::Exact(_) | Self::Bf16(_) | Self::Refused(_) => Ok(()),
        }
    }
}

/// A tensor that `write` fills; one without numbers if `is_hollow`.
pub(crate) fn written<T: Element>(
    is_hollow: bool,
    shape: Shape,
    write: impl FnOnce(&mut [T]),
) -> Tensor {
    if is_hollow {
        return Tensor::hollow(T::DTYPE, shape);
    }
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    out
}

/// The arrivals with their values decoded, as the step that waits for them takes them.
///
/// # Errors
/// Why the sender could not encode one of them.
pub(crate) fn unpacked(arrivals: PackedArrivals) -> Result<Arrivals, String> {
    let unpack = |(crossing, value): (CrossingId, Option<Packed>)| {
        Ok((crossing, value.map(Packed::unpack).transpose()?))
    };
    arrivals.into_iter().map(unpack).collect()
}
