//! The memory under a tensor: aligned for the widest vectors, and used again instead of freed.
//!
//! A training step makes the same buffers as the step before it. When a buffer's last tensor is
//! dropped, the buffer goes to a free list, together with its reference count. So a steady step
//! neither asks the system for memory nor touches a cold page; even for a scalar the list is faster
//! than an aligned allocation. The list keeps at most [`KEPT_BYTES`] a size class.

use std::sync::{Arc, Mutex};

use super::dtype::Element;
use super::memory::{Counted, refuse};

/// The most bytes that the free list keeps of each power of two \[bytes\]: two tensors of 100 MB,
/// since touching that much new memory takes half as long as receiving it.
const KEPT_BYTES: usize = 256 << 20;
/// The size of a cache line, and the alignment of every tensor \[bytes\].
const LINE: usize = 64;
/// The room that a buffer has before any of its bytes has come \[bytes\]: whoever announces more
/// has to send it before it takes memory.
const FIRST_ROOM: usize = 256 << 10;
/// The number of size classes: one a power of two, up to 1 TiB.
const CLASSES: usize = 40;

static FREE: [Mutex<Vec<Arc<Buffer>>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

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
    /// Its share of the memory of all tensors.
    counted: Counted,
}

impl Buffer {
    /// An empty buffer with room for `wanted` bytes and more, so that others can use it again.
    fn with_room(wanted: usize) -> Self {
        let counted = count(wanted);
        Self { lines: Vec::with_capacity(lines_for(wanted)), len: 0, counted }
    }

    /// Sees to it that it has room for `wanted` bytes.
    fn make_room(&mut self, wanted: usize) {
        let lines = lines_for(wanted);
        if lines > self.lines.capacity() {
            self.count_at_least(wanted);
            self.lines.reserve_exact(lines - self.lines.len());
        }
    }

    /// Counts it as `wanted` bytes, if it was made for fewer.
    fn count_at_least(&mut self, wanted: usize) {
        if self.counted.is_less_than(wanted) {
            self.counted = Counted::default();
            self.counted = count(wanted);
        }
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

/// A buffer that tensors share, or a part of one. The last one to be dropped gives the buffer back
/// to the free list.
#[derive(Clone)]
pub(super) struct Shared {
    /// `None` only while it is being dropped.
    buffer: Option<Arc<Buffer>>,
    /// The place of its first byte in the buffer \[bytes\].
    begin: usize,
    /// Its length \[bytes\].
    len: usize,
}

impl Shared {
    fn whole(buffer: Arc<Buffer>) -> Self {
        let len = buffer.len;
        Self { buffer: Some(buffer), begin: 0, len }
    }

    /// A buffer of zeros.
    pub(super) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::recycled(len);
        buffer.make_mut().fill(0);
        buffer
    }

    /// A buffer with arbitrary contents, left by an earlier buffer.
    pub(super) fn recycled(len: usize) -> Self {
        let class = class(len);
        let kept = class.and_then(|class| free_list(class).pop());
        let mut kept = kept.unwrap_or_else(|| Arc::new(Buffer::with_room(len)));
        let buffer = Arc::get_mut(&mut kept).expect("nobody holds a buffer of the free list");
        buffer.count_at_least(len);
        buffer.lines.resize(len.div_ceil(LINE), Line::ZERO);
        buffer.len = len;
        Self::whole(kept)
    }

    /// The `len` bytes from `begin` on, without a copy; `None` if they don't begin on a cache line.
    pub(super) fn part(&self, begin: usize, len: usize) -> Option<Self> {
        assert!(begin + len <= self.len, "a part is within the whole");
        let is_aligned = begin.is_multiple_of(LINE);
        is_aligned.then(|| Self { buffer: self.buffer.clone(), begin: self.begin + begin, len })
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        let buffer = self.buffer.as_ref().expect("a buffer is there until it is dropped");
        &buffer.bytes()[self.begin..][..self.len]
    }

    pub(super) fn as_slice<T: Element>(&self) -> &[T] {
        bytemuck::checked::cast_slice(self.bytes())
    }

    /// Whether another tensor shares the buffer, or another part of it.
    pub(super) fn is_shared(&mut self) -> bool {
        self.buffer.as_mut().is_none_or(|buffer| Arc::get_mut(buffer).is_none())
    }

    /// Its bytes for writing; copies them first if another tensor shares the buffer, or another
    /// part of it.
    pub(super) fn make_mut(&mut self) -> &mut [u8] {
        if self.is_shared() {
            let mut copy = Self::recycled(self.len);
            copy.make_mut().copy_from_slice(self.bytes());
            *self = copy;
        }
        let own = self.buffer.as_mut().and_then(Arc::get_mut);
        let own = own.expect("a buffer that is not shared is its holder's own");
        &mut own.bytes_mut()[self.begin..][..self.len]
    }

    pub(super) fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        bytemuck::checked::cast_slice_mut(self.make_mut())
    }
}

