//! Frames: how what travels between processes looks as bytes. All numbers are little-endian.
//!
//! | bytes | of a frame |
//! |---|---|
//! | 1 | its kind |
//! | 3 | 0 |
//! | 4 | the length of the control part |
//! | 4 | how many tensors follow |
//! | … | the control part: messages without their tensors |
//! | … | the tensors: 32 bytes of header each, then its values |
//!
//! Values never pass through an encoder: they are sent from the buffer that they are in, and
//! received into the one that they stay in. What comes from outside is checked before memory is set
//! aside for it.

mod control;
mod decoder;
mod tensors;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::tensor::{Tensor, TensorError};

use super::{Messages, Payload};

pub(crate) use control::{decode, encode};
pub use decoder::FrameDecoder;
pub(crate) use tensors::TENSOR_HEADER;
pub(crate) use tensors::header as tensor_header;
use tensors::{passing_in, passing_out};

/// The version of the frames and of what is in them: peers of another are refused.
pub(crate) const VERSION: u32 = 2;
/// What comes before the control part \[bytes\].
pub(crate) const FRAME_HEADER: usize = 12;
/// The most tensors that an envelope can have.
const MAX_TENSORS: u32 = 1 << 20;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Who speaks. The first frame in each direction.
    Hello,
    /// Messages.
    Envelope,
    /// The sender stops, after so many large envelopes.
    Bye,
    /// All that came before a `Bye` has been taken.
    Taken,
}

/// What is accepted at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// The part of an envelope that is no tensor \[bytes\]; never more than 64 MiB.
    pub control: usize,
    /// One tensor \[bytes\].
    pub tensor: usize,
    /// All tensors of an envelope \[bytes\].
    pub envelope: usize,
}

/// A frame that has arrived in full.
#[derive(Debug)]
pub struct Frame {
    pub(crate) kind: Kind,
    pub(crate) control: Vec<u8>,
    pub(crate) tensors: Vec<Tensor>,
}

/// A frame that is to be sent: its header and control part, and the tensors that follow.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) head: Vec<u8>,
    pub(crate) tensors: Vec<Tensor>,
}

/// Why bytes are no frame, or messages can't be made one.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// No kind of frame begins so.
    #[error("{0:02x?} is no beginning of a frame")]
    Kind([u8; 4]),
    /// Something is longer than may be.
    #[error("{what} of {length} bytes or pieces, of which at most {limit} are accepted")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it is.
        length: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A tensor's header is none.
    #[error("{0:02x?} is no tensor's header: {1}")]
    TensorHeader([u8; TENSOR_HEADER], &'static str),
    /// A tensor's values are none of its type.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The control part can't be read.
    #[error("the control part can't be read: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    /// The messages can't be written.
    #[error("a message can't be written: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    /// A message says what can't be.
    #[error("a message that can't be: {0}")]
    Message(String),
    /// There are bytes or tensors that no message is made of.
    #[error("{0} bytes and {1} tensors are left over")]
    LeftOver(usize, usize),
    /// A frame in a place where it does not belong.
    #[error("a frame of the kind {0:?} in a place where there is none")]
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
    /// If it is longer than `limits` permit, or a tensor has no numbers.
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
    /// The value without tensors that is in it.
    pub(crate) fn plain<T: serde::de::DeserializeOwned>(&self) -> Result<T, WireError> {
        if !self.tensors.is_empty() {
            return Err(WireError::LeftOver(0, self.tensors.len()));
        }
        decode(&self.control)
    }

    /// The messages of an envelope.
    ///
    /// # Errors
    /// If it is none, or its messages can't be.
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

/// The messages of the one envelope that `bytes` are: what a frame that was written to a file, or
/// made up by a fuzzer, holds.
///
/// # Errors
/// If they are none.
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

/// The one envelope of `messages`, as [`decode_envelope`] reads it.
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

/// The memory of a tensor, to be sent from where it is.
pub(crate) fn shared_bytes(tensor: Tensor) -> Bytes {
    struct Owner(Tensor);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.bytes()
        }
    }
    Bytes::from_owner(Owner(tensor))
}
