//! `[[run]]`: one training of the program, with its own settings.

use serde::Deserialize;
use toml::{Table, Value};

use super::key_path::KeyPath;
use super::mistakes::Mistakes;
use super::mode::ModeFile;
use super::tables::paths_of;
use super::{Compression, Scenario};
use crate::sync::Mode;

/// One training of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The name in the report. Default: its mode, compression and changes, in words.
    pub name: String,
    /// The mode of its workers.
    pub mode: Mode,
    /// The compression of values on the network. Default: that of `[network]`, or none.
    pub compression: Compression,
    /// The scenario with this run's `unset` and `set`, if it has any.
    pub(super) own: Option<Box<Scenario>>,
    /// The keys of the scenario that this run has a value of its own for, or lacks.
    pub(super) own_keys: Vec<KeyPath>,
}

/// A run as it is typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFile {
    name: Option<String>,
    mode: ModeFile,
    compression: Option<Compression>,
    /// Keys that are different in this run: `set = { program.batch = 64 }`. A table changes the
    /// keys that it names and leaves the others.
    #[serde(default)]
    set: Table,
    /// The paths of keys that this run lacks; removed before `set` is applied.
    #[serde(default)]
    unset: Vec<String>,
}

impl RunFile {
    /// Whether it has settings of its own.
    pub(super) fn differs(&self) -> bool {
        !self.set.is_empty() || !self.unset.is_empty()
    }

    /// The keys of the scenario that it has a value of its own for, or lacks.
    fn own_keys(&self) -> Vec<KeyPath> {
        let compression = self.compression.and_then(|_| KeyPath::parse("network.compression"));
        let unset = self.unset.iter().filter_map(|path| KeyPath::parse(path));
        unset.chain(paths_of(&self.set)).chain(compression).collect()
    }

    /// Its own changes, in words; empty if it has none.
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

impl RunSpec {
    /// A run without a name and without settings of its own.
    pub(super) fn new(mode: Mode, compression: Compression) -> Self {
        Self { name: String::new(), mode, compression, own: None, own_keys: Vec::new() }
    }

    /// Its mode and compression, in words.
    pub fn how(&self) -> String {
        let mut how = self.mode.to_string();
        if self.compression != Compression::None {
            append!(how, ", {}", self.compression);
        }
        how
    }
}

/// Whether a run of `mode` can sum its gradients by all-reduce.
fn is_plain(mode: Mode) -> bool {
    matches!(mode, Mode::Sync { backups: 0, .. })
}

/// Checks a run whose towers are mirrored, if they are.
fn check_reduces(
    reduces: bool,
    path: &str,
    mode: Mode,
    compression: Compression,
    found: &mut Mistakes,
) {
    found.unless(!reduces || is_plain(mode), path, || {
        "`program.all_reduce` is for synchronous training, where every step has a gradient of \
         every tower; set `mode = \"sync\"`"
            .to_owned()
    });
    found.unless(!reduces || compression == Compression::None, path, || {
        "`program.all_reduce` sends what it sums as it is, so that all mirrors stay alike; remove \
         the compression"
            .to_owned()
    });
}

/// The runs of `workers` workers, whose gradients are summed by all-reduce if that is `reduces`.
/// Runs that give no compression have the compression `compressed`. Those that are not among the
/// names `only`, unless that is empty, may not fit the rest of the scenario.
pub(super) fn runs(
    file: Option<Vec<RunFile>>,
    workers: u32,
    compressed: Compression,
    reduces: bool,
    only: &[String],
    found: &mut Mistakes,
) -> Vec<RunSpec> {
    let Some(file) = file else {
        check_reduces(reduces, "run", Mode::Async, compressed, found);
        let run = RunSpec::new(Mode::Async, compressed);
        return vec![RunSpec { name: run.how(), ..run }];
    };
    found.unless(!file.is_empty(), "run", || "no run; give one, or remove the key".to_owned());
    let mut runs: Vec<RunSpec> = Vec::new();
    for (index, run) in file.into_iter().enumerate() {
        let (changes, differs, own_keys) = (run.changes(), run.differs(), run.own_keys());
        let mode = run.mode.0;
        let compression = run.compression.unwrap_or(compressed);
        let meant = RunSpec { own_keys, ..RunSpec::new(mode, compression) };
        let name = run.name.unwrap_or_else(|| meant.how() + &changes);
        let has_to_fit = !differs && (only.is_empty() || only.contains(&name));
        // Of a mode that an all-reduce does not take, nothing else is said, least of all about the
        // one replica that its tasks are. Where no task trains, that is the mistake.
        let fits = !reduces || is_plain(mode);
        let workers = if workers == 0 { u32::MAX } else { workers };
        if has_to_fit
            && fits
            && let Err((parameter, problem)) = mode.check(workers)
        {
            found.note(format!("run[{index}].mode.{parameter}"), problem);
        }
        if let Some(own) = run.compression {
            own.check(&format!("run[{index}].compression"), found);
        }
        let reduces = reduces && has_to_fit;
        check_reduces(reduces, &format!("run[{index}].mode"), mode, compression, found);
        found.printable(&name, &format!("run[{index}].name"));
        found.unless(
            runs.iter().all(|earlier| earlier.name != name),
            format!("run[{index}].name"),
            || format!("an earlier run is also called `{name}`"),
        );
        runs.push(RunSpec { name, ..meant });
    }
    runs
}
