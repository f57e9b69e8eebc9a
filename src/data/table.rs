//! CSV files: a header, a column of labels, and numbers in all others.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::MOST_VALUES;
use super::pipeline::Source;
use super::rows::{Columns, Rows};
use super::samples::Samples;
use super::{DataError, Dataset, glob, scale};

/// The greatest label that is a class's number: each class has weights of its own.
const GREATEST: u16 = u16::MAX;

/// A file as read: the features, and each label as it is written.
struct Table {
    columns: Columns,
    features: Vec<f32>,
    labels: Vec<String>,
    /// The error of the first label above [`GREATEST`], if labels are the classes' numbers.
    too_great: Option<DataError>,
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
    if let Some((of_test, test)) = &test {
        check_alike((path, &train), (of_test, test), label)?;
    }
    let test = test.map(|(_, test)| test);
    let labels = train.labels.iter().chain(test.iter().flat_map(|test| &test.labels));
    let names: BTreeSet<String> = labels.cloned().collect();
    check_are_classes(path, label, &names)?;
    let are_numbers = names.iter().all(|name| is_whole(name));
    let number = |label: &String| -> i32 {
        if are_numbers {
            return label.parse::<u16>().map_or(0, i32::from);
        }
        names.range::<String, _>(..label).count() as i32
    };
    let samples = |table: Table| match table.too_great {
        Some(error) if are_numbers => Err(error),
        _ => Ok(Samples {
            labels: table.labels.iter().map(number).collect(),
            features: table.features,
        }),
    };
    let width = train.columns.width();
    samples(train)?.into_dataset(test.map(samples).transpose()?, width, seed)
}

/// Checks that the file `test` has the features of `train`, and a label that `train` has.
fn check_alike(
    (of_train, train): (&Path, &Table),
    (of_test, test): (&Path, &Table),
    label: &str,
) -> Result<(), DataError> {
    test.columns.check_like(&train.columns)?;
    let (Some(first), Some(trained)) = (test.labels.first(), train.labels.first()) else {
        return Ok(());
    };
    let known: BTreeSet<&String> = train.labels.iter().collect();
    if test.labels.iter().any(|label| known.contains(label)) {
        return Ok(());
    }
    let problem = format!(
        "none of the labels, such as `{first}`, is in {}, which has labels such as `{trained}`: no \
         sample could be told right; write both files' labels alike",
        of_train.display()
    );
    Err(DataError::mistaken(of_test, &format!("column `{label}`"), problem))
}

/// Checks that the labels are no measurements: numbers of which one has decimals.
fn check_are_classes(path: &Path, label: &str, names: &BTreeSet<String>) -> Result<(), DataError> {
    let number = |name: &String| name.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Option<Vec<f64>> = names.iter().map(number).collect();
    let fraction = numbers.and_then(|numbers| numbers.into_iter().find(|n| n.fract() != 0.0));
    let Some(fraction) = fraction else { return Ok(()) };
    let problem = format!(
        "the labels, such as {fraction}, are numbers, not classes: trainyard classifies; name the \
         column of the classes, or write a class for each range of numbers"
    );
    Err(DataError::mistaken(path, &format!("column `{label}`"), problem))
}

/// Whether `label` is a whole number from 0, however large.
fn is_whole(label: &str) -> bool {
    let digits = label.strip_prefix('+').unwrap_or(label);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn read(path: &Path, label: &str) -> Result<Table, DataError> {
    if glob::is_pattern(path) && !path.exists() {
        let problem = "files by a pattern are read as they are used, which needs `classes = N`, \
                       and `test = \"FILES\"`"
            .to_owned();
        return Err(DataError::mistaken(path, "the name", problem));
    }
    let mut rows = Rows::open(path, label)?;
    let (features, labels) = (Vec::new(), Vec::new());
    let mut table = Table { columns: rows.columns(), features, labels, too_great: None };
    while let Some(mut row) = rows.next()? {
        table.features.append(&mut row.features);
        // A label is a text of its own.
        if table.features.len() + 16 * (table.labels.len() + 1) > MOST_VALUES {
            return Err(row.malformed(format!("more than {MOST_VALUES} values")));
        }
        if table.too_great.is_none() && is_whole(&row.label) && row.label.parse::<u16>().is_err() {
            let problem = format!(
                "the label {} is too large for a class's number, which is at most {GREATEST}: \
                 number the classes from 0, or write names",
                row.label
            );
            table.too_great = Some(row.mistaken(problem));
        }
        table.labels.push(row.label);
    }
    scale::warn(table.features.iter().copied().enumerate(), |at| table.columns.place(at));
    Ok(table)
}
