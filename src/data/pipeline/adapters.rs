//! What changes a sequence of elements without reordering it: map, shard, repeat, batch.

use std::sync::Arc;

use super::super::DataError;
use super::super::stack::Stack;
use super::{Elements, Open, Source};

/// Elements that are in memory.
pub(super) struct Listed<T> {
    values: Arc<[T]>,
    next: usize,
}

impl<T> Listed<T> {
    pub(super) fn new(values: Arc<[T]>) -> Self {
        Self { values, next: 0 }
    }
}

impl<T: Clone + Send + Sync> Source<T> for Listed<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        let value = self.values.get(self.next).cloned();
        self.next += usize::from(value.is_some());
        Ok(value)
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let left = self.values.len() - self.next;
        let passed = left.min(usize::try_from(count).unwrap_or(left));
        self.next += passed;
        Ok(passed as u64)
    }
}

pub(super) struct Mapped<T, F> {
    inner: Elements<T>,
    change: Arc<F>,
}

impl<T, F> Mapped<T, F> {
    pub(super) fn new(inner: Elements<T>, change: Arc<F>) -> Self {
        Self { inner, change }
    }
}

impl<T, U, F: Fn(T) -> Result<U, DataError> + Send + Sync> Source<U> for Mapped<T, F> {
    fn next(&mut self) -> Result<Option<U>, DataError> {
        self.inner.next()?.map(|element| (self.change)(element)).transpose()
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        self.inner.skip(count)
    }
}

pub(super) struct Sharded<T> {
    inner: Elements<T>,
    shards: u64,
    /// The number of others' elements before the next own one.
    before_next: u64,
}

impl<T> Sharded<T> {
    pub(super) fn new(inner: Elements<T>, shards: u64, index: u64) -> Self {
        Self { inner, shards, before_next: index }
    }
}

impl<T> Source<T> for Sharded<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        self.inner.skip(self.before_next)?;
        self.before_next = self.shards - 1;
        self.inner.next()
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let Some(others) = count.checked_sub(1) else { return Ok(0) };
        let wanted = self.before_next + others * self.shards + 1;
        let passed = self.inner.skip(wanted)?;
        let own = match passed.checked_sub(self.before_next + 1) {
            Some(after_first) => after_first / self.shards + 1,
            None => 0,
        };
        self.before_next = self.shards - 1;
        Ok(own)
    }
}

pub(super) struct Repeated<T> {
    open: Arc<Open<T>>,
    inner: Elements<T>,
    epoch: u64,
    /// How many elements of the epoch have been passed.
    passed: u64,
}

impl<T> Repeated<T> {
    pub(super) fn new(open: Arc<Open<T>>) -> Result<Self, DataError> {
        let inner = open(0)?;
        Ok(Self { open, inner, epoch: 0, passed: 0 })
    }

    fn begin(&mut self, epoch: u64) -> Result<(), DataError> {
        self.inner = (self.open)(epoch)?;
        (self.epoch, self.passed) = (epoch, 0);
        Ok(())
    }
}

impl<T> Source<T> for Repeated<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        loop {
            if let Some(element) = self.inner.next()? {
                self.passed += 1;
                return Ok(Some(element));
            }
            if self.passed == 0 {
                return Ok(None);
            }
            self.begin(self.epoch + 1)?;
        }
    }

    /// Reads to the end of one epoch at most, and to the place in the last: epochs are equally
    /// long, so that those between need not be read.
    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.inner.skip(count)?;
        self.passed += passed;
        let left = count - passed;
        let length = self.passed;
        if left == 0 || length == 0 {
            return Ok(passed);
        }
        self.begin(self.epoch + 1 + left / length)?;
        self.passed = self.inner.skip(left % length)?;
        Ok(count)
    }
}

pub(super) struct Batched<T> {
    inner: Elements<T>,
    size: usize,
}

impl<T> Batched<T> {
    pub(super) fn new(inner: Elements<T>, size: usize) -> Self {
        Self { inner, size }
    }
}

impl<T: Stack> Source<T::Batch> for Batched<T> {
    fn next(&mut self) -> Result<Option<T::Batch>, DataError> {
        let mut elements = Vec::new();
        while elements.len() < self.size {
            let Some(element) = self.inner.next()? else { break };
            elements.push(element);
        }
        if elements.is_empty() { Ok(None) } else { T::stack(elements).map(Some) }
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let size = self.size as u64;
        Ok(self.inner.skip(count.saturating_mul(size))?.div_ceil(size))
    }
}
