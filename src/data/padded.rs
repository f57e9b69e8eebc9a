//! Sparse samples as rows of one width: shorter samples are filled with features of value 0.

use std::path::Path;

use super::libsvm::{SparseDataset, SparseSample, SparseSplit};
use super::{DataError, Dataset, Split};
use crate::tensor::Tensor;

/// As [`Dataset::libsvm_sparse`].
pub(super) fn libsvm(
    path: &Path,
    test: Option<&Path>,
    rows: usize,
    slots: usize,
    seed: u64,
) -> Result<Dataset, DataError> {
    let dataset = SparseDataset::libsvm(path, test, seed)?;
    let samples = || dataset.train.samples.iter().chain(&dataset.test.samples);
    let fits = |sample: &SparseSample| {
        sample.indices.len() <= slots
            && sample.indices.last().is_none_or(|last| (*last as usize) < rows)
    };
    if let Some(sample) = samples().find(|sample| !fits(sample)) {
        let (most, last) = (sample.indices.len(), sample.indices.last().map_or(0, |last| last + 1));
        let problem = format!(
            "of {most} features up to number {last}, but there are {slots} slots and {rows} rows"
        );
        return Err(DataError::malformed(path, "a sample", problem));
    }
    Ok(Dataset { train: padded(&dataset.train, slots)?, test: padded(&dataset.test, slots)? })
}

fn padded(split: &SparseSplit, slots: usize) -> Result<Split, DataError> {
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    for sample in &split.samples {
        let missing = slots - sample.indices.len();
        ids.extend(
            sample.indices.iter().map(|id| i64::from(*id)).chain(std::iter::repeat_n(0, missing)),
        );
        values.extend(sample.values.iter().copied().chain(std::iter::repeat_n(0.0, missing)));
    }
    let labels: Vec<i32> = split.samples.iter().map(|sample| sample.label).collect();
    sparse_split(&ids, &values, &labels, slots, split.classes)
}

/// A split of samples of `slots` features, of values `values` and numbers `ids`.
pub(super) fn sparse_split(
    ids: &[i64],
    values: &[f32],
    labels: &[i32],
    slots: usize,
    classes: usize,
) -> Result<Split, DataError> {
    let shape = [labels.len(), slots];
    let split =
        Split::new(Tensor::new(shape, values)?, Tensor::new([labels.len()], labels)?, classes)?;
    split.with_ids(Tensor::new(shape, ids)?)
}
