//! `result.json`: the whole report for programs to read.

use std::io::{self, Write};

use super::Report;

/// Writes `report` as one JSON object and a newline.
///
/// Every key is always there, in a fixed order; an absent or non-finite value is `null`.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, report)?;
    writeln!(out)
}
