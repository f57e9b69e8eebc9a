//! Sparse samples in memory, and their batches, for models with embeddings.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::DataError;
use super::deal::Deal;
use super::epochs::Epochs;
use super::libsvm::{LibSvm, SparseSample};
use super::samples::held_out;
use super::scale;
use crate::tensor::{Shape, Tensor};

/// A data set of sparse samples in its two parts.
#[derive(Clone, Debug)]
pub struct SparseDataset {
    /// The samples that the workers train on.
    pub train: SparseSplit,
    /// The samples that the model is evaluated on.
    pub test: SparseSplit,
}

/// Sparse samples with their classes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SparseSplit {
    samples: Arc<[SparseSample]>,
    width: usize,
    classes: usize,
    epochs: Epochs,
}

/// Some samples of a [`SparseSplit`], to be fed to a graph.
///
/// Each sample has as many places as the batch's sample with the most features. Unused places have
/// id 0 and value 0, so that a sum of the rows that the ids look up, weighted by the values, is
/// that of the sample's own features.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseBatch {
    /// The numbers of the features, `i64` of shape `[samples, most features]`, in ascending order.
    pub ids: Tensor,
    /// The values of the features, `f32` of the same shape.
    pub values: Tensor,
    /// The classes, `i32` of shape `[samples]`.
    pub labels: Tensor,
}

impl SparseDataset {
    /// Reads a LIBSVM file. Labels are numbered in ascending order. The samples of `test` are for
    /// testing; without it, a fifth of those of `file`, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed.
    pub fn libsvm(file: &Path, test: Option<&Path>, seed: u64) -> Result<Self, DataError> {
        let read = |path: &Path| -> Result<Vec<SparseSample>, DataError> {
            let samples: Vec<SparseSample> = LibSvm::open(path)?.collect::<Result<_, _>>()?;
            let all = samples.iter().flat_map(|of| of.indices.iter().zip(&of.values));
            scale::warn(all.map(|(index, value)| (*index, *value)), |index| {
                format!("{}: feature {}", path.display(), u64::from(index) + 1)
            });
            Ok(samples)
        };
        let (mut train, mut test) = match test {
            Some(test) => (read(file)?, read(test)?),
            None => {
                let all = read(file)?;
                let (train, test) = held_out(all.len(), seed);
                let pick = |positions: Vec<usize>| {
                    positions.iter().map(|sample| all[*sample].clone()).collect()
                };
                (pick(train), pick(test))
            }
        };
        let labels: BTreeSet<i32> = train.iter().chain(&test).map(|sample| sample.label).collect();
        for sample in train.iter_mut().chain(&mut test) {
            sample.label = labels.range(..sample.label).count() as i32;
        }
        let last = |sample: &SparseSample| sample.indices.last().copied();
        let width =
            train.iter().chain(&test).filter_map(last).max().map_or(0, |last| last as usize + 1);
        let split = |samples: Vec<SparseSample>| SparseSplit {
            samples: samples.into(),
            width,
            classes: labels.len(),
            epochs: Epochs::default(),
        };
        Ok(Self { train: split(train), test: split(test) })
    }
}

impl SparseSplit {
    /// The samples, with the numbers of their classes as labels.
    pub fn samples(&self) -> &[SparseSample] {
        &self.samples
    }

    /// The number of features that a sample can have.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All samples, in the order of the data set.
    pub fn whole(&self) -> SparseBatch {
        batch(&self.samples.iter().collect::<Vec<_>>())
    }
}

/// Endless shuffled batches of one worker's share of a sparse split: the same samples, in the same
/// order, as [`Batches`](super::Batches) takes from the dense form of the split.
#[derive(Clone, Debug)]
pub struct SparseBatches {
    split: SparseSplit,
    deal: Deal,
    size: usize,
}

impl SparseBatches {
    /// Creates the batches of `worker`, one of `workers`, of `size` samples each.
    ///
    /// # Errors
    /// If the split, the batch or the number of workers is zero, or there is no such `worker`.
    pub fn new(
        split: SparseSplit,
        seed: u64,
        worker: u32,
        workers: u32,
        size: usize,
    ) -> Result<Self, DataError> {
        let samples = split.samples.len();
        let deal = Deal::new(samples, &split.epochs, seed, worker, workers, size)?;
        Ok(Self { split, deal, size })
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> SparseBatch {
        let samples: Vec<&SparseSample> =
            (0..self.size).map(|_| &self.split.samples[self.deal.next_sample()]).collect();
        batch(&samples)
    }

    /// The epoch, from 0, in which the next batch begins.
    pub fn epoch(&self) -> u64 {
        self.deal.epoch()
    }
}

fn batch(samples: &[&SparseSample]) -> SparseBatch {
    let widest = samples.iter().map(|sample| sample.indices.len()).max().unwrap_or(0);
    let mut ids = vec![0; samples.len() * widest];
    let mut values = vec![0.0; ids.len()];
    for (row, sample) in samples.iter().enumerate() {
        let begin = row * widest;
        ids[begin..]
            .iter_mut()
            .zip(&sample.indices)
            .for_each(|(id, index)| *id = i64::from(*index));
        values[begin..][..sample.values.len()].copy_from_slice(&sample.values);
    }
    let labels: Vec<i32> = samples.iter().map(|sample| sample.label).collect();
    let shape = Shape::from([samples.len(), widest]);
    SparseBatch {
        ids: Tensor::new(shape, &ids).expect("an id for each place"),
        values: Tensor::new(shape, &values).expect("a value for each place"),
        labels: Tensor::new([labels.len()], &labels).expect("a label a sample"),
    }
}
