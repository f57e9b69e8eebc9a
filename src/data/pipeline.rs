//! Input pipelines: elements that are read as they are used, and never all in memory
//! (TensorFlow: `tf.data`).

mod adapters;
mod nested;
mod origins;
mod pairs;
mod shuffle;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use super::DataError;
use super::stack::Stack;
use adapters::{Batched, Filtered, Mapped, Repeated, Rest, Sharded, Taken, TakenWhile};
use shuffle::Shuffled;

/// A recipe for a sequence of elements (TensorFlow: `tf.data.Dataset`). Cheap to clone; nothing is
/// read before a training asks.
///
/// The same recipe gives the same elements in the same order, however often it is read. So a
/// training's position in it is one number: how many elements it has taken.
///
/// ```
/// # use trainyard::data::{DataError, Pipeline};
/// let numbers = Pipeline::from_elements(0..10).shard(2, 1).map(|n| Ok(n * 10)).repeat();
/// let first: Vec<i32> = numbers.iter()?.take(6).collect::<Result<_, _>>()?;
/// assert_eq!(first, [10, 30, 50, 70, 90, 10]);
/// # Ok::<(), DataError>(())
/// ```
pub struct Pipeline<T> {
    open: Arc<Open<T>>,
    ahead: usize,
    /// Whether all epochs are equally long.
    is_even: bool,
}

/// Begins the elements of an epoch.
type Open<T> = dyn Fn(u64) -> Opened<T> + Send + Sync;

/// Elements that have been begun.
type Opened<T> = Result<Elements<T>, DataError>;

/// The elements of one epoch, one after the other.
pub(crate) type Elements<T> = Box<dyn Source<T>>;

/// A sequence that is read once.
pub(crate) trait Source<T>: Send {
    /// The next element; none at the end, and from then on.
    fn next(&mut self) -> Result<Option<T>, DataError>;

    /// Passes over the next `count` elements. Returns how many there were.
    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            if self.next()?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}

