//! `result.json`: the whole report for programs to read.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::{Report, Speedup, Summary};

/// The JSON schema of `result.json`.
pub const SCHEMA: &str = include_str!("result.schema.json");

/// A report with what follows from it.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    report: &'a Report,
    summaries: Vec<Summary>,
    verdicts: Vec<Speedup>,
}

/// Writes `report` as one JSON object and a newline, with its summaries and verdicts.
///
/// Every key is always there, in a fixed order; an absent or non-finite value is `null`.
pub fn write(report: &Report, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out); // a token at a time would be a system call each
    let (summaries, verdicts) = (report.summaries(), report.verdicts());
    serde_json::to_writer_pretty(&mut out, &Whole { report, summaries, verdicts })?;
    writeln!(out)?;
    out.flush()
}
