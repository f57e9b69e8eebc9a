//! LIBSVM files (Chang and Lin): a sparse sample a line.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use super::file::{self, MOST_VALUES};
use super::samples::{Samples, held_out};
use super::{DataError, Dataset, scale};

/// A data set of sparse samples in its two parts.
pub(super) struct SparseDataset {
    /// The samples that the workers train on.
    pub(super) train: SparseSplit,
    /// The samples that the model is evaluated on.
    pub(super) test: SparseSplit,
}

/// Sparse samples with their classes.
pub(super) struct SparseSplit {
    /// The samples, with the numbers of their classes as labels.
    pub(super) samples: Vec<SparseSample>,
    /// The number of features that a sample can have.
    pub(super) width: usize,
    /// The number of classes.
    pub(super) classes: usize,
}

/// A sparse sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SparseSample {
    /// The label as the file has it: a class's number, or -1 and 1.
    pub(super) label: i32,
    /// The numbers of its features, from 0, in ascending order. The file counts from 1.
    pub(super) indices: Vec<u32>,
    /// The values of these features.
    pub(super) values: Vec<f32>,
}

/// The samples of a LIBSVM file, one after the other. After an error there are no more.
pub(super) struct LibSvm {
    file: String,
    lines: Option<Box<dyn BufRead + Send>>,
    text: String,
    line: usize,
    /// The values of the samples so far, and what each sample takes besides.
    values: usize,
}

impl LibSvm {
    /// Opens the file at `path`, gzipped or not.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let lines = Some(file::open_text(path)?);
        let text = String::new();
        Ok(Self { file: path.display().to_string(), lines, text, line: 0, values: 0 })
    }

    /// Reads the next sample; `None` at the end.
    fn read(&mut self, lines: &mut dyn BufRead) -> Result<Option<SparseSample>, DataError> {
        loop {
            self.text.clear();
            self.line += 1;
            let unreadable = |source| DataError::Unreadable { file: self.file.clone(), source };
            if lines.read_line(&mut self.text).map_err(unreadable)? == 0 {
                return Ok(None);
            }
            let content = self.text.split('#').next().unwrap_or_default().trim();
            if !content.is_empty() {
                let place = || format!("line {}", self.line);
                let malformed = |problem| DataError::Malformed {
                    file: self.file.clone(),
                    place: place(),
                    problem,
                };
                let sample = parse(content).map_err(malformed)?;
                self.values += 16 + 2 * sample.indices.len();
                if self.values > MOST_VALUES {
                    return Err(malformed(format!("more than {MOST_VALUES} values")));
                }
                return Ok(Some(sample));
            }
        }
    }
}

impl Iterator for LibSvm {
    type Item = Result<SparseSample, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut lines = self.lines.take()?;
        let read = self.read(&mut *lines);
        if matches!(read, Ok(Some(_))) {
            self.lines = Some(lines);
        }
        read.transpose()
    }
}

/// Parses a line such as `1 3:0.5 7:1`.
fn parse(line: &str) -> Result<SparseSample, String> {
    let mut fields = line.split_ascii_whitespace();
    let label = fields.next().unwrap_or_default();
    let number: f64 = label.parse().map_err(|_| format!("`{label}` is no label"))?;
    if number.fract() != 0.0 || number.abs() > f64::from(i32::MAX) {
        return Err(format!("the label {label} is no class"));
    }
    let mut sample = SparseSample { label: number as i32, indices: Vec::new(), values: Vec::new() };
    for field in fields {
        let parts = field
            .split_once(':')
            .and_then(|(index, value)| Some((index.parse().ok()?, value.parse().ok()?)));
        let (index, value): (u32, f32) = parts
            .filter(|(_, value): &(u32, f32)| value.is_finite())
            .ok_or_else(|| format!("`{field}` is no index:value"))?;
        let index =
            index.checked_sub(1).ok_or_else(|| format!("`{field}`: features count from 1"))?;
        if sample.indices.last().is_some_and(|last| *last >= index) {
            return Err(format!("`{field}` comes after a feature of the same or a greater index"));
        }
        sample.indices.push(index);
        sample.values.push(value);
    }
    Ok(sample)
}

impl SparseDataset {
    /// Reads a LIBSVM file. Labels are numbered in ascending order. The samples of `test` are for
    /// testing; without it, a fifth of those of `file`, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed.
    pub(super) fn libsvm(file: &Path, test: Option<&Path>, seed: u64) -> Result<Self, DataError> {
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
        let split = |samples| SparseSplit { samples, width, classes: labels.len() };
        Ok(Self { train: split(train), test: split(test) })
    }
}

/// Reads [`SparseDataset::libsvm`] densely, with every feature in its place and absent ones 0.
pub(super) fn load(path: &Path, test: Option<&Path>, seed: u64) -> Result<Dataset, DataError> {
    let SparseDataset { train, test } = SparseDataset::libsvm(path, test, seed)?;
    let (width, classes) = (train.width, train.classes);
    let count = train.samples.len() + test.samples.len();
    if width.saturating_mul(count) > MOST_VALUES {
        let problem = format!("{count} samples of {width} features are too many to be dense");
        return Err(DataError::malformed(path, "the whole", problem));
    }
    let dense = |split: &SparseSplit| {
        let mut features = vec![0.0; split.samples.len() * width];
        for (row, sample) in features.chunks_exact_mut(width.max(1)).zip(&split.samples) {
            sample
                .indices
                .iter()
                .zip(&sample.values)
                .for_each(|(index, value)| row[*index as usize] = *value);
        }
        let labels = split.samples.iter().map(|sample| sample.label).collect();
        Samples { features, labels }.into_split(width, classes)
    };
    Ok(Dataset { train: dense(&train)?, test: dense(&test)? })
}
