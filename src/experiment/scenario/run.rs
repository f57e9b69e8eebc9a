//! `[[run]]`: one training of the program, and what is its own.

use serde::Deserialize;
use toml::{Table, Value};

use super::file::ModeFile;
use super::{Averaging, Compression, Scenario};
use crate::sync::Mode;

/// One training of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What the report calls it. Default: how it trains, in words.
    pub name: String,
    /// How its workers are coordinated; where they train copies of their own, how they are
    /// averaged.
    pub mode: Mode,
    /// The copies that the workers train; none where all train the same variables.
    pub averaging: Option<Averaging>,
    /// What is left out of the values on the network. Default: what `[network]` says, or nothing.
    pub compression: Compression,
    /// The scenario with this run's `unset` and `set`, where it has any.
    pub(super) own: Option<Box<Scenario>>,
}

/// A run as it is typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFile {
    pub(super) name: Option<String>,
    pub(super) mode: ModeFile,
    pub(super) compression: Option<Compression>,
    /// Keys of the scenario that this run has otherwise: `set = { program.batch = 64 }`. A table
    /// changes the keys that it names and leaves the others.
    #[serde(default)]
    pub(super) set: Table,
    /// Keys that it goes without, by their paths; removed before `set` is applied.
    #[serde(default)]
    pub(super) unset: Vec<String>,
}

impl RunFile {
    /// Whether it has settings of its own.
    pub(super) fn differs(&self) -> bool {
        !self.set.is_empty() || !self.unset.is_empty()
    }

    /// What it changes, in words; empty where it changes nothing.
    pub(super) fn changes(&self) -> String {
        let unset = self.unset.iter().map(|path| format!(", without {path}"));
        let set = leaves("", &self.set).into_iter().map(|leaf| format!(", {leaf}"));
        unset.chain(set).collect()
    }
}

/// Each value of `table` with its path: `program.batch=64`.
fn leaves(path: &str, table: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(inner) => found.extend(leaves(&path, inner)),
            value => found.push(format!("{path}={}", shown(value))),
        }
    }
    found
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) => format!("{{ {} }}", leaves("", table).join(", ")),
    }
}

impl Run {
    /// How it trains, in words.
    pub fn how(&self) -> String {
        let mut how = match (self.averaging, self.mode) {
            (None, mode) => mode.to_string(),
            (Some(averaging), Mode::Sync { backups: 0 }) => averaging.to_string(),
            (Some(averaging), mode) => format!("{averaging}, {mode}"),
        };
        if self.compression != Compression::None {
            how += &format!(", {}", self.compression);
        }
        how
    }
}
