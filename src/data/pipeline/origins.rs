//! Where elements come from, if not from files: memory, a program's own iterator, counting.

use std::iter::Fuse;
use std::sync::Arc;

use super::super::DataError;
use super::{Pipeline, Source};

impl<T: Send + 'static> Pipeline<T> {
    /// The elements of `values` (TensorFlow: `from_tensor_slices`).
    pub fn from_elements(values: impl IntoIterator<Item = T>) -> Self
    where
        T: Clone + Sync,
    {
        let values: Arc<[T]> = values.into_iter().collect();
        Self::new(move |_| Ok(Box::new(Listed { values: Arc::clone(&values), next: 0 })))
    }

    /// The elements of the iterator that `begin` makes for each epoch (TensorFlow:
    /// `from_generator`).
    ///
    /// Each iterator must give the same elements in the same order. A training's position is a
    /// number: one that is restored begins a new iterator, and passes over as many elements.
    ///
    /// ```
    /// # use trainyard::data::{DataError, Pipeline};
    /// let numbers = Pipeline::from_generator(|| {
    ///     let words = "4 5".split(' ');
    ///     Ok(words.map(|word| word.parse::<i32>().map_err(DataError::program)))
    /// });
    /// let read: Vec<i32> = numbers.repeat().iter()?.take(3).collect::<Result<_, _>>()?;
    /// assert_eq!(read, [4, 5, 4]);
    /// # Ok::<(), DataError>(())
    /// ```
    pub fn from_generator<I>(
        begin: impl Fn() -> Result<I, DataError> + Send + Sync + 'static,
    ) -> Self
    where
        I: Iterator<Item = Result<T, DataError>> + Send + 'static,
    {
        Self::new(move |_| Ok(Box::new(Generated(begin()?.fuse()))))
    }
}

impl Pipeline<u64> {
    /// The numbers from 0 on, without an end.
    pub(super) fn counting() -> Self {
        Self::new(|_| Ok(Box::new(Counting { next: 0 })))
    }
}

/// Elements that are in memory.
struct Listed<T> {
    values: Arc<[T]>,
    next: usize,
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

/// The elements of an iterator.
struct Generated<I>(Fuse<I>);

impl<T, I: Iterator<Item = Result<T, DataError>> + Send> Source<T> for Generated<I> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        self.0.next().transpose()
    }
}

struct Counting {
    next: u64,
}

impl Source<u64> for Counting {
    fn next(&mut self) -> Result<Option<u64>, DataError> {
        self.next += 1;
        Ok(Some(self.next - 1))
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        self.next += count;
        Ok(count)
    }
}
