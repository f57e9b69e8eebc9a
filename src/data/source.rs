//! The source of a data set's samples, as a scenario gives it.

mod overlap;
mod streamed;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};

use super::stream::Stream;
use super::{DataError, Dataset};

/// A source of samples. If it names none for testing, a fifth is held out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The handwritten digits in this program.
    Digits,
    /// Samples drawn from the seed.
    Synthetic,
    /// MNIST's four files.
    Idx {
        /// The folder of the files.
        directory: PathBuf,
    },
    /// A table with a header.
    Csv {
        /// The samples.
        file: PathBuf,
        /// The column of the class.
        label: String,
        /// The samples for testing.
        test: Option<PathBuf>,
    },
    /// Sparse samples.
    LibSvm {
        /// The samples.
        file: PathBuf,
        /// The samples for testing.
        test: Option<PathBuf>,
    },
    /// NumPy arrays: features and labels.
    Npy {
        /// The samples.
        train: (PathBuf, PathBuf),
        /// The samples for testing.
        test: Option<(PathBuf, PathBuf)>,
    },
    /// NumPy arrays in one archive, by the names of features and labels.
    Npz {
        /// The archive.
        file: PathBuf,
        /// The samples.
        train: (String, String),
        /// The samples for testing.
        test: Option<(String, String)>,
    },
    /// Files that are read as they are used.
    Streamed(Stream),
}

impl Source {
    /// Resolves relative paths against `folder`.
    #[must_use]
    pub fn beside(self, folder: &Path) -> Self {
        let at = |path: PathBuf| folder.join(path);
        let both = |(features, labels)| (at(features), at(labels));
        match self {
            Self::Digits | Self::Synthetic => self,
            Self::Idx { directory } => Self::Idx { directory: at(directory) },
            Self::Csv { file, label, test } => {
                Self::Csv { file: at(file), label, test: test.map(at) }
            }
            Self::LibSvm { file, test } => Self::LibSvm { file: at(file), test: test.map(at) },
            Self::Npy { train, test } => Self::Npy { train: both(train), test: test.map(both) },
            Self::Npz { file, train, test } => Self::Npz { file: at(file), train, test },
            Self::Streamed(stream) => Self::Streamed(stream.beside(folder)),
        }
    }

    /// Whether other seeds give other samples to train on: they are drawn, or a fifth of them is
    /// held out.
    pub(crate) fn depends_on_seed(&self) -> bool {
        match self {
            Self::Digits | Self::Idx { .. } | Self::Streamed(_) => false,
            Self::Synthetic => true,
            Self::Csv { test, .. } | Self::LibSvm { test, .. } => test.is_none(),
            Self::Npy { test, .. } => test.is_none(),
            Self::Npz { test, .. } => test.is_none(),
        }
    }

    /// Whether it has sparse samples.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self, Self::LibSvm { .. })
    }

    /// Loads its samples as rows with a value for each column.
    ///
    /// # Errors
    /// If a file can't be read or is malformed, or if such samples can't be drawn.
    pub fn load(&self, seed: u64) -> Result<Dataset, DataError> {
        let loaded = match self {
            Self::Digits => Dataset::digits(),
            Self::Synthetic => Err(DataError::Empty { what: "columns to draw" }),
            Self::Idx { directory } => Dataset::idx(directory),
            Self::Csv { file, label, test } => Dataset::csv(file, label, test.as_deref(), seed),
            Self::LibSvm { file, test } => Dataset::libsvm(file, test.as_deref(), seed),
            Self::Npy { train: (features, labels), test } => {
                let test = test.as_ref().map(|(features, labels)| (&**features, &**labels));
                Dataset::npy((features, labels), test, seed)
            }
            Self::Npz { file, train: (features, labels), test } => {
                let test = test.as_ref().map(|(features, labels)| (&**features, &**labels));
                Dataset::npz(file, (features, labels), test, seed)
            }
            Self::Streamed(stream) => stream.load(),
        };
        loaded.and_then(with_samples)
    }

    /// Loads its samples, each of `slots` features out of `rows`; drawn if the source has no sparse
    /// ones.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_sparse(&self, rows: usize, slots: usize, seed: u64) -> Result<Dataset, DataError> {
        let loaded = match self {
            Self::LibSvm { file, test } => {
                Dataset::libsvm_sparse(file, test.as_deref(), rows, slots, seed)
            }
            _ => Dataset::synthetic(rows, slots, seed),
        };
        loaded.and_then(with_samples)
    }
}

