//! Batches of a worker's share of a split.

use std::sync::Arc;

use super::deal::Deal;
use super::skew::Skew;
use super::{Batch, DataError, Split};
use crate::tensor::{Element, Shape, Tensor};

/// Endless shuffled batches of one worker's share of a split.
///
/// An epoch is a permutation of the whole split, drawn from the seed and the epoch's number. The
/// epochs, one after the other, are dealt to the workers like cards, one sample each in turn. So in
/// an epoch each sample goes to exactly one worker, and all workers come to the epoch's end
/// together. The `k`-th batches of all workers together hold the samples of the `k`-th batch of a
/// single worker whose batches are as large as all theirs together. A worker's batches do not
/// depend on what other workers do.
///
/// Every batch has the same size; a batch that reaches the end of an epoch goes on in the next.
#[derive(Clone, Debug)]
pub struct Batches {
    split: Arc<Split>,
    deal: Deal,
    batch: usize,
}

impl Batches {
    /// Creates the batches of `worker`, one of `workers`, of `batch` samples each.
    ///
    /// # Errors
    /// If the split, the batch or the number of workers is zero, or there is no such `worker`.
    pub fn new(
        split: Arc<Split>,
        seed: u64,
        worker: u32,
        workers: u32,
        batch: usize,
    ) -> Result<Self, DataError> {
        let deal = Deal::new(split.len(), &split.epochs, seed, worker, workers, batch)?;
        Ok(Self { split, deal, batch })
    }

    /// Creates the batches of `worker`, one of `workers`, of a share of the split that is its own
    /// in all epochs, and whose mix of labels is drawn from a symmetric Dirichlet distribution: at
    /// a `concentration` of 100 all workers have much the same, at 0.1 most samples of each have a
    /// few labels (Hsu, Qi and Brown 2019, arXiv 1909.06335). The shares are of one size; of
    /// the samples that this leaves over nobody has any.
    ///
    /// # Errors
    /// If the concentration is not above 0, the batch or the number of workers is zero, there are
    /// fewer samples than workers, or there is no such `worker`.
    pub fn skewed(
        split: Arc<Split>,
        seed: u64,
        (worker, workers): (u32, u32),
        batch: usize,
        concentration: f64,
    ) -> Result<Self, DataError> {
        let skew = Skew { concentration, seed, workers };
        let share =
            split.shares.of_worker(skew, (split.labels.values()?, split.classes), worker)?;
        let deal = Deal::of_share(share, seed, worker, batch)?;
        Ok(Self { split, deal, batch })
    }

    /// The next batch: features `f32` of shape `[batch, width]`, labels `i32` of shape `[batch]`.
    pub fn next_batch(&mut self) -> Batch {
        let samples: Vec<usize> = (0..self.batch).map(|_| self.deal.next_sample()).collect();
        let shape = Shape::from([self.batch, self.split.width]);
        Batch {
            features: rows::<f32>(&self.split.features, &samples, shape),
            ids: self.split.ids.as_ref().map(|ids| rows::<i64>(ids, &samples, shape)),
            labels: rows::<i32>(&self.split.labels, &samples, Shape::from([self.batch])),
        }
    }

    /// Moves to the position after `batches` batches.
    pub fn seek(&mut self, batches: u64) {
        self.deal.seek(batches * self.batch as u64);
    }

    /// The epoch, from 0, in which the next batch begins.
    pub fn epoch(&self) -> u64 {
        self.deal.epoch()
    }
}

impl Batch {
    /// The samples of `batches`, one after the other. There is at least one.
    pub(crate) fn joined(mut batches: Vec<Self>) -> Self {
        if let [_] = &batches[..] {
            return batches.swap_remove(0);
        }
        let samples = batches.iter().map(Self::samples).sum();
        let width = batches[0].features.shape().dims()[1];
        let wide = Shape::from([samples, width]);
        let ids: Vec<&Tensor> = batches.iter().filter_map(|batch| batch.ids.as_ref()).collect();
        Self {
            features: stacked::<f32>(batches.iter().map(|batch| &batch.features), wide),
            ids: (!ids.is_empty()).then(|| stacked::<i64>(ids.into_iter(), wide)),
            labels: stacked::<i32>(batches.iter().map(|batch| &batch.labels), [samples].into()),
        }
    }

    /// The batch in `count` equal shares, in order: the samples are the rows of its tensors, of
    /// whatever type and shape these are. What is left over is in none.
    ///
    /// # Errors
    /// If a share would have no sample; if the features, the ids and the labels have not a row each
    /// for each sample.
    pub fn shares(&self, count: usize) -> Result<impl Iterator<Item = Self>, DataError> {
        let samples = self.samples();
        let mut all = [&self.features, &self.labels].into_iter().chain(&self.ids);
        if all.any(|tensor| tensor.shape().dims().first() != Some(&samples)) {
            let dims = |tensor: &Tensor| tensor.shape().dims().to_vec();
            return Err(DataError::Rows {
                features: dims(&self.features),
                ids: self.ids.as_ref().map(dims),
                labels: dims(&self.labels),
            });
        }
        let size = samples.checked_div(count).filter(|size| *size > 0);
        let size = size.ok_or(DataError::Shares { samples, count })?;
        Ok((0..count).map(move |share| Self {
            features: self.features.rows(share * size, size),
            ids: self.ids.as_ref().map(|ids| ids.rows(share * size, size)),
            labels: self.labels.rows(share * size, size),
        }))
    }
}

/// The rows of `parts`, one after the other, in `shape`.
fn stacked<'a, T: Element>(parts: impl Iterator<Item = &'a Tensor>, shape: Shape) -> Tensor {
    let mut whole = Tensor::uninitialised::<T>(shape);
    let mut at = 0;
    for part in parts {
        if part.is_hollow() {
            return Tensor::hollow(part.dtype(), shape);
        }
        let rows = part.slice::<T>();
        whole.make_mut::<T>()[at..at + rows.len()].copy_from_slice(rows);
        at += rows.len();
    }
    whole
}

/// The rows of `from` at the positions `samples`, in `shape`.
fn rows<T: Element>(from: &Tensor, samples: &[usize], shape: Shape) -> Tensor {
    if from.is_hollow() {
        return Tensor::hollow(from.dtype(), shape);
    }
    let mut picked = Tensor::uninitialised::<T>(shape);
    let (width, from) = (shape.dims()[1..].iter().product::<usize>(), from.slice::<T>());
    let rows = picked.make_mut::<T>().chunks_exact_mut(width.max(1));
    rows.zip(samples)
        .for_each(|(row, sample)| row.copy_from_slice(&from[sample * width..][..width]));
    picked
}

#[cfg(test)]
mod tests;
