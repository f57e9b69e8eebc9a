//! The part of a tensor that its clones share: element type, shape, and the memory of the values.
//! The memory of the last clone is used again, so that a steady step allocates nothing.

use std::sync::{Arc, Mutex, MutexGuard};

use super::buffer::{Buffer, LINE};
use super::{DType, Shape, Tensor};

/// The most that are kept to be used again.
const KEPT: usize = 4096;

static SPARE: Mutex<Vec<Arc<Held>>> = Mutex::new(Vec::new());

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
    Part { whole: Tensor, begin: usize },
    /// Nowhere: the tensor is hollow.
    None,
}

impl Held {
    pub(super) fn new(dtype: DType, shape: Shape, memory: Memory) -> Arc<Self> {
        let new = Self { dtype, shape, memory };
        let Some(mut held) = spare().pop() else { return Arc::new(new) };
        *Arc::get_mut(&mut held).expect("nobody holds what is spare") = new;
        held
    }

    /// A tensor of it is dropped: the last one gives up the memory.
    pub(super) fn release(mut held: Arc<Self>) {
        let Some(own) = Arc::get_mut(&mut held) else { return };
        own.memory = Memory::None;
        let mut spare = spare();
        if spare.len() < KEPT {
            spare.push(held);
        }
    }

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
            Memory::Part { whole, begin } => Some(&mut whole.own_bytes()?[*begin..][..len]),
            Memory::None => None,
        }
    }
}

impl Memory {
    /// Memory that shares `whole`'s values from byte `begin` on, without a copy. `None` if they
    /// don't begin on a cache line, as all tensors do, or `whole` is hollow.
    pub(super) fn part(whole: &Tensor, begin: usize) -> Option<Self> {
        match &whole.held().memory {
            _ if !begin.is_multiple_of(LINE) => None,
            Self::Own(_) => Some(Self::Part { whole: whole.clone(), begin }),
            Self::Part { whole, begin: own } => {
                Some(Self::Part { whole: whole.clone(), begin: own + begin })
            }
            Self::None => None,
        }
    }
}

fn spare() -> MutexGuard<'static, Vec<Arc<Held>>> {
    SPARE.lock().expect("nothing panics while it holds the list")
}
