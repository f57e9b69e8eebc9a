//! Pipelines side by side: zip, enumerate.

use std::sync::Arc;

use super::super::DataError;
use super::{Elements, Pipeline, Source};

impl<T: Send + 'static> Pipeline<T> {
    /// Pairs of an element of this pipeline and one of `other`, until one of them ends
    /// (TensorFlow: `zip`). The longer one may be read beyond that.
    #[must_use]
    pub fn zip<U: Send + 'static>(self, other: Pipeline<U>) -> Pipeline<(T, U)> {
        let (ahead, is_even) = (self.ahead.max(other.ahead), self.is_even && other.is_even);
        let zipped = move |epoch| -> Result<Elements<(T, U)>, DataError> {
            Ok(Box::new(Zipped { first: (self.open)(epoch)?, second: (other.open)(epoch)? }))
        };
        Pipeline { open: Arc::new(zipped), ahead, is_even }
    }

    /// What `join` makes of the next elements of `all`, in their order, until one of `all` ends.
    /// There is at least one.
    pub(crate) fn zipped(all: Vec<Self>, join: fn(Vec<T>) -> T) -> Self {
        let lists = all.into_iter().map(|one| one.map(|element| Ok(vec![element])));
        let side_by_side = lists.reduce(|before, one| {
            before.zip(one).map(|(mut before, one)| {
                before.extend(one);
                Ok(before)
            })
        });
        side_by_side.expect("at least one").map(move |elements| Ok(join(elements)))
    }

    /// The elements with their numbers, from 0 (TensorFlow: `enumerate`). After [`Self::repeat`]
    /// they go on over the epochs; before it each epoch begins with 0.
    #[must_use]
    pub fn enumerate(self) -> Pipeline<(u64, T)> {
        self.zip(Pipeline::counting()).map(|(element, number)| Ok((number, element)))
    }
}

struct Zipped<T, U> {
    first: Elements<T>,
    second: Elements<U>,
}

impl<T, U> Source<(T, U)> for Zipped<T, U> {
    fn next(&mut self) -> Result<Option<(T, U)>, DataError> {
        let Some(first) = self.first.next()? else { return Ok(None) };
        Ok(self.second.next()?.map(|second| (first, second)))
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.first.skip(count)?;
        self.second.skip(passed)
    }
}
