//! What changes a sequence of elements without reordering it: map, filter, take, skip, shard,
//! repeat, batch.

use std::sync::Arc;

use super::super::DataError;
use super::super::stack::Stack;
use super::{Elements, Open, Source};

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
    /// The number of epochs; the greatest there is for no end.
    epochs: u64,
    /// Whether all epochs are equally long.
    is_even: bool,
    epoch: u64,
    /// How many elements of the epoch have been passed.
    passed: u64,
}

impl<T> Repeated<T> {
    pub(super) fn new(open: Arc<Open<T>>, epochs: u64, is_even: bool) -> Result<Self, DataError> {
        let inner = open(0)?;
        Ok(Self { open, inner, epochs, is_even, epoch: 0, passed: 0 })
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
            if self.passed == 0 || self.epoch + 1 == self.epochs {
                return Ok(None);
            }
            self.begin(self.epoch + 1)?;
        }
    }

    /// Skips whole epochs without reading them where epochs are equally long: reads to the end of
    /// one at most, and then to the place in the last.
    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let mut left = count;
        loop {
            let passed = self.inner.skip(left)?;
            self.passed += passed;
            left -= passed;
            let (length, more) = (self.passed, self.epochs - self.epoch - 1);
            if left == 0 || length == 0 || more == 0 {
                return Ok(count - left);
            }
            let whole = if self.is_even { (left / length).min(more - 1) } else { 0 };
            self.begin(self.epoch + 1 + whole)?;
            left -= whole * length;
        }
    }
}

pub(super) struct Batched<T> {
    inner: Elements<T>,
    size: usize,
    /// Whether what is left at the end is a batch, too.
    keeps_rest: bool,
}

impl<T> Batched<T> {
    pub(super) fn new(inner: Elements<T>, size: usize, keeps_rest: bool) -> Self {
        Self { inner, size, keeps_rest }
    }
}

impl<T: Stack> Source<T::Batch> for Batched<T> {
    fn next(&mut self) -> Result<Option<T::Batch>, DataError> {
        let mut elements = Vec::new();
        while elements.len() < self.size {
            let Some(element) = self.inner.next()? else { break };
            elements.push(element);
        }
        let is_one = elements.len() == self.size || (self.keeps_rest && !elements.is_empty());
        if is_one { T::stack(elements).map(Some) } else { Ok(None) }
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let size = self.size as u64;
        let passed = self.inner.skip(count.saturating_mul(size))?;
        Ok(if self.keeps_rest { passed.div_ceil(size) } else { passed / size })
    }
}

/// The first elements.
pub(super) struct Taken<T> {
    inner: Elements<T>,
    left: u64,
}

impl<T> Taken<T> {
    pub(super) fn new(inner: Elements<T>, count: u64) -> Self {
        Self { inner, left: count }
    }
}

impl<T> Source<T> for Taken<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.inner.next()
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.inner.skip(count.min(self.left))?;
        self.left -= passed;
        Ok(passed)
    }
}

/// The elements after the first ones.
pub(super) struct Rest<T> {
    inner: Elements<T>,
    /// The number of elements that are still to be passed over.
    before: u64,
}

impl<T> Rest<T> {
    pub(super) fn new(inner: Elements<T>, before: u64) -> Self {
        Self { inner, before }
    }

    fn begin(&mut self) -> Result<(), DataError> {
        self.inner.skip(std::mem::take(&mut self.before)).map(drop)
    }
}

impl<T> Source<T> for Rest<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        self.begin()?;
        self.inner.next()
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        self.begin()?;
        self.inner.skip(count)
    }
}

/// The elements that a function chooses.
pub(super) struct Filtered<T, F> {
    inner: Elements<T>,
    keeps: Arc<F>,
}

impl<T, F> Filtered<T, F> {
    pub(super) fn new(inner: Elements<T>, keeps: Arc<F>) -> Self {
        Self { inner, keeps }
    }
}

impl<T, F: Fn(&T) -> bool + Send + Sync> Source<T> for Filtered<T, F> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        loop {
            match self.inner.next()? {
                Some(element) if !(self.keeps)(&element) => {}
                found => return Ok(found),
            }
        }
    }
}

/// The elements before the first one that a function refuses.
pub(super) struct TakenWhile<T, F> {
    /// None after the first one that is refused.
    inner: Option<Elements<T>>,
    goes_on: Arc<F>,
}

impl<T, F> TakenWhile<T, F> {
    pub(super) fn new(inner: Elements<T>, goes_on: Arc<F>) -> Self {
        Self { inner: Some(inner), goes_on }
    }
}

impl<T, F: Fn(&T) -> bool + Send + Sync> Source<T> for TakenWhile<T, F> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        let Some(inner) = &mut self.inner else { return Ok(None) };
        let element = inner.next()?.filter(|element| (self.goes_on)(element));
        if element.is_none() {
            self.inner = None;
        }
        Ok(element)
    }
}
