//! A value of a step as it travels between tasks, perhaps in fewer bits.

use std::num::NonZeroU32;

use half::bf16;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{AllReceived, Arrival, Arrivals, Received};
use crate::kernels::{convert, quantize};
use crate::tensor::{DType, Element, Shape, Tensor};

/// The greatest length of a reason that a peer may give \[bytes\].
const LONGEST_REASON: usize = 1024;

/// A value on its way from device to device, of one task or of two.
///
/// It is no larger than a tensor with a tag: most tasks pack nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SentValue {
    /// Any value as it is.
    Exact(Tensor),
    /// A value between two tasks in fewer bits, or none.
    Packed(
        /// The encoding.
        Box<Packed>,
    ),
}

/// A value in fewer bits than it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Packed {
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

impl From<Tensor> for SentValue {
    fn from(value: Tensor) -> Self {
        Self::Exact(value)
    }
}

impl From<Packed> for SentValue {
    fn from(packed: Packed) -> Self {
        Self::Packed(Box::new(packed))
    }
}

impl SentValue {
    /// The value, as near to the original as its encoding allows.
    ///
    /// # Errors
    /// Why the sender could not encode it.
    fn unpack(self) -> Result<Tensor, String> {
        match self {
            Self::Exact(value) => Ok(value),
            Self::Packed(packed) => packed.unpack(),
        }
    }

    /// The size in memory of a value that is not packed \[bytes\].
    pub(crate) fn exact_len(&self) -> usize {
        match self {
            Self::Exact(value) => value.byte_len(),
            Self::Packed(_) => 0,
        }
    }

    /// Checks a value that came from another process; the error says what is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Exact(_) => Ok(()),
            Self::Packed(packed) => packed.check(),
        }
    }
}

impl Packed {
    fn unpack(self) -> Result<Tensor, String> {
        Ok(match self {
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
            Self::Bf16(value) => (Some(value), None),
            Self::Int8 { values, scales, .. } => (Some(values), Some(scales)),
            Self::Refused(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    fn check(&self) -> Result<(), String> {
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
            Self::Bf16(_) | Self::Refused(_) => Ok(()),
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
pub(crate) fn unpacked(arrivals: Arrivals) -> Result<AllReceived, String> {
    let unpack =
        |(crossing, value): Arrival| Ok((crossing, value.map(SentValue::unpack).transpose()?));
    if !arrivals.spilled() {
        return arrivals.into_iter().map(unpack).collect();
    }
    // Through vectors, which are collected in the memory that they are in.
    let received: Result<Vec<Received>, String> =
        arrivals.into_vec().into_iter().map(unpack).collect();
    received.map(SmallVec::from_vec)
}
