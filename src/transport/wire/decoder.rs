//! Frames out of bytes that come in pieces of any size.

use super::tensors::{TENSOR_HEADER, parse};
use super::{FRAME_HEADER, Frame, Kind, MAX_TENSORS, WireError, WireLimits};
use crate::tensor::{FillingTensor, Tensor};

/// Memory that is set aside for a control part before any of it is here \[bytes\].
const FIRST_ROOM: usize = 64 << 10;

/// Takes bytes, gives frames. After an error it is of no use any more.
pub struct FrameDecoder {
    limits: WireLimits,
    state: State,
    /// What has been read of the frame.
    kind: Kind,
    control: Vec<u8>,
    tensors: Vec<Tensor>,
    /// The tensors that are still to come.
    missing_tensors: u32,
    tensor_bytes: u64,
}

/// What comes next.
enum State {
    Header(Fixed<FRAME_HEADER>),
    /// So many bytes of the control part are missing.
    Control(usize),
    TensorHeader(Fixed<TENSOR_HEADER>),
    Tensor(FillingTensor),
}

/// A header of which so many bytes are here.
struct Fixed<const N: usize> {
    bytes: [u8; N],
    here: usize,
}

impl<const N: usize> Fixed<N> {
    const EMPTY: Self = Self { bytes: [0; N], here: 0 };

    /// The header, once it is here in full.
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

    /// Takes bytes off `bytes` until a frame is complete or there are none left.
    ///
    /// # Errors
    /// If they are no frame.
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

    /// How many bytes the part that it is in still takes: never more than the frame does.
    pub(crate) fn missing(&self) -> usize {
        match &self.state {
            State::Header(header) => FRAME_HEADER - header.here,
            State::Control(missing) => *missing,
            State::TensorHeader(header) => TENSOR_HEADER - header.here,
            State::Tensor(tensor) => tensor.missing(),
        }
    }

    /// Whether it is between two frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(&self.state, State::Header(header) if header.here == 0)
    }

    /// One part of a frame, as far as its bytes are here; whether that was the last.
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
            State::Tensor(tensor) => tensor.push(bytes),
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
        self.state = State::Tensor(FillingTensor::new(dtype, shape));
        Ok(())
    }

    /// Goes on to the next part where this one is complete; whether there is none.
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

    /// The frame that is complete; another begins.
    fn take(&mut self) -> Frame {
        self.state = State::Header(Fixed::EMPTY);
        self.tensor_bytes = 0;
        let (control, tensors) =
            (std::mem::take(&mut self.control), std::mem::take(&mut self.tensors));
        Frame { kind: self.kind, control, tensors }
    }
}
