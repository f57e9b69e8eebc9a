//! Frames: the bytes that travel between processes. All numbers are little-endian.
//!
//! | bytes | part of a frame |
//! |---|---|
//! | 1 | the kind |
//! | 3 | 0 |
//! | 4 | the length of the control part |
//! | 4 | the number of tensors |
//! | … | the control part: messages without their tensors |
//! | … | the tensors: 32 bytes of header each, then its values |
//!
//! Tensors' values pass through no encoder: they are sent from the tensor's buffer and received
//! into one. Lengths from outside are checked before memory is allocated for them.

mod control;
mod decoder;
mod tensors;
#[cfg(test)]
mod tests;

use std::iter;

use bytes::Bytes;

use crate::tensor::{OutOfMemory, Tensor, TensorError};

use super::{Messages, Payload};

pub(crate) use control::{decode, decode_next, decode_unlimited, encode};
pub use decoder::FrameDecoder;
pub(crate) use tensors::TENSOR_HEADER;
pub(crate) use tensors::{header as tensor_header, tensors_left};
use tensors::{passing_in, passing_out};

/// The version of the frames and their contents; peers with another version are refused.
pub(crate) const VERSION: u32 = 25;
/// The length of a frame's header \[bytes\].
pub(crate) const FRAME_HEADER: usize = 12;
/// The most tensors that an envelope can have.
const MAX_TENSORS: u32 = 1 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An introduction: the first frame in each direction.
    Hello,
    /// Messages.
    Envelope,
    /// The sender stops; holds the number of large envelopes that it has sent.
    Bye,
    /// Everything before a `Bye` has arrived.
    Taken,
}

/// The greatest lengths that a task accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// The control part of an envelope: all but the tensors \[bytes\]; never more than 64 MiB.
    pub control: usize,
    /// One tensor \[bytes\].
    pub tensor: usize,
    /// All tensors of an envelope \[bytes\].
    pub envelope: usize,
}

/// A frame that has arrived whole.
#[derive(Debug)]
pub struct Frame {
    pub(crate) kind: Kind,
    pub(crate) control: Vec<u8>,
    pub(crate) tensors: Vec<Tensor>,
}

/// A frame to be sent: its header and control part, and its tensors.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) head: Vec<u8>,
    pub(crate) tensors: Vec<Tensor>,
}

