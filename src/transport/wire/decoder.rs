//! The decoder: frames from bytes that arrive in pieces of any size.

use super::tensors::{TENSOR_HEADER, parse};
use super::{FRAME_HEADER, Frame, Kind, MAX_TENSORS, WireError, WireLimits};
use crate::tensor::{FillingTensor, Tensor, within_memory};

/// The memory that is allocated for a control part before any of it has arrived \[bytes\].
const FIRST_ROOM: usize = 64 << 10;

/// Takes bytes and returns frames. Not usable after an error.
pub struct FrameDecoder {
    limits: WireLimits,
    state: State,
    /// The parts of the frame that have been read.
    kind: Kind,
    control: Vec<u8>,
    tensors: Vec<Tensor>,
    /// The number of tensors that are missing.
    missing_tensors: u32,
    tensor_bytes: u64,
}

shown!(FrameDecoder, missing_tensors, tensor_bytes);

/// The part of a frame that comes next.
enum State {
    Header(Fixed<FRAME_HEADER>),
    /// The number of bytes of the control part that are missing.
    Control(usize),
    TensorHeader(Fixed<TENSOR_HEADER>),
    Tensor(FillingTensor),
}

/// A header, with the number of its bytes that have arrived.
struct Fixed<const N: usize> {
    bytes: [u8; N],
    here: usize,
}

impl<const N: usize> Fixed<N> {
    const EMPTY: Self = Self { bytes: [0; N], here: 0 };

    /// The header, once it has arrived whole.
    fn push(&mut self, bytes: &mut &[u8]) -> Option<&[u8; N]> {
        let taken = bytes.len().min(N - self.here);
        self.bytes[self.here..self.here + taken].copy_from_slice(&bytes[..taken]);
        self.here += taken;
        *bytes = &bytes[taken..];
        (self.here == N).then_some(&self.bytes)
    }
}

impl FrameDecoder {
    /// A decoder that accepts what `limits` permit.
    pub fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            state: State::Header(Fixed::EMPTY),
            kind: Kind::Hello,
            control: Vec::new(),
            tensors: Vec::new(),
            missing_tensors: 0,
            tensor_bytes: 0,
        }
    }

    /// Takes bytes off `bytes` until a frame is whole or none are left.
    ///
    /// # Errors
    /// If they are not a frame.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, WireError> {
        loop {
            let before = bytes.len();
            let is_complete = self.advance(bytes)?;
            if is_complete {
                return Ok(Some(self.take()));
            }
            if bytes.len() == before && bytes.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The number of bytes that the present part still needs; never more than the frame needs.
    pub(crate) fn missing(&self) -> usize {
        match &self.state {
            State::Header(header) => FRAME_HEADER - header.here,
            State::Control(missing) => *missing,
            State::TensorHeader(header) => TENSOR_HEADER - header.here,
            State::Tensor(tensor) => tensor.missing(),
        }
    }

    /// Whether the decoder is between two frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(&self.state, State::Header(header) if header.here == 0)
    }

    /// Reads the present part of a frame as far as its bytes have arrived. Returns whether the
    /// frame is whole.
    fn advance(&mut self, bytes: &mut &[u8]) -> Result<bool, WireError> {
        match &mut self.state {
            State::Header(header) => {
                let Some(header) = header.push(bytes).copied() else { return Ok(false) };
                self.begin(&header)?;
            }
            State::Control(missing) => {
                let (taken, rest) = bytes.split_at(bytes.len().min(*missing));
                self.control.extend_from_slice(taken);
                *missing -= taken.len();
                *bytes = rest;
            }
            State::TensorHeader(header) => {
                let Some(header) = header.push(bytes).copied() else { return Ok(false) };
                self.begin_tensor(&header)?;
            }
            State::Tensor(tensor) => within_memory(|| tensor.push(bytes))?,
        }
        self.end_part()
    }

    fn begin(&mut self, header: &[u8; FRAME_HEADER]) -> Result<(), WireError> {
        let [k0, k1, k2, k3, c0, c1, c2, c3, t0, t1, t2, t3] = *header;
        self.kind = Kind::of_code([k0, k1, k2, k3])?;
        let control = u32::from_le_bytes([c0, c1, c2, c3]);
        self.missing_tensors = u32::from_le_bytes([t0, t1, t2, t3]);
        WireLimits::check("a control part", control.into(), self.limits.control)?;
        WireLimits::check("a list of tensors", self.missing_tensors.into(), MAX_TENSORS as usize)?;
        self.control = Vec::with_capacity((control as usize).min(FIRST_ROOM));
        self.state = State::Control(control as usize);
        Ok(())
    }

    fn begin_tensor(&mut self, header: &[u8; TENSOR_HEADER]) -> Result<(), WireError> {
        let (dtype, shape, length) = parse(header)?;
        WireLimits::check("a tensor", length, self.limits.tensor)?;
        self.tensor_bytes += length;
        WireLimits::check("the tensors of an envelope", self.tensor_bytes, self.limits.envelope)?;
        self.state = State::Tensor(within_memory(|| FillingTensor::new(dtype, shape))?);
        Ok(())
    }

    /// Goes on to the next part if this one is whole. Returns whether the frame is whole.
    fn end_part(&mut self) -> Result<bool, WireError> {
        match &self.state {
            State::Control(0) => {}
            State::Tensor(tensor) if tensor.missing() == 0 => {
                let full = std::mem::replace(&mut self.state, State::Control(0));
                let State::Tensor(tensor) = full else { unreachable!("it was just a tensor") };
                self.tensors.push(tensor.full()?);
                self.missing_tensors -= 1;
            }
            _ => return Ok(false),
        }
        if self.missing_tensors > 0 {
            self.state = State::TensorHeader(Fixed::EMPTY);
        }
        Ok(self.missing_tensors == 0)
    }

    /// Takes out the whole frame, and begins the next one.
    fn take(&mut self) -> Frame {
        self.state = State::Header(Fixed::EMPTY);
        self.tensor_bytes = 0;
        let (control, tensors) =
            (std::mem::take(&mut self.control), std::mem::take(&mut self.tensors));
        Frame { kind: self.kind, control, tensors }
    }
}
