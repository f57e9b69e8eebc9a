//! CSV files: a header, a column of labels, and numbers in all others.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::MOST_VALUES;
use super::pipeline::Source;
use super::rows::Rows;
use super::samples::Samples;
use super::{DataError, Dataset};

/// A file as read: the features, and each label as it is written.
struct Table {
    width: usize,
    features: Vec<f32>,
    labels: Vec<String>,
}

/// Reads the data set in `path`, whose column `label` has the class. The samples of `test` are for
/// testing, if it is given, else a fifth of those of `path`, drawn by `seed`.
///
/// Labels that are all whole numbers from 0 are the classes' numbers; others are numbered in
/// alphabetical order.
pub(super) fn load(
    path: &Path,
    label: &str,
    test: Option<&Path>,
    seed: u64,
) -> Result<Dataset, DataError> {
    let train = read(path, label)?;
    let test = test.map(|path| Ok::<_, DataError>((path, read(path, label)?))).transpose()?;
    if let Some((path, test)) = &test
        && test.width != train.width
    {
        let problem =
            format!("{} features, where the file for training has {}", test.width, train.width);
        return Err(DataError::malformed(path, "the header", problem));
    }
    let test = test.map(|(_, test)| test);
    let labels = train.labels.iter().chain(test.iter().flat_map(|test| &test.labels));
    let names: BTreeSet<String> = labels.cloned().collect();
    let number = |label: &String| -> i32 {
        let is_number = |name: &String| name.parse::<u16>().is_ok();
        if names.iter().all(is_number) {
            return label.parse::<u16>().map_or(0, i32::from);
        }
        names.range::<String, _>(..label).count() as i32
    };
    let samples = |table: Table| Samples {
        labels: table.labels.iter().map(number).collect(),
        features: table.features,
    };
    let width = train.width;
    samples(train).into_dataset(test.map(samples), width, seed)
}

fn read(path: &Path, label: &str) -> Result<Table, DataError> {
    let mut rows = Rows::open(path, label)?;
    let mut table = Table { width: rows.width(), features: Vec::new(), labels: Vec::new() };
    while let Some(mut row) = rows.next()? {
        table.features.append(&mut row.features);
        // A label is a text of its own.
        if table.features.len() + 16 * (table.labels.len() + 1) > MOST_VALUES {
            return Err(row.malformed(format!("more than {MOST_VALUES} values")));
        }
        table.labels.push(row.label);
    }
    Ok(table)
}