/// `dataset`, if there is something to train on and something to test on: of nothing, an accuracy
/// is no number.
fn with_samples(dataset: Dataset) -> Result<Dataset, DataError> {
    let Dataset { train, test } = &dataset;
    let counts = [
        (train.width(), "features of a sample, such as pixels"),
        (train.len() + usize::from(train.stream().is_some()), "samples to train on"),
        (test.len(), "samples to test on"),
    ];
    match counts.into_iter().find(|(count, _)| *count == 0) {
        Some((_, what)) => Err(DataError::Empty { what }),
        None => Ok(dataset),
    }
}

/// The arrays of a data set, each in a file, as a scenario has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Npy {
    features: PathBuf,
    labels: PathBuf,
    test_features: Option<PathBuf>,
    test_labels: Option<PathBuf>,
}

/// The arrays of a data set in one archive, by their names, as a scenario has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Npz {
    file: PathBuf,
    features: String,
    labels: String,
    test_features: Option<String>,
    test_labels: Option<String>,
}

impl Npy {
    fn into_source<E: de::Error>(self) -> Result<Source, E> {
        let test = both(self.test_features, self.test_labels)?;
        Ok(Source::Npy { train: (self.features, self.labels), test })
    }
}

impl Npz {
    fn into_source<E: de::Error>(self) -> Result<Source, E> {
        let test = both(self.test_features, self.test_labels)?;
        Ok(Source::Npz { file: self.file, train: (self.features, self.labels), test })
    }
}

/// The features and the labels for testing, or neither.
fn both<T, E: de::Error>(features: Option<T>, labels: Option<T>) -> Result<Option<(T, T)>, E> {
    match (features, labels) {
        (None, None) => Ok(None),
        (Some(features), Some(labels)) => Ok(Some((features, labels))),
        _ => Err(E::custom("samples for testing need both `test_features` and `test_labels`")),
    }
}

/// All keys that a table may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    idx: Option<PathBuf>,
    csv: Option<PathBuf>,
    libsvm: Option<PathBuf>,
    npy: Option<Npy>,
    npz: Option<Npz>,
    label: Option<String>,
    test: Option<PathBuf>,
    tfrecord: Option<PathBuf>,
    images: Option<PathBuf>,
    features: Option<String>,
    shape: Option<Vec<usize>>,
    size: Option<[usize; 3]>,
    classes: Option<usize>,
    shuffle: Option<usize>,
    prefetch: Option<usize>,
}

const FORMS: &str = "\"digits\", { idx = \"DIR\" }, { csv = \"FILE\", label = \"COLUMN\" }, \
                     { libsvm = \"FILE\" }, { npy = { features = \"FILE\", labels = \"FILE\" } }, \
                     { npz = { file = \"FILE\", features = \"NAME\", labels = \"NAME\" } }, \
                     { tfrecord = \"FILES\", … } or { images = \"FOLDER\", … }";

struct SourceVisitor;

impl<'de> Visitor<'de> for SourceVisitor {
    type Value = Source;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Source, E> {
        match name {
            "digits" => Ok(Source::Digits),
            other if strsim::damerau_levenshtein(other, "digits") <= 2 => {
                Err(E::unknown_variant(other, &["digits"]))
            }
            other => Err(E::custom(format!(
                "there is no data set `{other}` in the program; it is one of {FORMS} (of MNIST, \
                 `idx` reads the files)"
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        if table.is_streamed() {
            return table.into_stream().map(Source::Streamed).map_err(de::Error::custom);
        }
        let Table { idx, csv, libsvm, npy, npz, label, test, .. } = table;
        match (idx, csv, libsvm, npy, npz, label) {
            (Some(directory), None, None, None, None, None) if test.is_none() => {
                Ok(Source::Idx { directory })
            }
            (None, Some(file), None, None, None, Some(label)) => {
                Ok(Source::Csv { file, label, test })
            }
            (None, None, Some(file), None, None, None) => Ok(Source::LibSvm { file, test }),
            (None, None, None, Some(npy), None, None) if test.is_none() => npy.into_source(),
            (None, None, None, None, Some(npz), None) if test.is_none() => npz.into_source(),
            (None, Some(_), None, None, None, None) => {
                Err(de::Error::custom("a CSV file needs label = \"COLUMN\", that of the classes"))
            }
            _ => Err(de::Error::invalid_value(
                Unexpected::Other("a table that names not exactly one data set"),
                &self,
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SourceVisitor)
    }
}
