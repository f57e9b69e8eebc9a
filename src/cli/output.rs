//! Where results go: a report's files, the comparison on stdout.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::failure::Failure;
use crate::experiment;
use crate::report::{Report, Run, csv, events, json, table};
use crate::training::Recording;

/// The files of a report, written run by run, so that a later failure loses nothing.
pub(super) struct Files<'a> {
    directory: &'a Path,
    steps: csv::Steps<File>,
}

impl<'a> Files<'a> {
    pub(super) fn create(directory: &'a Path) -> Result<Self, Failure> {
        let failed = || Failure::writing(directory.display().to_string());
        fs::create_dir_all(directory).map_err(failed())?;
        let file = File::create(directory.join("steps.csv")).map_err(failed())?;
        Ok(Self { directory, steps: csv::Steps::new(file).map_err(failed())? })
    }

    /// Appends the last run of `report`, whose `recording` is that of `run`.
    pub(super) fn append(
        &mut self,
        report: &Report,
        run: &str,
        recording: &Recording,
    ) -> Result<(), Failure> {
        let failed = || Failure::writing(self.directory.display().to_string());
        let rows = experiment::rows(recording);
        self.steps.append(run, &rows).map_err(failed())?;
        let folder = self.directory.join("events").join(run.replace(['/', '\\'], "_"));
        fs::create_dir_all(&folder).map_err(failed())?;
        let file = File::create(folder.join(events::file_name())).map_err(failed())?;
        events::write(&rows, BufWriter::new(file)).map_err(failed())?;
        let result = File::create(self.directory.join("result.json")).map_err(failed())?;
        json::write(report, result).map_err(failed())
    }
}

/// Prints the report: as JSON, or as a table with a line of digests for each run.
pub(super) fn print(as_json: bool, report: &Report, target: Option<f64>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        return json::write(report, out);
    }
    write!(out, "{}", table::render(report, target))?;
    for run in &report.runs {
        writeln!(out, "{}: {}", run.name, digests(run))?;
    }
    Ok(())
}

/// What two runs have in common where they are the same.
pub(super) fn digests(run: &Run) -> String {
    let known = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".to_owned());
    format!("digest={} weights={}", known(&run.digest), known(&run.weights_digest))
}
