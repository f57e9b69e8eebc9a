//! Writes results: a report's files, and the comparison on stdout.

use std::io::{self, Write};

use std::path::Path;

use super::failure::Failure;
use crate::deployment::ExitCode;
use crate::experiment::{Files, Trial};
use crate::report::{Report, Run, json, summary, table};
use crate::training::Recording;

/// The files of a report, if the user wants them.
pub(super) struct Out(Option<Files>);

impl Out {
    pub(super) fn create(directory: Option<&Path>) -> Result<Self, Failure> {
        let create = |directory: &Path| {
            Files::create(directory).map_err(Failure::writing(directory.display().to_string()))
        };
        Ok(Self(directory.map(create).transpose()?))
    }

    /// Appends the last run of `report`, which is `trial`'s.
    pub(super) fn append(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
    ) -> Result<(), Failure> {
        let Some(files) = &mut self.0 else { return Ok(()) };
        let appended = files.append(report, trial, recording);
        appended.map_err(Failure::writing(files.directory().display().to_string()))
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
    for (name, comparison) in report.comparisons() {
        write!(out, "\n{}", comparison.render(name))?;
    }
    if let Some(line) = summary(report.comparisons().map(|(_, comparison)| comparison)) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}

/// The exit code of a command whose `trials` have come to `runs`.
pub(super) fn exit_code(trials: &[Trial], runs: &[Run]) -> ExitCode {
    if runs.is_empty() {
        ExitCode::NothingToRun
    } else if runs.iter().any(Run::has_diverged) {
        ExitCode::Diverged
    } else if trials.iter().zip(runs).any(|(trial, run)| trial.misses_target(run)) {
        ExitCode::TargetNotReached
    } else {
        ExitCode::Done
    }
}

/// The digests of a run; runs that are the same have the same.
pub(super) fn digests(run: &Run) -> String {
    let known = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".to_owned());
    format!("digest={} weights={}", known(&run.digest), known(&run.weights_digest))
}
