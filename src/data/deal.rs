//! Decides which samples a worker takes, and in what order; knows nothing of the samples
//! themselves.

use rand::seq::SliceRandom;

use super::DataError;
use crate::random;

/// One worker's share of the epochs over some samples.
///
/// An epoch is a permutation of all samples, drawn from the seed and the epoch's number. The
/// epochs, one after the other, are dealt to the workers like cards, one sample each in turn.
#[derive(Clone, Debug)]
pub(super) struct Deal {
    seed: u64,
    worker: u64,
    workers: u64,
    /// The worker's next sample, counted from the beginning of epoch 0 over all workers' samples.
    next: u64,
    /// The epoch of the last sample taken.
    epoch: u64,
    /// The permutation of that epoch.
    order: Vec<usize>,
}

impl Deal {
    /// Creates the share of `worker`, one of `workers`, of `samples` samples, for batches of
    /// `batch`.
    ///
    /// # Errors
    /// If a count is zero, or there is no such `worker`.
    pub(super) fn new(
        samples: usize,
        seed: u64,
        worker: u32,
        workers: u32,
        batch: usize,
    ) -> Result<Self, DataError> {
        let counts =
            [(samples, "samples"), (batch, "samples in a batch"), (workers as usize, "workers")];
        if let Some((_, what)) = counts.into_iter().find(|(count, _)| *count == 0) {
            return Err(DataError::Empty { what });
        }
        if worker >= workers {
            return Err(DataError::NoSuchWorker { worker, workers });
        }
        let (worker, workers, order) = (u64::from(worker), u64::from(workers), vec![0; samples]);
        let mut deal = Self { seed, worker, workers, next: worker, epoch: 0, order };
        deal.shuffle();
        Ok(deal)
    }

    /// The epoch, from 0, of the worker's next sample.
    pub(super) fn epoch(&self) -> u64 {
        self.next / self.order.len() as u64
    }

    /// Moves to the position after the worker's first `samples` samples.
    pub(super) fn seek(&mut self, samples: u64) {
        self.next = self.worker + samples * self.workers;
    }

    /// Takes the worker's next sample and returns its index among all samples.
    pub(super) fn next_sample(&mut self) -> usize {
        let samples = self.order.len() as u64;
        if self.next / samples != self.epoch {
            self.epoch = self.next / samples;
            self.shuffle();
        }
        let sample = self.order[(self.next % samples) as usize];
        self.next += self.workers;
        sample
    }

    /// Draws the permutation of `self.epoch`, which does not depend on earlier ones.
    fn shuffle(&mut self) {
        for (sample, position) in (0..).zip(&mut self.order) {
            *position = sample;
        }
        self.order
            .shuffle(&mut random::stream(self.seed, &["data", "epoch", &self.epoch.to_string()]));
    }
}
