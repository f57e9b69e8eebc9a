//! NumPy's arrays of numbers, in files of their own (`.npy`, versions 1 to 3) or several in one
//! (`.npz`).

mod array;
mod array_location;
mod header;

use std::path::Path;

use array::{Array, Values};
use array_location::ArrayLocation;

use super::samples::Samples;
use super::{DataError, Dataset, scale};

/// The paths of the features and of the labels.
pub(super) type Files<'a> = (&'a Path, &'a Path);

/// The names of the features and of the labels in an archive.
pub(super) type Names<'a> = (&'a str, &'a str);

/// Where the features and where the labels are.
type Pair<'a> = (ArrayLocation<'a>, ArrayLocation<'a>);

/// Reads the data set of `train`, its features and its labels. `test` is for testing, if it is
/// given, else a fifth of `train`, drawn by `seed`. Unsigned bytes are read as pixels, and scaled
/// to 0 to 1.
pub(super) fn load(
    train: Files<'_>,
    test: Option<Files<'_>>,
    seed: u64,
) -> Result<Dataset, DataError> {
    let files = |(features, labels)| (ArrayLocation::file(features), ArrayLocation::file(labels));
    dataset(files(train), test.map(files), seed)
}

/// Reads the data set of the arrays `train` in the archive at `path`, as [`load`].
pub(super) fn load_archive(
    path: &Path,
    train: Names<'_>,
    test: Option<Names<'_>>,
    seed: u64,
) -> Result<Dataset, DataError> {
    let names =
        |(features, labels)| (ArrayLocation::of(path, features), ArrayLocation::of(path, labels));
    dataset(names(train), test.map(names), seed)
}

fn dataset(train: Pair<'_>, test: Option<Pair<'_>>, seed: u64) -> Result<Dataset, DataError> {
    let (samples, shape) = samples(train)?;
    let width = shape.iter().product();
    let test = match test {
        Some(pair) => {
            let (test, of_test) = self::samples(pair)?;
            let test_width: usize = of_test.iter().product();
            if test_width != width {
                let problem = format!(
                    "{test_width} features a sample, where those for training have {width}"
                );
                return Err(pair.0.malformed("the shape", problem));
            }
            Some(test)
        }
        None => None,
    };
    let dataset = samples.into_dataset(test, width, seed)?;
    match image(&shape) {
        Some(image) => dataset.of_images(image),
        None => Ok(dataset),
    }
}

/// The height, width and channels of the samples of an array of `shape`, if they may be images.
fn image(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [height, width] => Some([height, width, 1]),
        [height, width, channels] => Some([height, width, channels]),
        _ => None,
    }
}

/// The samples, and the shape of one.
fn samples((features, labels): Pair<'_>) -> Result<(Samples, Vec<usize>), DataError> {
    let (of_features, of_labels) = (Array::read(features, true)?, Array::read(labels, false)?);
    let (rows, sample) = match of_features.shape.as_slice() {
        [] => {
            let problem = "one number is no table of features".to_owned();
            return Err(features.malformed("the shape", problem));
        }
        [rows, sample @ ..] => (*rows, sample.to_vec()),
    };
    let width: usize = sample.iter().product();
    if of_labels.shape != [rows] {
        let next = match *of_labels.shape {
            [labelled, 1] if labelled == rows => "; make them so with `.ravel()`",
            [labelled, _] if labelled == rows => {
                "; of a column for each class, `.argmax(axis=1)` makes the class's number"
            }
            _ => "",
        };
        let shape = &of_labels.shape;
        let problem = format!("{shape:?} is not one label for each of {rows} samples{next}");
        return Err(labels.malformed("the shape", problem));
    }
    let Values::Integers(numbers) = of_labels.values else {
        let next = "labels are integers, the classes' numbers from 0; make them so with \
                    `.astype(int)`";
        return Err(labels.mistaken("the type", next.to_owned()));
    };
    let values: Vec<f32> = match of_features.values {
        Values::Floats(floats) => floats,
        Values::Integers(integers) => integers.into_iter().map(|value| value as f32).collect(),
    };
    check_finite(features, &values, width)?;
    scale::warn(values.iter().copied().enumerate(), |at| {
        features.place(&format!("feature {}", at % width))
    });
    let label = |(index, number): (usize, i64)| {
        let problem = || {
            let problem = format!("{number} is no label: labels are from 0 to below {}", i32::MAX);
            labels.malformed(&format!("element {index}"), problem)
        };
        // Labels stay below the number of classes, which is an i32 too.
        let label = i32::try_from(number).ok().filter(|label| (0..i32::MAX).contains(label));
        label.ok_or_else(problem)
    };
    let labels = numbers.into_iter().enumerate().map(label).collect::<Result<_, _>>()?;
    Ok((Samples { features: values, labels }, sample))
}

/// Checks that the `values` of samples of `width` can be computed with; samples and features count
/// from 0, as in NumPy.
fn check_finite(array: ArrayLocation<'_>, values: &[f32], width: usize) -> Result<(), DataError> {
    let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
    let problem = match values[at].is_nan() {
        true => "NaN is no number: fill it in, or leave the sample out".to_owned(),
        false => format!(
            "it is too large for a float of 32 bits, which ends at {:e}: scale the feature, or \
             leave the sample out",
            f32::MAX
        ),
    };
    Err(array.malformed(&format!("sample {}, feature {}", at / width, at % width), problem))
}

#[cfg(test)]
mod tests;