/// Errors of reading and writing frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first bytes are not those of a frame.
    #[error("a frame can't begin with {0:02x?}")]
    Kind([u8; 4]),
    /// Something is longer than the limit.
    #[error("{what} of {length} bytes or pieces, of which at most {limit} are accepted")]
    TooLong {
        /// The thing that is too long.
        what: &'static str,
        /// Its length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A tensor's header is malformed.
    #[error("{0:02x?} is not a tensor's header: {1}")]
    TensorHeader([u8; TENSOR_HEADER], &'static str),
    /// A tensor's values are not of its type.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// There is no memory for a tensor.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The control part can't be read.
    #[error("the control part can't be read: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    /// The messages can't be written.
    #[error("a message can't be written: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    /// A message is malformed.
    #[error("a malformed message: {0}")]
    Message(String),
    /// Bytes or tensors are left over after the last message.
    #[error("{0} bytes and {1} tensors are left over")]
    LeftOver(usize, usize),
    /// A frame's kind is not expected at its place.
    #[error("a frame of the kind {0:?} is not expected here")]
    OutOfPlace(String),
}

impl Kind {
    fn code(self) -> [u8; 4] {
        let code = match self {
            Self::Hello => 1,
            Self::Envelope => 2,
            Self::Bye => 3,
            Self::Taken => 4,
        };
        [code, 0, 0, 0]
    }

    fn of_code(code: [u8; 4]) -> Result<Self, WireError> {
        let kinds = [Self::Hello, Self::Envelope, Self::Bye, Self::Taken];
        kinds.into_iter().find(|kind| kind.code() == code).ok_or(WireError::Kind(code))
    }
}

impl Default for WireLimits {
    fn default() -> Self {
        Self { control: 16 << 20, tensor: 4 << 30, envelope: 16 << 30 }
    }
}

impl WireLimits {
    fn check(what: &'static str, length: u64, limit: usize) -> Result<(), WireError> {
        let limit = limit as u64;
        if length <= limit { Ok(()) } else { Err(WireError::TooLong { what, length, limit }) }
    }
}

impl Outgoing {
    /// A frame of `kind` around a value without tensors.
    pub(crate) fn plain<T: serde::Serialize>(kind: Kind, value: &T) -> Result<Self, WireError> {
        let mut head = vec![0; FRAME_HEADER];
        encode(value, &mut head)?;
        let mut frame = Self { head, tensors: Vec::new() };
        frame.write_header(kind);
        Ok(frame)
    }

    /// The frame of an envelope.
    ///
    /// # Errors
    /// If it is longer than `limits` permit, or a tensor has no values.
    pub(crate) fn envelope<M: Payload>(
        messages: &Messages<M>,
        limits: &WireLimits,
    ) -> Result<Self, WireError> {
        let mut head = vec![0; FRAME_HEADER];
        let (written, tensors) = passing_out(|| encode(messages, &mut head));
        written?;
        WireLimits::check("a control part", (head.len() - FRAME_HEADER) as u64, limits.control)?;
        WireLimits::check("a list of tensors", tensors.len() as u64, MAX_TENSORS as usize)?;
        for tensor in &tensors {
            WireLimits::check("a tensor", tensor.byte_len() as u64, limits.tensor)?;
            tensor_header(tensor)?;
        }
        let mut frame = Self { head, tensors };
        WireLimits::check(
            "the tensors of an envelope",
            frame.tensor_bytes() as u64,
            limits.envelope,
        )?;
        frame.write_header(Kind::Envelope);
        Ok(frame)
    }

    fn write_header(&mut self, kind: Kind) {
        let control = (self.head.len() - FRAME_HEADER) as u32;
        self.head[..4].copy_from_slice(&kind.code());
        self.head[4..8].copy_from_slice(&control.to_le_bytes());
        self.head[8..FRAME_HEADER].copy_from_slice(&(self.tensors.len() as u32).to_le_bytes());
    }

    /// The values of all its tensors \[bytes\].
    pub(crate) fn tensor_bytes(&self) -> usize {
        self.tensors.iter().map(Tensor::byte_len).sum()
    }

    /// The whole frame \[bytes\].
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tensors.len() * TENSOR_HEADER + self.tensor_bytes()
    }

    /// The bytes of the whole frame, without a copy of the tensors' values.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        let tensors = self.tensors.into_iter().flat_map(|tensor| {
            let header = tensor_header(&tensor).expect("it was checked when the frame was made");
            [Bytes::copy_from_slice(&header), shared_bytes(tensor)]
        });
        iter::once(self.head.into()).chain(tensors)
    }

    /// Appends the whole frame to `bytes`, with a copy of the tensors' values.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.head);
        for tensor in &self.tensors {
            bytes.extend_from_slice(
                &tensor_header(tensor).expect("it was checked when the frame was made"),
            );
            bytes.extend_from_slice(tensor.bytes());
        }
    }
}

impl Frame {
    /// Decodes its control part, which has no tensors.
    pub(crate) fn plain<T: serde::de::DeserializeOwned>(&self) -> Result<T, WireError> {
        if !self.tensors.is_empty() {
            return Err(WireError::LeftOver(0, self.tensors.len()));
        }
        decode(&self.control)
    }

    /// The messages of an envelope.
    ///
    /// # Errors
    /// If it is not an envelope, or a message is malformed.
    pub fn messages<M: Payload>(self) -> Result<Messages<M>, WireError> {
        if self.kind != Kind::Envelope {
            return Err(WireError::OutOfPlace(format!("{:?}", self.kind)));
        }
        let (messages, left) = passing_in(self.tensors, || decode::<Messages<M>>(&self.control));
        let messages = messages?;
        if left > 0 {
            return Err(WireError::LeftOver(0, left));
        }
        messages.iter().try_for_each(|message| message.check().map_err(WireError::Message))?;
        Ok(messages)
    }
}

/// Decodes `bytes`, which are one envelope, such as from a file or a fuzzer.
///
/// # Errors
/// If they are not one envelope.
pub fn decode_envelope<M: Payload>(
    bytes: &[u8],
    limits: WireLimits,
) -> Result<Messages<M>, WireError> {
    let (mut rest, mut decoder) = (bytes, FrameDecoder::new(limits));
    match decoder.push(&mut rest)? {
        Some(frame) if rest.is_empty() => frame.messages(),
        Some(_) => Err(WireError::LeftOver(rest.len(), 0)),
        None => Err(WireError::Message("it is cut short".to_owned())),
    }
}

/// Encodes `messages` as one envelope, which [`decode_envelope`] reads.
///
/// # Errors
/// If it is longer than `limits` permit, or a tensor has no numbers.
pub fn encode_envelope<M: Payload>(
    messages: &Messages<M>,
    limits: WireLimits,
) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    Outgoing::envelope(messages, &limits)?.write_to(&mut bytes);
    Ok(bytes)
}

/// The memory of a tensor, shared so that it is sent without a copy.
pub(crate) fn shared_bytes(tensor: Tensor) -> Bytes {
    struct Owner(Tensor);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.bytes()
        }
    }
    Bytes::from_owner(Owner(tensor))
}
