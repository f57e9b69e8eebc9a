//! Prints lists of checkpoints, and of the variables of one.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use crate::checkpoint::{Index, Listed};
use crate::report::{Layout, TextTable};
use crate::units::Bytes;

/// A checkpoint in a list.
#[derive(Serialize)]
pub(super) struct Row {
    name: String,
    global_step: u64,
    /// The time of the save, since the epoch or, in a simulation, since its beginning \[s\].
    seconds: Option<f64>,
    #[serde(skip)]
    saved: String,
    variables: Option<usize>,
    bytes: Option<u64>,
    /// The problem; none if it is complete.
    problem: Option<String>,
    #[serde(skip)]
    sound: Sound,
}

/// How far a checkpoint without a problem was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sound {
    /// Its index was read, and its files are there.
    Complete,
    /// All of it was read.
    Whole,
}

impl Row {
    pub(super) const TITLES: [&str; 5] = ["step", "saved", "variables", "bytes", "state"];

    pub(super) fn of(listed: Listed, sound: Sound) -> Self {
        Self {
            name: listed.name,
            global_step: listed.global_step,
            seconds: listed.time.map(|time| time.as_secs_f64()),
            saved: listed.time.map_or_else(|| "-".to_owned(), date_of),
            variables: listed.variables,
            bytes: listed.bytes,
            problem: listed.problem.map(|problem| problem.to_string()),
            sound,
        }
    }

    pub(super) fn cells(&self) -> [String; 5] {
        let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        [
            self.global_step.to_string(),
            self.saved.clone(),
            known(self.variables.map(|variables| variables.to_string())),
            known(self.bytes.map(|bytes| Bytes(bytes).to_string())),
            match (&self.problem, self.sound) {
                (Some(problem), _) => format!("broken: {problem}"),
                (None, Sound::Complete) => "complete".to_owned(),
                (None, Sound::Whole) => "whole".to_owned(),
            },
        ]
    }
}

/// The contents of one checkpoint.
#[derive(Serialize)]
pub(super) struct Contents {
    global_step: u64,
    seconds: f64,
    #[serde(skip)]
    saved: String,
    files: Vec<File>,
    variables: Vec<Variable>,
}

#[derive(Serialize)]
struct File {
    task: String,
    file: String,
    bytes: u64,
}

#[derive(Serialize)]
struct Variable {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    task: String,
    bytes: u64,
    /// For a part: the name of the whole, and the part's first row.
    part_of: Option<(String, usize)>,
}

impl Contents {
    pub(super) fn of(index: &Index) -> Self {
        let file = |shard: &crate::checkpoint::ShardEntry| File {
            task: shard.task.clone(),
            file: shard.file.clone(),
            bytes: shard.bytes,
        };
        let variables = index.variables.iter().map(|(name, entry)| Variable {
            name: name.clone(),
            dtype: entry.dtype.to_string(),
            shape: entry.shape.dims().to_vec(),
            task: index.shards[entry.shard].task.clone(),
            bytes: (entry.shape.elements() * entry.dtype.size()) as u64,
            part_of: entry.slice.as_ref().map(|slice| (slice.full_name.clone(), slice.begin)),
        });
        Self {
            global_step: index.global_step,
            seconds: index.time.as_secs_f64(),
            saved: date_of(index.time),
            files: index.shards.iter().map(file).collect(),
            variables: variables.collect(),
        }
    }

    pub(super) fn write_text(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "step {}, saved {}", self.global_step, self.saved)?;
        let files = self
            .files
            .iter()
            .map(|of| [of.task.clone(), Bytes(of.bytes).to_string(), of.file.clone()]);
        write_columns(["task", "bytes", "file"], files, &mut out)?;
        let variables = self.variables.iter().map(|of| {
            let dims: Vec<String> = of.shape.iter().map(usize::to_string).collect();
            let part = of.part_of.as_ref().map(|(name, row)| format!("{name} from row {row} on"));
            [
                of.name.clone(),
                format!("{}[{}]", of.dtype, dims.join(",")),
                of.task.clone(),
                Bytes(of.bytes).to_string(),
                part.unwrap_or_default(),
            ]
        });
        write_columns(["variable", "type", "task", "bytes", "part of"], variables, out)
    }
}

/// `2026-11-21T16:00:00Z`. Shorter times (before the year 2001) count from the beginning of a
/// simulation, not from the epoch: `12.500000s`.
fn date_of(time: Duration) -> String {
    const YEARS_2001_TO_9999: std::ops::Range<u64> = 1_000_000_000..253_402_300_800;
    match YEARS_2001_TO_9999.contains(&time.as_secs()) {
        true => humantime::format_rfc3339_seconds(UNIX_EPOCH + time).to_string(),
        false => format!("{:.6}s", time.as_secs_f64()),
    }
}

pub(super) fn write_json(value: &(impl Serialize + ?Sized), mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

/// A table of words.
pub(super) fn write_columns<const N: usize>(
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    mut out: impl Write,
) -> io::Result<()> {
    let rows = std::iter::once(titles.map(str::to_owned)).chain(rows).map(Vec::from).collect();
    write!(out, "{}", TextTable::new(rows).words(0..N).render(Layout::Plain))
}
