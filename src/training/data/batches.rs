//! Which samples a worker trains on, and in what order.

use std::sync::Arc;

use rand::seq::SliceRandom;

use super::{Batch, DataError, Split};
use crate::random;
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
    seed: u64,
    workers: u64,
    batch: usize,
    /// The worker's next sample, counted from the beginning of epoch 0 over all workers' samples.
    next: u64,
    /// The epoch of the last sample taken.
    epoch: u64,
    /// The permutation of that epoch.
    order: Vec<usize>,
}

impl Batches {
    /// The batches of `worker`, one of `workers`, of `batch` samples each.
    ///
    /// # Errors
    /// If the split, the batch or the number of workers is zero, or `worker` is none of them.
    pub fn new(split: Arc<Split>, seed: u64, worker: u32, workers: u32, batch: usize) -> Result<Self, DataError> {
        let counts = [(split.len(), "samples"), (batch, "samples in a batch"), (workers as usize, "workers")];
        if let Some((_, what)) = counts.into_iter().find(|(count, _)| *count == 0) {
            return Err(DataError::Empty { what });
        }
        if worker >= workers {
            return Err(DataError::NoSuchWorker { worker, workers });
        }
        let (next, workers, order) = (u64::from(worker), u64::from(workers), vec![0; split.len()]);
        let mut batches = Self { split, seed, workers, batch, next, epoch: 0, order };
        batches.shuffle();
        Ok(batches)
    }

    /// The next batch: features `f32` of shape `[batch, width]`, labels `i32` of shape `[batch]`.
    pub fn next_batch(&mut self) -> Batch {
        let width = self.split.width;
        let mut features = Tensor::uninitialised::<f32>(Shape::from([self.batch, width]));
        let mut labels = Tensor::uninitialised::<i32>(Shape::from([self.batch]));
        let split = Arc::clone(&self.split);
        let (from_features, from_labels) = (split.features.slice::<f32>(), split.labels.slice::<i32>());
        let mut ids = split.ids.as_ref().map(|_| Tensor::uninitialised::<i64>(Shape::from([self.batch, width])));
        let rows = features.make_mut::<f32>();
        for (i, label) in labels.make_mut::<i32>().iter_mut().enumerate() {
            let sample = self.next_sample();
            rows[i * width..][..width].copy_from_slice(&from_features[sample * width..][..width]);
            if let (Some(ids), Some(from)) = (&mut ids, &split.ids) {
                ids.make_mut::<i64>()[i * width..][..width]
                    .copy_from_slice(&from.slice::<i64>()[sample * width..][..width]);
            }
            *label = from_labels[sample];
        }
        Batch { features, ids, labels }
    }

    /// The epoch, from 0, that the next batch begins in.
    pub fn epoch(&self) -> u64 {
        self.next / self.order.len() as u64
    }

    /// Takes the worker's next sample: its index in the split.
    fn next_sample(&mut self) -> usize {
        let samples = self.order.len() as u64;
        if self.next / samples != self.epoch {
            self.epoch = self.next / samples;
            self.shuffle();
        }
        let sample = self.order[(self.next % samples) as usize];
        self.next += self.workers;
        sample
    }

    /// Draws the permutation of `self.epoch`, which depends on no earlier one.
    fn shuffle(&mut self) {
        for (sample, position) in (0..).zip(&mut self.order) {
            *position = sample;
        }
        self.order.shuffle(&mut random::stream(self.seed, &["data", "epoch", &self.epoch.to_string()]));
    }
}

#[cfg(test)]
mod tests;
