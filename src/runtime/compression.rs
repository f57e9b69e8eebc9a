//! Compression of the values that steps send from task to task: fewer bits a value, on the way
//! only.
//!
//! TensorFlow's white paper (Abadi et al. 2015, section 5.5) halves each value between two
//! machines; here it can also be an 8-bit integer with a scale for each block of values (Dettmers
//! 2015). Parameters and gradients are compressed alike; feeds and fetches of a session, and so
//! every checkpoint, are exact. The receiver needs no setting: each value names its own encoding.
//! Encoding and decoding take a task's message thread the time of their memory traffic.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use half::bf16;

use crate::cluster::TaskName;
use crate::kernels::{convert, quantize};
use crate::tensor::{DType, Shape, Tensor, within_memory};
use crate::transport::{Inbox, Messages, Obstacle, PeerId, Refused, Transport};

use crate::runtime::messages::{Packed, PeerMessage, WorkerMessage, written};

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

fn is_compressed(value: &Tensor) -> bool {
    value.dtype() == DType::F32 && value.shape().elements() >= LEAST
}

/// A task's transport to the others that sends the values of steps in fewer bits.
struct Compressed {
    transport: Rc<dyn Transport<PeerMessage>>,
    encoding: Encoding,
}

impl Compressed {
    fn compress(&self, message: PeerMessage) -> PeerMessage {
        let PeerMessage::Worker(WorkerMessage::Tensors { step, devices, arrivals }) = message
        else {
            return message;
        };
        if !arrivals.iter().any(|(_, value)| value.as_ref().is_some_and(is_compressed)) {
            return WorkerMessage::Tensors { step, devices, arrivals }.into();
        }
        // The receiver fails the step of a value that there was no memory to pack.
        let pack = |value: Tensor| {
            within_memory(|| self.encoding.pack(value))
                .unwrap_or_else(|refused| Packed::Refused(refused.to_string()))
        };
        let packed = arrivals.into_iter().map(|(crossing, value)| (crossing, value.map(pack)));
        let arrivals = packed.collect();
        WorkerMessage::PackedTensors { step, devices, arrivals }.into()
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

    fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.transport.incarnation(peer)
    }

    fn has_restarted(&self, peer: PeerId, incarnation: u64) {
        self.transport.has_restarted(peer, incarnation);
    }

    fn silence(&self) -> Duration {
        self.transport.silence()
    }

    fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.transport.obstacle(peer)
    }

    fn refusal(&self, peer: PeerId) -> Option<(Refused, String)> {
        self.transport.refusal(peer)
    }
}
