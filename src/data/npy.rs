//! NumPy's `.npy` files, versions 1 to 3: one array of numbers in C order.

use std::path::Path;

use super::file::{self, MOST_VALUES};
use super::samples::Samples;
use super::{DataError, Dataset};

/// An array as read from its file.
struct Array {
    shape: Vec<usize>,
    values: Values,
}

/// The numbers in the type of their use: floats for features, integers for labels.
enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

/// The paths of the features and of the labels.
pub(super) type Files<'a> = (&'a Path, &'a Path);

/// Reads the data set of `train`, its features and its labels. `test` is for testing, if it is
/// given, else a fifth of `train`, drawn by `seed`. Unsigned bytes are read as pixels, and scaled
/// to 0 to 1.
pub(super) fn load(
    train: Files<'_>,
    test: Option<Files<'_>>,
    seed: u64,
) -> Result<Dataset, DataError> {
    let (samples, width) = samples(train)?;
    let test = match test {
        Some(files) => {
            let (test, test_width) = self::samples(files)?;
            if test_width != width {
                let problem = format!(
                    "{test_width} features a sample, where those for training have {width}"
                );
                return Err(DataError::malformed(files.0, "the shape", problem));
            }
            Some(test)
        }
        None => None,
    };
    samples.into_dataset(test, width, seed)
}

fn samples((features, labels): Files<'_>) -> Result<(Samples, usize), DataError> {
    let (of_features, of_labels) = (read(features, true)?, read(labels, false)?);
    let (rows, width) = match of_features.shape.as_slice() {
        [] => {
            return Err(DataError::malformed(
                features,
                "the shape",
                "one number is no table of features".to_owned(),
            ));
        }
        [rows, sample @ ..] => (*rows, sample.iter().product()),
    };
    if of_labels.shape != [rows] {
        let problem = format!("{:?} is not one label for each of {rows} samples", of_labels.shape);
        return Err(DataError::malformed(labels, "the shape", problem));
    }
    let Values::Integers(numbers) = of_labels.values else {
        return Err(DataError::malformed(labels, "the type", "labels are integers".to_owned()));
    };
    let features = match of_features.values {
        Values::Floats(floats) => floats,
        Values::Integers(integers) => integers.into_iter().map(|value| value as f32).collect(),
    };
    let label = |(index, number): (usize, i64)| {
        let problem = || {
            DataError::malformed(
                labels,
                &format!("element {index}"),
                format!("{number} is no label"),
            )
        };
        i32::try_from(number).map_err(|_| problem())
    };
    let labels = numbers.into_iter().enumerate().map(label).collect::<Result<_, _>>()?;
    Ok((Samples { features, labels }, width))
}

fn read(path: &Path, scales_bytes: bool) -> Result<Array, DataError> {
    let mut file = file::open(path)?;
    let unreadable = |source| DataError::Unreadable { file: path.display().to_string(), source };
    let start = file::read(&mut *file, 8).map_err(unreadable)?;
    let length_bytes = match start.strip_prefix(b"\x93NUMPY") {
        Some([1, _]) => 2,
        Some([2 | 3, _]) => 4,
        _ => {
            return Err(DataError::malformed(
                path,
                "bytes 0 to 7",
                "no NumPy array of version 1 to 3".to_owned(),
            ));
        }
    };
    let mut length = [0; 4];
    length[..length_bytes]
        .copy_from_slice(&file::read(&mut *file, length_bytes).map_err(unreadable)?);
    let header = file::read(&mut *file, u32::from_le_bytes(length).min(1 << 16) as usize)
        .map_err(unreadable)?;
    let in_header = |problem| DataError::malformed(path, "the header", problem);
    let header = Header::parse(&String::from_utf8_lossy(&header)).map_err(in_header)?;
    let bytes = file::read(&mut *file, header.count * header.kind.size()).map_err(unreadable)?;
    if !file::is_at_end(&mut *file).map_err(unreadable)? {
        return Err(DataError::malformed(
            path,
            "the end",
            format!("more follows than the values of {:?}", header.shape),
        ));
    }
    Ok(Array { values: header.kind.values(&bytes, scales_bytes), shape: header.shape })
}

/// The element types that can be read.
#[derive(Clone, Copy)]
enum Kind {
    F32,
    F64,
    I32,
    I64,
    U8,
    Bool,
}

impl Kind {
    fn of(descr: &str) -> Result<Self, String> {
        Ok(match descr {
            "<f4" => Self::F32,
            "<f8" => Self::F64,
            "<i4" => Self::I32,
            "<i8" => Self::I64,
            "|u1" => Self::U8,
            "|b1" => Self::Bool,
            other => {
                return Err(format!(
                    "the type `{other}` is none of <f4, <f8, <i4, <i8, |u1 and |b1"
                ));
            }
        })
    }

    fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::U8 | Self::Bool => 1,
        }
    }

    fn values(self, bytes: &[u8], scales_bytes: bool) -> Values {
        let (fours, eights) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
        match self {
            Self::F32 => Values::Floats(fours.iter().map(|b| f32::from_le_bytes(*b)).collect()),
            Self::F64 => {
                Values::Floats(eights.iter().map(|b| f64::from_le_bytes(*b) as f32).collect())
            }
            Self::I32 => {
                Values::Integers(fours.iter().map(|b| i32::from_le_bytes(*b).into()).collect())
            }
            Self::I64 => Values::Integers(eights.iter().map(|b| i64::from_le_bytes(*b)).collect()),
            Self::U8 if scales_bytes => {
                Values::Floats(bytes.iter().map(|b| f32::from(*b) / 255.0).collect())
            }
            Self::U8 | Self::Bool => Values::Integers(bytes.iter().map(|b| (*b).into()).collect()),
        }
    }
}

/// An array's header, which is a Python dictionary.
struct Header {
    kind: Kind,
    shape: Vec<usize>,
    count: usize,
}

impl Header {
    fn parse(text: &str) -> Result<Self, String> {
        let after = |key: &str| {
            let rest = text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
            rest.ok_or_else(|| format!("no `{key}`"))
        };
        let quoted = |rest: &str| {
            rest.strip_prefix('\'')?.split_once('\'').map(|(descr, _)| descr.to_owned())
        };
        let descr = quoted(after("descr")?).ok_or("its `descr` is no type of one number")?;
        if !after("fortran_order")?.starts_with("False") {
            return Err(
                "the array is in Fortran order; save it with numpy.ascontiguousarray".to_owned()
            );
        }
        let dims = after("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (dims, _) = dims.ok_or("its `shape` is no tuple")?;
        let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape: Vec<usize> = dims
            .map(|dim| dim.parse().map_err(|_| format!("`{dim}` is no size")))
            .collect::<Result<_, _>>()?;
        let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
        let count = count.filter(|count| *count <= MOST_VALUES);
        let count = count.ok_or_else(|| format!("{shape:?} are more than {MOST_VALUES} values"))?;
        Ok(Self { kind: Kind::of(&descr)?, shape, count })
    }
}
