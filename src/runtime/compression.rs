//! Compression of the values that steps send from task to task: fewer bits a value, on the way
//! only.
//!
//! TensorFlow's white paper (Abadi et al. 2015, section 5.5) halves each value between two
//! machines; here it can also be an 8-bit integer with a scale for each block of values (Dettmers
//! 2015). Parameters and gradients are compressed alike, and so are initial values on their way to
//! the task that holds the variable; feeds and fetches of a session, and so every checkpoint and
//! what is restored from it, are exact. So are values of fewer than 64 elements: a small part of a
//! partitioned variable is exact where the whole would not be. The receiver needs no setting: each
//! value names its own encoding. Encoding and decoding take a task's message thread the time of
//! their memory traffic.

use std::num::NonZeroU32;

use half::bf16;

use crate::kernels::{convert, quantize};
use crate::tensor::{DType, Shape, Tensor, within_memory};

use crate::runtime::messages::{Arrivals, Packed, PeerMessage, SentValue, WorkerMessage, written};

/// The fewest elements of a value that is compressed: in a smaller one the header takes most of the
/// space.
const LEAST: usize = 64;

/// The encoding of the f32 values that a task's steps send to other tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    #[default]
    Exact,
    /// Each as its upper half, rounded to the nearest, of two to the even one.
    Bf16,
    /// As 8-bit integers, with a scale for each block: the block's greatest magnitude over 127.
    Int8 {
        /// The number of values in a block.
        block: NonZeroU32,
    },
}

impl Encoding {
    /// Encodes the values of a step in a message to another task.
    pub(crate) fn encode(self, message: &mut PeerMessage) {
        let PeerMessage::Worker(WorkerMessage::Tensors { arrivals, .. }) = message else { return };
        match self {
            Self::Exact => {}
            Self::Bf16 => pack(arrivals, to_bf16),
            Self::Int8 { block } => pack(arrivals, |value| to_int8(value, block)),
        }
    }
}

fn pack(arrivals: &mut Arrivals, encode: impl Fn(&Tensor) -> Packed) {
    for value in arrivals.iter_mut().filter_map(|(_, value)| value.as_mut()) {
        let SentValue::Exact(exact) = value else { continue };
        if exact.dtype() == DType::F32 && exact.shape().elements() >= LEAST {
            // The receiver fails the step of a value that there was no memory to pack.
            let packed = within_memory(|| encode(exact))
                .unwrap_or_else(|refused| Packed::Refused(refused.to_string()));
            *value = packed.into();
        }
    }
}

fn to_bf16(value: &Tensor) -> Packed {
    let cast = |out: &mut [bf16]| convert::cast(value.slice::<f32>(), out);
    Packed::Bf16(written(value.is_hollow(), value.shape(), cast))
}

fn to_int8(value: &Tensor, block: NonZeroU32) -> Packed {
    let (is_hollow, len) = (value.is_hollow(), block.get() as usize);
    let blocks = Shape::from([value.shape().elements().div_ceil(len)]);
    let scales = written(is_hollow, blocks, |out| quantize::scales(value.slice(), len, out));
    let quantize = |out: &mut [i8]| quantize::quantize(value.slice(), len, scales.slice(), out);
    Packed::Int8 { values: written(is_hollow, value.shape(), quantize), scales, block }
}
