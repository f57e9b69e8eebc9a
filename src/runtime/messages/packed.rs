//! A value of a step as it travels between tasks, perhaps in fewer bits.

use std::num::NonZeroU32;

use half::bf16;
use serde::{Deserialize, Serialize};

use super::{Arrivals, PackedArrivals};
use crate::kernels::{convert, quantize};
use crate::tensor::{DType, Element, Shape, Tensor};

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
}

impl Packed {
    /// The value, as near to the original as its encoding allows.
    fn unpack(self) -> Tensor {
        match self {
            Self::Exact(value) => value,
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
        }
    }

    /// The tensors that the value is sent as.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Tensor> {
        let (first, second) = match self {
            Self::Exact(value) | Self::Bf16(value) => (value, None),
            Self::Int8 { values, scales, .. } => (values, Some(scales)),
        };
        std::iter::once(first).chain(second)
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
            Self::Exact(_) | Self::Bf16(_) => Ok(()),
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
pub(crate) fn unpacked(arrivals: PackedArrivals) -> Arrivals {
    arrivals.into_iter().map(|(crossing, value)| (crossing, value.map(Packed::unpack))).collect()
}
