//! The memory under a tensor: aligned for the widest vectors, and used again instead of freed.
//!
//! A training step makes the same buffers as the step before it. They go back to a free list when
//! their last tensor is dropped, so that a steady step neither asks the system for memory nor touches
//! a cold page; and even for a scalar the list is faster than an aligned allocation. It keeps at most
//! [`KEPT_BYTES`] a size.

use std::sync::Mutex;

use super::dtype::Element;

/// What the free list holds of each power of two at most \[bytes\].
const KEPT_BYTES: usize = 64 << 20;
/// The size of a cache line, and the alignment of every tensor \[bytes\].
const LINE: usize = 64;
/// The number of size classes: one a power of two, up to 1 TiB.
const CLASSES: usize = 40;

static FREE: [Mutex<Vec<Vec<Line>>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// One cache line, as wide as an AVX-512 register.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

impl Line {
    const ZERO: Self = Self([0; LINE]);
}

/// `len` bytes that begin on a cache line.
pub(super) struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// A buffer of zeros.
    pub(super) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::recycled(len);
        buffer.lines.fill(Line::ZERO);
        buffer
    }

    /// A buffer whose contents are whatever an earlier one left there.
    pub(super) fn recycled(len: usize) -> Self {
        let lines = len.div_ceil(LINE);
        let mut kept = class(len).and_then(|class| free_list(class).pop()).unwrap_or_default();
        if kept.capacity() == 0 {
            kept.reserve_exact(if class(len).is_some() { lines.next_power_of_two() } else { lines });
        }
        kept.resize(lines, Line::ZERO);
        Self { lines: kept, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }

    pub(super) fn as_slice<T: Element>(&self) -> &[T] {
        bytemuck::checked::cast_slice(self.bytes())
    }

    pub(super) fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        bytemuck::checked::cast_slice_mut(self.bytes_mut())
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Self::recycled(self.len);
        copy.lines.copy_from_slice(&self.lines);
        copy
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(class) = class(self.len) else { return };
        let mut list = free_list(class);
        if (list.len() + 1) << class <= KEPT_BYTES {
            list.push(std::mem::take(&mut self.lines));
        }
    }
}

/// The size class of a buffer of `len` bytes, none where it has no memory or too much to keep.
fn class(len: usize) -> Option<usize> {
    let class = len.max(LINE).next_power_of_two().trailing_zeros() as usize;
    (len > 0 && class < CLASSES).then_some(class)
}

fn free_list(class: usize) -> std::sync::MutexGuard<'static, Vec<Vec<Line>>> {
    FREE[class].lock().expect("nothing panics while it holds the free list")
}
