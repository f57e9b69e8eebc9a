//! Decides which samples a worker takes, and in what order; knows nothing of the samples
//! themselves.

use rand::Rng;

use super::DataError;
use super::epochs::{Epochs, Order};
use super::skew::Share;
use crate::random;

/// One worker's share of the epochs over some samples.
///
/// An epoch is a permutation of all samples, drawn from the seed and the epoch's number. The
/// epochs, one after the other, are dealt to the workers like cards, one sample each in turn.
#[derive(Clone, Debug)]
pub(super) struct Deal {
    samples: u64,
    seed: u64,
    worker: u64,
    workers: u64,
    /// The worker's next sample, counted from the beginning of epoch 0 over all workers' samples.
    next: u64,
    epochs: Epochs,
    /// The worker's own samples, which the epochs are then over; none if they are over all.
    share: Option<Share>,
    /// The epoch of the last sample taken, and its order.
    under_way: Option<(u64, Order)>,
}

impl Deal {
    /// Creates the share of `worker`, one of `workers`, of `samples` samples in the order of
    /// `epochs`, for batches of `batch`.
    ///
    /// # Errors
    /// If a count is zero, or there is no such `worker`.
    pub(super) fn new(
        samples: usize,
        epochs: &Epochs,
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
        let (worker, workers) = (u64::from(worker), u64::from(workers));
        Ok(Self {
            samples: samples as u64,
            seed,
            worker,
            workers,
            next: worker,
            epochs: epochs.clone(),
            share: None,
            under_way: None,
        })
    }

    /// Creates the epochs of `worker` over its own `share`, for batches of `batch`.
    ///
    /// # Errors
    /// If a count is zero.
    pub(super) fn of_share(
        share: Share,
        seed: u64,
        worker: u32,
        batch: usize,
    ) -> Result<Self, DataError> {
        let mut draws = random::stream(seed, &["data", "share", &worker.to_string()]);
        let whole = Self::new(share.len(), &Epochs::default(), draws.next_u64(), 0, 1, batch)?;
        Ok(Self { share: Some(share), ..whole })
    }

    /// The epoch, from 0, of the worker's next sample.
    pub(super) fn epoch(&self) -> u64 {
        self.next / self.samples
    }

    /// Moves to the position after the worker's first `samples` samples.
    pub(super) fn seek(&mut self, samples: u64) {
        self.next = self.worker + samples * self.workers;
    }

    /// Takes the worker's next sample and returns its index among all samples.
    pub(super) fn next_sample(&mut self) -> usize {
        let (epoch, position) = (self.next / self.samples, (self.next % self.samples) as usize);
        self.next += self.workers;
        let sample = match &self.under_way {
            Some((of, order)) if *of == epoch => order[position],
            _ => {
                let order = self.epochs.order(self.samples as usize, self.seed, epoch);
                self.under_way.insert((epoch, order)).1[position]
            }
        };
        self.share.as_ref().map_or(sample, |share| share[sample])
    }
}
