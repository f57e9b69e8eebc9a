//! Compression of the values that steps send from task to task: fewer bits a value, on the way
//! only.
//!
//! TensorFlow's white paper (Abadi et al. 2015, section 5.5) halves each value between two
//! machines; here it can also be an 8-bit integer with a scale for each block of values (Dettmers
//! 2015). Parameters and gradients are compressed alike; feeds and fetches of a session, and so
//! every checkpoint, are exact. The receiver needs no setting: each value names its own encoding.
//! The time to compress is not modelled in a simulation: both kernels run at the speed of memory,
//! far above that of a network.

use std::num::NonZeroU32;
use std::rc::Rc;

use half::bf16;
use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::kernels::{convert, quantize};
use crate::tensor::{DType, Element, Shape, Tensor};
use crate::transport::{Inbox, Messages, PeerId, Transport};

use crate::runtime::messages::{Arrivals, PackedArrivals, PeerMessage};

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

impl Encoding {
    /// Wraps `transport` so that the values which steps send over it are encoded.
    pub fn over(self, transport: Rc<dyn Transport<PeerMessage>>) -> Rc<dyn Transport<PeerMessage>> {
        if self == Self::Exact {
            transport
        } else {
            Rc::new(Compressed { transport, encoding: self })
        }
    }

    fn pack(self, value: Tensor) -> Packed {
        match self {
            _ if !is_compressed(&value) => Packed::Exact(value),
            Self::Exact => Packed::Exact(value),
            Self::Bf16 => {
                let from = |out: &mut [bf16]| convert::cast(value.slice::<f32>(), out);
                Packed::Bf16(written(value.is_hollow(), value.shape(), from))
            }
            Self::Int8 { block } => {
                let (is_hollow, len) = (value.is_hollow(), block.get() as usize);
                let blocks = Shape::from([value.shape().elements().div_ceil(len)]);
                let scales =
                    written(is_hollow, blocks, |out| quantize::scales(value.slice(), len, out));
                let quantize =
                    |out: &mut [i8]| quantize::quantize(value.slice(), len, scales.slice(), out);
                Packed::Int8 { values: written(is_hollow, value.shape(), quantize), scales, block }
            }
        }
    }
}

impl Packed {
    /// The value, as near to the original as its encoding allows.
    pub(super) fn unpack(self) -> Tensor {
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

fn is_compressed(value: &Tensor) -> bool {
    value.dtype() == DType::F32 && value.shape().elements() >= LEAST
}

/// A tensor that `write` fills; one without numbers if `is_hollow`.
fn written<T: Element>(is_hollow: bool, shape: Shape, write: impl FnOnce(&mut [T])) -> Tensor {
    if is_hollow {
        return Tensor::hollow(T::DTYPE, shape);
    }
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    out
}

/// The arrivals with their values decoded, as the step that waits for them takes them.
pub(super) fn unpacked(arrivals: PackedArrivals) -> Arrivals {
    arrivals.into_iter().map(|(crossing, value)| (crossing, value.map(Packed::unpack))).collect()
}

/// A task's transport to the others that sends the values of steps in fewer bits.
struct Compressed {
    transport: Rc<dyn Transport<PeerMessage>>,
    encoding: Encoding,
}

impl Compressed {
    fn compress(&self, message: PeerMessage) -> PeerMessage {
        let PeerMessage::Tensors { step, devices, arrivals } = message else { return message };
        if !arrivals.iter().any(|(_, value)| value.as_ref().is_some_and(is_compressed)) {
            return PeerMessage::Tensors { step, devices, arrivals };
        }
        let pack = |value: Option<Tensor>| value.map(|value| self.encoding.pack(value));
        let arrivals =
            arrivals.into_iter().map(|(crossing, value)| (crossing, pack(value))).collect();
        PeerMessage::PackedTensors { step, devices, arrivals }
    }
}

impl Transport<PeerMessage> for Compressed {
    fn local(&self) -> PeerId {
        self.transport.local()
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.transport.resolve(name)
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.transport.name(peer)
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        self.transport
            .send(to, messages.into_iter().map(|message| self.compress(message)).collect());
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.transport.listen(inbox);
    }

    fn close(&self) {
        self.transport.close();
    }
}
