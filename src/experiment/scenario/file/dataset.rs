//! Where the data is, as it is typed.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};

/// `"digits"`, or a table that names files.
pub(in crate::experiment::scenario) enum DatasetFile {
    Digits,
    Idx { directory: PathBuf },
    Csv { file: PathBuf, label: String, test: Option<PathBuf> },
    LibSvm { file: PathBuf, test: Option<PathBuf> },
    Npy(NpyFile),
}

/// The arrays of a data set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment::scenario) struct NpyFile {
    pub(in crate::experiment::scenario) features: PathBuf,
    pub(in crate::experiment::scenario) labels: PathBuf,
    pub(in crate::experiment::scenario) test_features: Option<PathBuf>,
    pub(in crate::experiment::scenario) test_labels: Option<PathBuf>,
}

/// All keys that a table may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    idx: Option<PathBuf>,
    csv: Option<PathBuf>,
    libsvm: Option<PathBuf>,
    npy: Option<NpyFile>,
    label: Option<String>,
    test: Option<PathBuf>,
}

const FORMS: &str = "\"digits\", { idx = \"DIR\" }, { csv = \"FILE\", label = \"COLUMN\" }, \
                     { libsvm = \"FILE\" } or { npy = { features = \"FILE\", labels = \"FILE\" } }";

struct DatasetVisitor;

impl<'de> Visitor<'de> for DatasetVisitor {
    type Value = DatasetFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<DatasetFile, E> {
        match name {
            "digits" => Ok(DatasetFile::Digits),
            other => Err(E::unknown_variant(other, &["digits"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DatasetFile, A::Error> {
        match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table {
                idx: Some(directory),
                csv: None,
                libsvm: None,
                npy: None,
                label: None,
                test: None,
            } => Ok(DatasetFile::Idx { directory }),
            Table {
                idx: None,
                csv: Some(file),
                libsvm: None,
                npy: None,
                label: Some(label),
                test,
            } => Ok(DatasetFile::Csv { file, label, test }),
            Table { idx: None, csv: None, libsvm: Some(file), npy: None, label: None, test } => {
                Ok(DatasetFile::LibSvm { file, test })
            }
            Table {
                idx: None,
                csv: None,
                libsvm: None,
                npy: Some(files),
                label: None,
                test: None,
            } => Ok(DatasetFile::Npy(files)),
            _ => Err(de::Error::invalid_value(
                Unexpected::Other("a table that names not exactly one data set"),
                &self,
            )),
        }
    }
}

impl<'de> Deserialize<'de> for DatasetFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DatasetVisitor)
    }
}
