//! CSV files: a header, a column of labels, and numbers in all others.

use std::collections::BTreeSet;
use std::path::Path;

use csv::StringRecord;

use super::file::{self, MOST_VALUES};
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
    // A line ends at its newline alone, and a carriage return before it is trimmed: a terminator of
    // two bytes would be counted with the line after it.
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .terminator(csv::Terminator::Any(b'\n'))
        .flexible(true)
        .from_reader(file::open_text(path)?);
    let in_csv = |error: csv::Error| {
        let line = error
            .position()
            .map_or_else(|| "the file".to_owned(), |at| format!("line {}", at.line()));
        DataError::malformed(path, &line, error.to_string())
    };
    let header = reader.headers().map_err(in_csv)?.clone();
    let Some(column) = header.iter().position(|name| name == label) else {
        let columns: Vec<&str> = header.iter().collect();
        return Err(DataError::malformed(
            path,
            "the header",
            format!("no column `{label}`; it has {}", columns.join(", ")),
        ));
    };
    let mut table = Table { width: header.len() - 1, features: Vec::new(), labels: Vec::new() };
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(in_csv)? {
        if row.iter().all(str::is_empty) {
            continue;
        }
        let line = row.position().map_or(0, csv::Position::line);
        if row.len() != header.len() {
            let problem = format!("{} fields, where the header has {}", row.len(), header.len());
            return Err(DataError::malformed(path, &format!("line {line}"), problem));
        }
        for (index, field) in row.iter().enumerate().filter(|(index, _)| *index != column) {
            let number = field.parse().ok().filter(|number: &f32| number.is_finite());
            let malformed = || {
                let place = format!("line {line}, column `{}`", &header[index]);
                DataError::malformed(path, &place, format!("`{field}` is no number"))
            };
            table.features.push(number.ok_or_else(malformed)?);
        }
        table.labels.push(row[column].to_owned());
        // A label is a text of its own.
        if table.features.len() + 16 * table.labels.len() > MOST_VALUES {
            return Err(DataError::malformed(
                path,
                &format!("line {line}"),
                format!("more than {MOST_VALUES} values"),
            ));
        }
    }
    Ok(table)
}
