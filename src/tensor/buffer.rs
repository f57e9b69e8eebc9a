//! The memory under a tensor: aligned for the widest vectors, and used again instead of freed.
//!
//! A training step makes the same buffers as the step before it. A buffer that is dropped leaves
//! its memory on a free list. So a steady step neither asks the system for memory nor touches a
//! cold page; even for a scalar the list is faster than an aligned allocation. The list keeps at
//! most [`KEPT_BYTES`] a size class.

use std::sync::Mutex;

use super::memory::{Counted, refuse};

/// The most bytes that the free list keeps of each power of two \[bytes\]: two tensors of 100 MB,
/// since touching that much new memory takes half as long as receiving it.
const KEPT_BYTES: usize = 256 << 20;
/// The size of a cache line, and the alignment of every tensor \[bytes\].
pub(super) const LINE: usize = 64;
/// The room that a buffer has before any of its bytes has come \[bytes\]: whoever announces more
/// has to send it before it takes memory.
const FIRST_ROOM: usize = 256 << 10;
/// The number of size classes: one a power of two, up to 1 TiB.
const CLASSES: usize = 40;

static FREE: [Mutex<Vec<Room>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// One cache line, as wide as an AVX-512 register.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

impl Line {
    const ZERO: Self = Self([0; LINE]);
}

/// Memory that a buffer has, or left on the free list.
#[derive(Default)]
struct Room {
    lines: Vec<Line>,
    /// Its share of the memory of all tensors.
    counted: Counted,
}

impl Room {
    /// Room for `wanted` bytes and more, so that others can use it again.
    fn new(wanted: usize) -> Self {
        let counted = count(wanted);
        Self { lines: Vec::with_capacity(lines_for(wanted)), counted }
    }

    /// Sees to it that there is room for `wanted` bytes.
    fn grow(&mut self, wanted: usize) {
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
}

/// Bytes that begin on a cache line.
pub(super) struct Buffer {
    room: Room,
    /// Its length \[bytes\].
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub(super) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::recycled(len);
        buffer.bytes_mut().fill(0);
        buffer
    }

    /// `len` arbitrary bytes, left by an earlier buffer.
    pub(super) fn recycled(len: usize) -> Self {
        let mut room = kept(len).unwrap_or_else(|| Room::new(len));
        room.count_at_least(len);
        room.lines.resize(len.div_ceil(LINE), Line::ZERO);
        Self { room, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.room.lines)[..self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.room.lines)[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(class) = class(self.len) else { return };
        let mut list = free_list(class);
        if (list.len() + 1) << class <= KEPT_BYTES {
            list.push(std::mem::take(&mut self.room));
        }
    }
}

/// A buffer that is filled from its beginning. Its memory is not touched before it is filled.
pub(super) struct Filling {
    buffer: Buffer,
    /// The length that it will have \[bytes\].
    wanted: usize,
}

impl Filling {
    /// An empty buffer for `wanted` bytes.
    pub(super) fn new(wanted: usize) -> Self {
        let mut room = kept(wanted).unwrap_or_else(|| Room::new(wanted.min(FIRST_ROOM)));
        room.lines.clear();
        Self { buffer: Buffer { room, len: 0 }, wanted }
    }

    /// The length that is missing \[bytes\].
    pub(super) fn missing(&self) -> usize {
        self.wanted - self.buffer.len
    }

    /// Appends as much of `bytes` as is missing, and removes that part from `bytes`.
    pub(super) fn push(&mut self, bytes: &mut &[u8]) {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.missing()));
        *bytes = rest;
        let Buffer { room, len } = &mut self.buffer;
        let filled = *len + taken.len();
        if filled.div_ceil(LINE) > room.lines.capacity() {
            room.grow((2 * filled).min(self.wanted));
        }
        room.count_at_least(filled);
        let begun = room.lines.len() * LINE - *len;
        let (head, tail) = taken.split_at(taken.len().min(begun));
        bytemuck::cast_slice_mut::<Line, u8>(&mut room.lines)[*len..][..head.len()]
            .copy_from_slice(head);
        let (lines, tail) = tail.as_chunks::<LINE>();
        room.lines.extend(lines.iter().map(|line| Line(*line)));
        if !tail.is_empty() {
            let mut last = Line::ZERO;
            last.0[..tail.len()].copy_from_slice(tail);
            room.lines.push(last);
        }
        *len = filled;
    }

    /// The buffer, which is full.
    pub(super) fn full(self) -> Buffer {
        assert_eq!(self.missing(), 0, "a buffer is used once it is full");
        self.buffer
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

/// Memory from the free list for `len` bytes, if it has some.
fn kept(len: usize) -> Option<Room> {
    class(len).and_then(|class| free_list(class).pop())
}

fn free_list(class: usize) -> std::sync::MutexGuard<'static, Vec<Room>> {
    FREE[class].lock().expect("nothing panics while it holds the free list")
}
