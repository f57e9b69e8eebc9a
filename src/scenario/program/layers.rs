//! `program.layers`: a table of layers with their costs, in place of a model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use serde::{Deserialize, Deserializer, de};

use super::model::MOST_PARTS;
use super::{LARGEST, ProgramFile};
use crate::models::{Layer, Model};
use crate::scenario::mistakes::Mistakes;
use crate::units::FlopsPerSecond;
use crate::user_file;

/// The key, in messages.
const KEY: &str = "program.layers";

/// One row of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// The size of its parameters.
    bytes: u64,
    /// The operations of its forward pass, a sample.
    #[serde(default)]
    forward_flops: Option<f64>,
    /// The operations of its backward pass, a sample. Default: twice those of the forward pass.
    #[serde(default)]
    backward_flops: Option<f64>,
    /// The measured time of its forward pass, a batch.
    #[serde(default)]
    forward_seconds: Option<f64>,
    /// The measured time of its backward pass, a batch. Default: twice that of the forward pass.
    #[serde(default)]
    backward_seconds: Option<f64>,
}

/// The layers of a file.
pub(super) struct LayerTable(Vec<Row>);

/// The path of the table. A list is meant as the widths of layers, which have another name.
pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::String(path) => Ok(Some(path.into())),
        _ => Err(de::Error::custom(
            "`layers` is a file, a table of layers; the widths of hidden layers are `hidden`",
        )),
    }
}

impl LayerTable {
    /// The table that the section names, in `folder`; none if it names none. A table with mistakes
    /// has no layers.
    pub(super) fn of(section: &ProgramFile, folder: &Path, found: &mut Mistakes) -> Option<Self> {
        let path = folder.join(section.layers.as_deref()?);
        let mut mistaken = |why: String| {
            found.note(KEY, format!("{}: {why}", path.display()));
            Some(Self(Vec::new()))
        };
        let text = match user_file::read_text(&path) {
            Ok(text) => text,
            Err(error) => return mistaken(error.to_string()),
        };
        let rows = match rows_of(&text) {
            Ok(rows) => rows,
            Err(why) => return mistaken(why),
        };
        match problem(&rows) {
            Some(why) => mistaken(why),
            None => Some(Self(rows)),
        }
    }

    /// The model, for steps of `batch` samples. Measured times are those of a device of this rate.
    pub(super) fn model(self, batch: usize, rate: FlopsPerSecond) -> Model {
        Model::Layers(self.layers(batch, rate))
    }

    fn layers(self, batch: usize, rate: FlopsPerSecond) -> Vec<Layer> {
        let layer = |row: Row| {
            let work = |flops: Option<f64>, seconds: Option<f64>| {
                let of_batch = flops.map(|flops| flops * batch as f64);
                of_batch.or(seconds.map(|seconds| seconds * rate.0))
            };
            let forward = work(row.forward_flops, row.forward_seconds).unwrap_or(0.0);
            let backward = work(row.backward_flops, row.backward_seconds);
            Layer {
                name: row.name,
                parameters: (row.bytes / 4) as usize,
                forward: forward.round() as u64,
                backward: backward.unwrap_or(2.0 * forward).round() as u64,
            }
        };
        self.0.into_iter().map(layer).collect()
    }
}

/// The rows of `text`. The error tells the first mistake, with its line and column.
fn rows_of(text: &str) -> Result<Vec<Row>, String> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let row = |record: Result<StringRecord, csv::Error>| {
        let record = record.map_err(|error| error.to_string())?;
        record.deserialize(Some(&header)).map_err(|error| in_words(&error, &header, &record))
    };
    reader.records().map(row).collect()
}

/// The error of a `record`; csv counts columns, where the table names them.
fn in_words(error: &csv::Error, header: &StringRecord, record: &StringRecord) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    let Some(column) = err.field().map(|field| field as usize) else {
        return format!("the header: {}", err.kind()); // it has a column too many or too few
    };
    let line = record.position().map_or(0, csv::Position::line);
    let (name, field) =
        (header.get(column).unwrap_or_default(), record.get(column).unwrap_or_default());
    let expected = if name == "bytes" { "whole number from 0" } else { "number" };
    format!("line {line}, column `{name}`: `{field}` is no {expected}")
}

/// What is wrong with the table, if anything is.
fn problem(rows: &[Row]) -> Option<String> {
    let mut names = BTreeSet::new();
    if rows.is_empty() || rows.iter().all(|row| row.bytes < 4) {
        return Some("no layer has parameters, so there is nothing to train".to_owned());
    }
    if rows.len() > MOST_PARTS {
        return Some(format!("{} layers are more than {MOST_PARTS}", rows.len()));
    }
    rows.iter().find_map(|row| {
        let name = &row.name;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let costs =
            [row.forward_flops, row.backward_flops, row.forward_seconds, row.backward_seconds];
        let ways = [
            row.forward_flops.is_some() || row.backward_flops.is_some(),
            row.forward_seconds.is_some() || row.backward_seconds.is_some(),
        ];
        let why = match row {
            _ if !begins || !name.chars().all(is_name) => {
                "a layer's name is of letters, digits and `_.-/`, and begins with one of the first"
            }
            _ if !names.insert(name) => "there is another layer of this name",
            _ if !row.bytes.is_multiple_of(4) => {
                "its bytes are those of parameters in f32, of 4 bytes each: give a multiple of 4"
            }
            _ if row.bytes / 4 > LARGEST as u64 => "it has more than 4 GB of parameters",
            _ if ways == [true, true] => "give its operations or its times, and not both",
            _ if ways == [false, false] => {
                "give its cost: `forward_flops`, of a sample, or `forward_seconds`, of a batch"
            }
            _ if row.forward_flops.or(row.forward_seconds).is_none() => {
                "give the cost of its forward pass, too"
            }
            _ if costs.iter().flatten().any(|cost| !(0.0..1e18).contains(cost)) => {
                "a cost is at least 0 and below 1e18"
            }
            _ => return None,
        };
        Some(format!("layer `{name}`: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rows: &str) -> String {
        let text = format!("name,bytes,forward_flops,forward_seconds\n{rows}");
        match rows_of(&text) {
            Ok(rows) => problem(&rows).unwrap_or_default(),
            Err(why) => why,
        }
    }

    #[test]
    fn mistakes_in_a_table_name_the_layer_and_say_what_to_do() {
        assert_eq!(told("a,4,1,"), "");
        for (rows, says) in [
            ("", "no layer has parameters"),
            ("a,0,1,", "no layer has parameters"),
            ("a,4,1,\na,4,1,", "layer `a`: there is another layer of this name"),
            ("a b,4,1,", "layer `a b`: a layer's name is of letters"),
            ("a,4,1,1", "layer `a`: give its operations or its times, and not both"),
            ("a,4,,", "layer `a`: give its cost: `forward_flops`"),
            ("a,4,-1,", "layer `a`: a cost is at least 0"),
            ("a,4,inf,", "layer `a`: a cost is at least 0"),
            ("a,401,1,", "layer `a`: its bytes are those of parameters in f32"),
            ("a,4,1,\nb,x,1,", "line 3, column `bytes`: `x` is no whole number from 0"),
            ("a,4,1k,", "line 2, column `forward_flops`: `1k` is no number"),
            ("a,5000000000,1,", "layer `a`: it has more than 4 GB"),
        ] {
            assert!(told(rows).contains(says), "{rows}: {}", told(rows));
        }
    }
}
