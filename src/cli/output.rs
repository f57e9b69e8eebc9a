//! Writes results: a report's files, and the comparison on stdout.

use std::io::{self, Write};

use std::path::Path;

use super::failure::Failure;
use crate::deployment::ExitCode;
use crate::experiment::{Files, Trial};
use crate::report::{Report, Run, json, summary, table};
use crate::training::Recording;

/// The files of a report, if the user wants them. What can't be written loses no result: the table
/// is printed even so, and the failure is told after it.
pub(super) struct Out {
    files: Option<Files>,
    failure: Option<Failure>,
}

impl Out {
    pub(super) fn create(directory: Option<&Path>) -> Result<Self, Failure> {
        let create = |directory: &Path| {
            Files::create(directory).map_err(Failure::writing(directory.display().to_string()))
        };
        Ok(Self { files: directory.map(create).transpose()?, failure: None })
    }

    /// Appends the last run of `report`, which is `trial`'s.
    pub(super) fn append(&mut self, report: &Report, trial: &Trial, recording: &Recording) {
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.append(report, trial, recording) {
            let what =
                format!("the files of run `{}` in {}", trial.name, files.directory().display());
            tracing::error!(%error, "{what} can't be written");
            self.failure.get_or_insert(Failure::Write { what, error });
        }
    }

    /// Prints the report as [`print()`].
    ///
    /// # Errors
    /// If it, or the files before, could not be written.
    pub(super) fn print(
        self,
        as_json: bool,
        report: &Report,
        target: Option<f64>,
    ) -> Result<(), Failure> {
        print(as_json, report, target).map_err(Failure::writing("the result"))?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// Prints the report: as JSON, or as a table with a line of digests for each run.
fn print(as_json: bool, report: &Report, target: Option<f64>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        return json::write(report, out);
    }
    write!(out, "{}", table::render(report, target))?;
    for run in &report.runs {
        writeln!(out, "{}: {}", run.name, digests(run))?;
        for (step, why) in &run.failed_checkpoints {
            writeln!(
                out,
                "{}: the checkpoint of step {step} could not be written: {why}",
                run.name
            )?;
        }
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
    } else if runs.iter().any(|run| run.is_unsaved) {
        ExitCode::Unwritable
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