impl<T: Send + 'static> Pipeline<T> {
    /// A recipe whose epochs `open` begins; it is given the epoch's number, from 0.
    pub(super) fn new(
        open: impl Fn(u64) -> Result<Elements<T>, DataError> + Send + Sync + 'static,
    ) -> Self {
        Self { open: Arc::new(open), ahead: 1, is_even: true }
    }

    /// What `change` makes of each element (TensorFlow: `map`). Where a reader passes over
    /// elements, it is not called. [`DataError::program`] makes an error of any, and
    /// [`Row::mistaken`](super::Row::mistaken) one that names the row's place.
    #[must_use]
    pub fn map<U: Send + 'static>(
        self,
        change: impl Fn(T) -> Result<U, DataError> + Send + Sync + 'static,
    ) -> Pipeline<U> {
        let change = Arc::new(change);
        self.then(move |inner, _| Box::new(Mapped::new(inner, Arc::clone(&change))))
    }

    /// The elements that `keeps` chooses (TensorFlow: `filter`). It is called of an element that a
    /// reader passes over, too, and so must choose the same ones each time.
    #[must_use]
    pub fn filter(self, keeps: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let keeps = Arc::new(keeps);
        let kept = self.then(move |inner, _| Box::new(Filtered::new(inner, Arc::clone(&keeps))));
        // What is shuffled and then cut has other elements in each epoch, and may keep fewer.
        kept.uneven()
    }

    /// The first `count` elements (TensorFlow: `take`).
    #[must_use]
    pub fn take(self, count: u64) -> Self {
        self.then(move |inner, _| Box::new(Taken::new(inner, count)))
    }

    /// The elements before the first one that `goes_on` refuses (TensorFlow: `take_while`). It is
    /// called as the function of [`Self::filter`] is.
    #[must_use]
    pub fn take_while(self, goes_on: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let goes_on = Arc::new(goes_on);
        let taken =
            self.then(move |inner, _| Box::new(TakenWhile::new(inner, Arc::clone(&goes_on))));
        // In another order another element is the first one that is refused.
        taken.uneven()
    }

    /// The elements after the first `count` (TensorFlow: `skip`).
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        self.then(move |inner, _| Box::new(Rest::new(inner, count)))
    }

    /// The elements in a random order: each is drawn from a buffer of `buffer` elements, which the
    /// next one then fills (TensorFlow: `shuffle`). An epoch of [`Self::repeat`] has an order of
    /// its own, which `seed` and the epoch's number decide.
    ///
    /// # Panics
    /// If the buffer is of 0 elements.
    #[must_use]
    pub fn shuffle(self, buffer: usize, seed: u64) -> Self {
        assert!(buffer > 0, "a buffer to shuffle in has at least one element");
        self.then(move |inner, epoch| Box::new(Shuffled::new(inner, buffer, seed, epoch)))
    }

    /// Every `shards`-th element, beginning with the element `index`: the share of one of so many
    /// workers (TensorFlow: `shard`). Before [`Self::shuffle`], each worker has the same samples in
    /// every epoch.
    ///
    /// # Panics
    /// If there is no such shard.
    #[must_use]
    pub fn shard(self, shards: u64, index: u64) -> Self {
        assert!(index < shards, "shard {index} of {shards}: they count from 0");
        self.then(move |inner, _| Box::new(Sharded::new(inner, shards, index)))
    }

    /// The elements again and again, without an end (TensorFlow: `repeat`). Of a sequence without
    /// elements, the repeated one has none.
    ///
    /// A training that goes on in a later epoch passes over one of the earlier ones, for its
    /// length; after [`Self::filter`], [`Self::take_while`], [`Self::flat_map`] and
    /// [`Self::interleave`] over all of them, since these may not be equally long.
    #[must_use]
    pub fn repeat(self) -> Self {
        self.repeat_times(u64::MAX)
    }

    /// The elements of `epochs` epochs (TensorFlow: `repeat` with a count).
    ///
    /// # Panics
    /// If there are 0 epochs.
    #[must_use]
    pub fn repeat_times(self, epochs: u64) -> Self {
        assert!(epochs > 0, "a sequence is read once at least");
        let (open, is_even) = (self.open, self.is_even);
        let repeated = move |_| -> Result<Elements<T>, DataError> {
            Ok(Box::new(Repeated::new(Arc::clone(&open), epochs, is_even)?))
        };
        Self { open: Arc::new(repeated), ahead: self.ahead, is_even: true }
    }

    /// Batches of `size` elements; the last one has what is left (TensorFlow: `batch`).
    ///
    /// # Panics
    /// If a batch is of 0 elements.
    #[must_use]
    pub fn batch(self, size: usize) -> Pipeline<T::Batch>
    where
        T: Stack,
    {
        self.batched(size, true)
    }

    /// Batches of `size` elements, without what is left at the end (TensorFlow: `batch` with
    /// `drop_remainder`).
    ///
    /// # Panics
    /// If a batch is of 0 elements.
    #[must_use]
    pub fn whole_batches(self, size: usize) -> Pipeline<T::Batch>
    where
        T: Stack,
    {
        self.batched(size, false)
    }

    fn batched(self, size: usize, keeps_rest: bool) -> Pipeline<T::Batch>
    where
        T: Stack,
    {
        assert!(size > 0, "a batch has at least one element");
        self.then(move |inner, _| Box::new(Batched::new(inner, size, keeps_rest)))
    }

    /// Lets a training's reader be up to `elements` ahead of it (TensorFlow: `prefetch`): deployed
    /// it reads on a thread of its own, and in a simulation it reads while the task computes.
    /// Without it, a reader is one element ahead.
    #[must_use]
    pub fn prefetch(mut self, elements: usize) -> Self {
        self.ahead = elements.max(1);
        self
    }

    /// How many elements a reader may be ahead.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// All elements, from the first one on. After an error there are no more.
    ///
    /// # Errors
    /// If the first can't be opened.
    pub fn iter(
        &self,
    ) -> Result<impl Iterator<Item = Result<T, DataError>> + Send + use<T>, DataError> {
        let mut elements = Some(self.elements()?);
        Ok(std::iter::from_fn(move || {
            let next = elements.as_mut()?.next().transpose();
            if !matches!(next, Some(Ok(_))) {
                elements = None;
            }
            next
        }))
    }

    pub(crate) fn elements(&self) -> Result<Elements<T>, DataError> {
        (self.open)(0)
    }

    /// What `wrap` makes of the elements of each epoch, of which it is given the number.
    fn then<U: 'static>(
        self,
        wrap: impl Fn(Elements<T>, u64) -> Elements<U> + Send + Sync + 'static,
    ) -> Pipeline<U> {
        let Self { open, ahead, is_even } = self;
        Pipeline { open: Arc::new(move |epoch| Ok(wrap(open(epoch)?, epoch))), ahead, is_even }
    }

    /// The same, where epochs may not be equally long.
    fn uneven(self) -> Self {
        Self { is_even: false, ..self }
    }
}

impl<T> Clone for Pipeline<T> {
    fn clone(&self) -> Self {
        Self { open: Arc::clone(&self.open), ..*self }
    }
}

impl<T> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}
