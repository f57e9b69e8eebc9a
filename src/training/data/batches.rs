//! Batches of a worker's share of a split.

use std::sync::Arc;

use super::deal::Deal;
use super::{Batch, DataError, Split};
use crate::tensor::{Shape, Tensor};

/// Endless shuffled batches of one worker's share of a split.
///
/// An epoch is a permutation of the whole split, drawn from the seed and the epoch's number. The
/// epochs, one after the other, are dealt to the workers like cards, one sample each in turn: so in
/// an epoch each sample goes to exactly one worker, all workers come to the epoch's end together,
/// and the `k`-th batches of all workers hold the samples of the `k`-th batch of a single worker whose
/// batches are as large as theirs together. What a worker gets depends on nothing that others do.
///
/// Every batch has the same size; one that comes to the end of an epoch goes on in the next.
#[derive(Clone, Debug)]
pub struct Batches {
    split: Arc<Split>,
    deal: Deal,
    batch: usize,
}

impl Batches {
    /// The batches of `worker`, one of `workers`, of `batch` samples each.
    ///
    /// # Errors
    /// If the split, the batch or the number of workers is zero, or `worker` is none of them.
    pub fn new(split: Arc<Split>, seed: u64, worker: u32, workers: u32, batch: usize) -> Result<Self, DataError> {
        let deal = Deal::new(split.len(), seed, worker, workers, batch)?;
        Ok(Self { split, deal, batch })
    }

    /// The next batch: features `f32` of shape `[batch, width]`, labels `i32` of shape `[batch]`.
    pub fn next_batch(&mut self) -> Batch {
        let width = self.split.width;
        let mut features = Tensor::uninitialised::<f32>(Shape::from([self.batch, width]));
        let mut labels = Tensor::uninitialised::<i32>(Shape::from([self.batch]));
        let (from_features, from_labels) = (self.split.features.slice::<f32>(), self.split.labels.slice::<i32>());
        let rows = features.make_mut::<f32>();
        for (i, label) in labels.make_mut::<i32>().iter_mut().enumerate() {
            let sample = self.deal.next_sample();
            rows[i * width..][..width].copy_from_slice(&from_features[sample * width..][..width]);
            *label = from_labels[sample];
        }
        Batch { features, labels }
    }

    /// The epoch, from 0, that the next batch begins in.
    pub fn epoch(&self) -> u64 {
        self.deal.epoch()
    }
}

#[cfg(test)]
mod tests;