/// A buffer that is filled from its beginning. Its memory is not touched before it is filled.
pub(super) struct Filling {
    buffer: Arc<Buffer>,
    /// The length that it will have \[bytes\].
    wanted: usize,
}

impl Filling {
    /// An empty buffer for `wanted` bytes.
    pub(super) fn new(wanted: usize) -> Self {
        let kept = class(wanted).and_then(|class| free_list(class).pop());
        let first = wanted.min(FIRST_ROOM);
        let mut buffer = kept.unwrap_or_else(|| Arc::new(Buffer::with_room(first)));
        let own = Arc::get_mut(&mut buffer).expect("nobody holds a buffer of the free list");
        own.lines.clear();
        own.len = 0;
        Self { buffer, wanted }
    }

    /// The length that is missing \[bytes\].
    pub(super) fn missing(&self) -> usize {
        self.wanted - self.buffer.len
    }

    /// Appends as much of `bytes` as is missing, and removes that part from `bytes`.
    pub(super) fn push(&mut self, bytes: &mut &[u8]) {
        let (mut taken, rest) = bytes.split_at(bytes.len().min(self.missing()));
        *bytes = rest;
        let buffer =
            Arc::get_mut(&mut self.buffer).expect("a buffer that is being filled is nobody else's");
        let filled = buffer.len + taken.len();
        if filled.div_ceil(LINE) > buffer.lines.capacity() {
            buffer.make_room((2 * filled).min(self.wanted));
        }
        buffer.count_at_least(filled);
        let begun = buffer.lines.len() * LINE - buffer.len;
        let (head, tail) = taken.split_at(taken.len().min(begun));
        let at = buffer.len;
        bytemuck::cast_slice_mut::<Line, u8>(&mut buffer.lines)[at..at + head.len()]
            .copy_from_slice(head);
        buffer.len += taken.len();
        taken = tail;
        let (lines, tail) = taken.as_chunks::<LINE>();
        buffer.lines.extend(lines.iter().map(|line| Line(*line)));
        if !tail.is_empty() {
            let mut last = Line::ZERO;
            last.0[..tail.len()].copy_from_slice(tail);
            buffer.lines.push(last);
        }
    }

    /// The buffer, which is full.
    pub(super) fn full(self) -> Shared {
        assert_eq!(self.missing(), 0, "a buffer is used once it is full");
        Shared::whole(self.buffer)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else { return };
        let Some(own) = Arc::get_mut(&mut buffer) else { return };
        let Some(class) = class(own.len) else { return };
        let mut list = free_list(class);
        if (list.len() + 1) << class <= KEPT_BYTES {
            list.push(buffer);
        }
    }
}

/// The size class of a buffer of `len` bytes; `None` if it is empty or too large to keep.
fn class(len: usize) -> Option<usize> {
    let class = len.max(LINE).next_power_of_two().trailing_zeros() as usize;
    (len > 0 && class < CLASSES).then_some(class)
}

/// The number of lines of a buffer for `wanted` bytes; more than it needs, so that others of its
/// size class can use it again.
fn lines_for(wanted: usize) -> usize {
    let lines = wanted.div_ceil(LINE);
    if class(wanted).is_some() { lines.next_power_of_two() } else { lines }
}

/// Counts a buffer of `bytes`, for which kept buffers are given up if need be; unwinds with
/// `OutOfMemory` if that is still too much.
fn count(bytes: usize) -> Counted {
    let counted = Counted::new(bytes).or_else(|_| {
        (0..CLASSES).for_each(|class| free_list(class).clear());
        Counted::new(bytes)
    });
    counted.unwrap_or_else(|refused| refuse(refused))
}

fn free_list(class: usize) -> std::sync::MutexGuard<'static, Vec<Arc<Buffer>>> {
    FREE[class].lock().expect("nothing panics while it holds the free list")
}
