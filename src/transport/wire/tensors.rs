//! Tensors travel beside the control part: their headers, and the way in which messages hand them
//! over and get them back.
//!
//! Serde meets the tensors of an envelope in the same order when it writes and when it reads.
//! Writing sets each tensor aside and leaves no bytes in the control part; reading takes the next
//! tensor that arrived. So no message needs code of its own for its tensors, however deeply nested
//! they are.

use std::cell::RefCell;
use std::vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use super::WireError;
use crate::tensor::{DType, MAX_RANK, Shape, Tensor};

/// The length of a tensor's header \[bytes\]: 6 bytes of length, the element type, the rank, and
/// six dimensions of 4 bytes each, 0 for those beyond the rank.
pub(crate) const TENSOR_HEADER: usize = 32;
/// The position of the dimensions \[bytes\].
const DIMS: usize = 8;

thread_local! {
    static OUT: RefCell<Option<Vec<Tensor>>> = const { RefCell::new(None) };
    static IN: RefCell<Option<vec::IntoIter<Tensor>>> = const { RefCell::new(None) };
}

/// Runs `write`. Returns its result and the tensors that it met.
pub(super) fn passing_out<T>(write: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    OUT.set(Some(Vec::new()));
    let written = write();
    (written, OUT.take().unwrap_or_default())
}

/// Runs `read`, which meets `tensors`. Returns its result and the number of tensors not met.
pub(super) fn passing_in<T>(tensors: Vec<Tensor>, read: impl FnOnce() -> T) -> (T, usize) {
    IN.set(Some(tensors.into_iter()));
    let value = read();
    (value, IN.take().map_or(0, |left| left.len()))
}

/// The number of tensors of the envelope that is being read that no message has taken yet.
pub(crate) fn tensors_left() -> usize {
    IN.with_borrow(|tensors| tensors.as_ref().map_or(0, |left| left.len()))
}

impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_hollow() {
            let message =
                "a tensor without values can't leave its process: it is for simulations only";
            return Err(ser::Error::custom(message));
        }
        let is_passed =
            OUT.with_borrow_mut(|out| out.as_mut().map(|out| out.push(self.clone())).is_some());
        if !is_passed {
            return Err(ser::Error::custom("a tensor can only be sent in an envelope"));
        }
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer)?;
        let next = IN.with_borrow_mut(|tensors| tensors.as_mut().and_then(Iterator::next));
        next.ok_or_else(|| de::Error::custom("there are fewer tensors than the messages have"))
    }
}

/// The header of a tensor.
///
/// # Errors
/// If a dimension is too large for it.
pub(crate) fn header(tensor: &Tensor) -> Result<[u8; TENSOR_HEADER], WireError> {
    let mut header = [0; TENSOR_HEADER];
    header[..6].copy_from_slice(&(tensor.byte_len() as u64).to_le_bytes()[..6]);
    header[6] = tensor.dtype().code();
    header[7] = tensor.shape().rank() as u8;
    for (dim, to) in tensor.shape().dims().iter().zip(header[DIMS..].chunks_exact_mut(4)) {
        let too_long = || WireError::TooLong {
            what: "a dimension",
            length: *dim as u64,
            limit: u64::from(u32::MAX),
        };
        to.copy_from_slice(&u32::try_from(*dim).map_err(|_| too_long())?.to_le_bytes());
    }
    Ok(header)
}

/// Reads a header: element type, shape and length \[bytes\], which match.
pub(super) fn parse(header: &[u8; TENSOR_HEADER]) -> Result<(DType, Shape, u64), WireError> {
    let wrong = |why| WireError::TensorHeader(*header, why);
    let [l0, l1, l2, l3, l4, l5, dtype, rank, dims @ ..] = header;
    let length = u64::from_le_bytes([*l0, *l1, *l2, *l3, *l4, *l5, 0, 0]);
    let dtype = DType::of_code(*dtype).ok_or_else(|| wrong("no such element type"))?;
    let rank = usize::from(*rank);
    if rank > MAX_RANK {
        return Err(wrong("too many dimensions"));
    }
    let (dims, _) = dims.as_chunks::<4>();
    let mut dims: Vec<usize> = dims.iter().map(|dim| u32::from_le_bytes(*dim) as usize).collect();
    if dims.split_off(rank).iter().any(|dim| *dim != 0) {
        return Err(wrong("a dimension beyond its rank"));
    }
    let shape = Shape::try_from(dims).map_err(|_| wrong("more elements than any memory holds"))?;
    if (shape.elements() * dtype.size()) as u64 == length {
        return Ok((dtype, shape, length));
    }
    Err(wrong("its shape and its length don't match"))
}
