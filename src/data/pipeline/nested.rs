//! Pipelines whose elements open sequences: flat_map, interleave, concatenate, files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::DataError;
use super::{Elements, Opened, Pipeline, Source};

impl<T: Send + 'static> Pipeline<T> {
    /// The elements of the pipelines that `open` makes of each element, one pipeline after the
    /// other (TensorFlow: `flat_map`). What holds for `open` is said at [`Self::interleave`].
    #[must_use]
    pub fn flat_map<U: Send + 'static>(
        self,
        open: impl Fn(T) -> Result<Pipeline<U>, DataError> + Send + Sync + 'static,
    ) -> Pipeline<U> {
        self.interleave(1, u64::MAX, open)
    }

    /// The elements of the pipelines that `open` makes of each element, of which `cycle_length`
    /// are read in turn, `block_length` elements at a time (TensorFlow: `interleave`). Where a
    /// pipeline ends, so does its turn; at its next turn there is a new one in its place.
    ///
    /// `open` is called for pipelines that a reader passes over, too, and must make the same ones
    /// each time. A pipeline that shuffles has another order in each epoch of the whole; its own
    /// [`Self::prefetch`] does nothing.
    ///
    /// # Panics
    /// If a cycle is of 0 pipelines, or a block of 0 elements.
    #[must_use]
    pub fn interleave<U: Send + 'static>(
        self,
        cycle_length: usize,
        block_length: u64,
        open: impl Fn(T) -> Result<Pipeline<U>, DataError> + Send + Sync + 'static,
    ) -> Pipeline<U> {
        assert!(cycle_length > 0, "a cycle has at least one pipeline");
        assert!(block_length > 0, "a block has at least one element");
        let open = Arc::new(open);
        let interleaved = self.then(move |outer, epoch| {
            let open = Arc::clone(&open);
            let open = move |element| (open(element)?.open)(epoch);
            Box::new(Interleaved::new(outer, open, cycle_length, block_length))
        });
        // Another epoch's elements may open longer pipelines.
        interleaved.uneven()
    }

    /// The elements of this pipeline, and then those of `other` (TensorFlow: `concatenate`).
    #[must_use]
    pub fn concatenate(self, other: Self) -> Self {
        let (ahead, is_even) = (self.ahead.max(other.ahead), self.is_even && other.is_even);
        Self { ahead, is_even, ..Pipeline::from_elements([self, other]).flat_map(Ok) }
    }

    /// The elements of `files`, which `open` reads, one file after the other.
    pub(in super::super) fn of_files(
        files: Arc<[PathBuf]>,
        open: impl Fn(&Arc<[PathBuf]>, usize) -> Opened<T> + Send + Sync + 'static,
    ) -> Self {
        let open = Arc::new(open);
        Pipeline::from_elements(0..files.len()).then(move |indices, _| {
            let (files, open) = (Arc::clone(&files), Arc::clone(&open));
            Box::new(Interleaved::new(indices, move |index| open(&files, index), 1, u64::MAX))
        })
    }
}

/// The elements of sequences that are read in turn.
struct Interleaved<T, U, F> {
    outer: Elements<T>,
    open: F,
    /// The sequences in the order of their turns; the first one has it. In a place without one, the
    /// next element of `outer` opens one when the turn comes; after the last, the place is removed.
    cycle: VecDeque<Option<Elements<U>>>,
    block_length: u64,
    /// How many elements are left of the turn.
    left: u64,
}

impl<T, U, F: Fn(T) -> Opened<U>> Interleaved<T, U, F> {
    fn new(outer: Elements<T>, open: F, cycle_length: usize, block_length: u64) -> Self {
        let cycle = (0..cycle_length).map(|_| None).collect();
        Self { outer, open, cycle, block_length, left: block_length }
    }

    /// The sequence that has the turn; none after the last.
    fn current(&mut self) -> Result<Option<&mut Elements<U>>, DataError> {
        while let Some(None) = self.cycle.front() {
            match self.outer.next()? {
                Some(element) => self.cycle[0] = Some((self.open)(element)?),
                None => drop(self.cycle.pop_front()),
            }
        }
        Ok(self.cycle.front_mut().and_then(Option::as_mut))
    }

    /// Counts `passed` elements of the sequence that has the turn. The turn ends with the block, or
    /// if the sequence has ended.
    fn pass(&mut self, passed: u64, has_ended: bool) {
        self.left -= passed;
        if has_ended {
            self.cycle[0] = None;
        }
        if has_ended || self.left == 0 {
            self.cycle.rotate_left(1);
            self.left = self.block_length;
        }
    }
}

impl<T, U, F: Fn(T) -> Opened<U> + Send> Source<U> for Interleaved<T, U, F> {
    fn next(&mut self) -> Result<Option<U>, DataError> {
        while let Some(current) = self.current()? {
            let element = current.next()?;
            let has_ended = element.is_none();
            self.pass(u64::from(!has_ended), has_ended);
            if !has_ended {
                return Ok(element);
            }
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let mut left = count;
        while left > 0 {
            let wanted = left.min(self.left);
            let Some(current) = self.current()? else { break };
            let passed = current.skip(wanted)?;
            self.pass(passed, passed < wanted);
            left -= passed;
        }
        Ok(count - left)
    }
}
