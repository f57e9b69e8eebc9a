//! Rows of features and their labels, from which splits are made.

use rand::seq::SliceRandom;

use super::{DataError, Dataset, Split};
use crate::random;
use crate::tensor::Tensor;

/// One sample in this many is for testing, if a data set has no test part.
const HELD_OUT: usize = 5;

/// Rows of equal width, and the label of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub(super) features: Vec<f32>,
    pub(super) labels: Vec<i32>,
}

impl Samples {
    /// Makes a split of rows of `width`, with `classes` classes.
    pub(super) fn into_split(self, width: usize, classes: usize) -> Result<Split, DataError> {
        let count = self.labels.len();
        Split::new(
            Tensor::new([count, width], &self.features)?,
            Tensor::new([count], &self.labels)?,
            classes,
        )
    }

    /// Makes a data set with these samples for training and `test` for testing; without it, a fifth
    /// of these samples, drawn by `seed`, is for testing.
    pub(super) fn into_dataset(
        self,
        test: Option<Self>,
        width: usize,
        seed: u64,
    ) -> Result<Dataset, DataError> {
        let (train, test) = match test {
            Some(test) => (self, test),
            None => self.hold_out(width, seed),
        };
        let labels = train.labels.iter().chain(&test.labels);
        let classes = labels.max().map_or(0, |greatest| greatest.saturating_add(1).max(0) as usize);
        Ok(Dataset {
            train: train.into_split(width, classes)?,
            test: test.into_split(width, classes)?,
        })
    }

    fn hold_out(&self, width: usize, seed: u64) -> (Self, Self) {
        let (train, test) = held_out(self.labels.len(), seed);
        (self.pick(&train, width), self.pick(&test, width))
    }

    /// The samples at `positions`.
    fn pick(&self, positions: &[usize], width: usize) -> Self {
        let rows = positions.iter().flat_map(|sample| &self.features[sample * width..][..width]);
        Self {
            features: rows.copied().collect(),
            labels: positions.iter().map(|sample| self.labels[*sample]).collect(),
        }
    }
}

/// Divides `samples` samples into those for training and those for testing, both in their original
/// order: the shuffle by `seed` only selects.
pub(super) fn held_out(samples: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..samples).collect();
    order.shuffle(&mut random::stream(seed, &["data", "hold out"]));
    let mut train = order.split_off(samples / HELD_OUT);
    train.sort_unstable();
    order.sort_unstable();
    (train, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_held_out_by_seed_and_no_sample_is_in_both_parts() {
        let samples =
            || Samples { features: (0..40).map(|i| i as f32).collect(), labels: (0..20).collect() };
        let parts = |seed| {
            let dataset = samples().into_dataset(None, 2, seed).unwrap();
            [dataset.train, dataset.test].map(|split| split.whole())
        };
        let [train, test] = parts(1);
        let labels = |batch: &super::super::Batch| batch.labels.values::<i32>().unwrap().to_vec();
        assert_eq!((labels(&train).len(), labels(&test).len()), (16, 4));
        let mut all = [labels(&train), labels(&test)].concat();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        let rows = test.features.values::<f32>().unwrap();
        labels(&test)
            .iter()
            .zip(rows.chunks(2))
            .for_each(|(label, row)| assert_eq!(row[0], 2.0 * *label as f32));
        assert_eq!(labels(&parts(1)[1]), labels(&test));
        assert_ne!(labels(&parts(2)[1]), labels(&test));
    }
}
