//! What the clones of a tensor share: element type, shape, and the memory of the values.

use std::sync::Arc;

use super::buffer::{Buffer, LINE};
use super::{DType, Shape};

/// An element type, a shape and the values. A tensor is a pointer to one, so that a message or an
/// envelope that holds tensors stays small.
pub(super) struct Held {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    pub(super) memory: Memory,
}

/// Where the values are.
pub(super) enum Memory {
    /// In a buffer of their own.
    Own(Buffer),
    /// In the buffer of `whole`, from the byte `begin` on.
    Part { whole: Arc<Held>, begin: usize },
    /// Nowhere: the tensor is hollow.
    None,
}

impl Held {
    /// The length of the values \[bytes\].
    pub(super) fn byte_len(&self) -> usize {
        self.shape.bytes_of(self.dtype)
    }

    /// The bytes of the values; none of a hollow tensor.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(buffer) => buffer.bytes(),
            Memory::Part { whole, begin } => &whole.bytes()[*begin..][..self.byte_len()],
            Memory::None => &[],
        }
    }

    /// The bytes for writing. `None` if another tensor shares them, or they are nowhere.
    pub(super) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.byte_len();
        match &mut self.memory {
            Memory::Own(buffer) => Some(buffer.bytes_mut()),
            Memory::Part { whole, begin } => {
                let whole = Arc::get_mut(whole).and_then(Self::bytes_mut)?;
                Some(&mut whole[*begin..][..len])
            }
            Memory::None => None,
        }
    }

    /// The memory of the values from the byte `begin` of `whole` on, without a copy. `None` if they
    /// don't begin on a cache line, as all tensors do, or `whole` is hollow.
    pub(super) fn part(whole: &Arc<Self>, begin: usize) -> Option<Memory> {
        match &whole.memory {
            _ if !begin.is_multiple_of(LINE) => None,
            Memory::Own(_) => Some(Memory::Part { whole: Arc::clone(whole), begin }),
            Memory::Part { whole, begin: own } => {
                Some(Memory::Part { whole: Arc::clone(whole), begin: own + begin })
            }
            Memory::None => None,
        }
    }
}
