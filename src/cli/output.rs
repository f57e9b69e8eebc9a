//! Writes results: a report's files, and the comparison on stdout.

mod notes;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::args::{Format, ScenarioArgs};
use super::failure::Failure;
use super::stdout::{fitted, raw_stdout, stdout};
use crate::deployment::ExitCode;
use crate::experiment::{
    EventLog, Experiment, Files, ReportFolder, Trainer, Trial, cautions, is_built_in,
};
use crate::report::{End, Report, Run, World, json, summary, table};
use crate::say::say;
use crate::training::Recording;
use notes::notes;

/// The files of a report, if the user wants them. What can't be written loses no result: the table
/// is printed even so, and the failure is told after it.
pub(super) struct Out {
    /// Where the results of a deployment go, and the date when it began; none any more once its
    /// first run is over.
    folder: Option<(ReportFolder, Duration)>,
    files: Option<Files>,
    failure: Option<Failure>,
    /// Whether nobody is to hear where earlier results are now.
    quiet: bool,
}

impl Out {
    /// Files that take the place of those of an earlier report, unless it is a deployment's.
    pub(super) fn create(directory: Option<&Path>, quiet: bool) -> Result<Self, Failure> {
        let mut files = None;
        if let Some(directory) = directory {
            let made = Files::in_place_of_earlier(directory);
            let (made, aside) = to_write(directory, made)?;
            tell_of_moved(directory, aside.as_deref(), quiet);
            files = Some(made);
        }
        Ok(Self { folder: None, files, failure: None, quiet })
    }

    /// Files of a deployment that began at the date `began`. Those of an earlier report are set
    /// aside as soon as a run is over: they may be of the part of the training before.
    pub(super) fn beside_earlier(
        directory: Option<&Path>,
        began: Duration,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let lock = |directory: &Path| to_write(directory, ReportFolder::lock(directory));
        let folder = directory.map(lock).transpose()?;
        let folder = folder.map(|folder| (folder, began));
        Ok(Self { folder, files: None, failure: None, quiet })
    }

    /// Appends the last run of `report`, which is `trial`'s, and has written `events` if it was
    /// deployed. A deployed one that had nothing to do, since a checkpoint had its end, leaves the
    /// folder as it is if a result is there.
    pub(super) fn append(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
        events: Option<EventLog>,
    ) {
        if let Some((folder, began)) = self.folder.take() {
            let had_nothing = |run: &Run| run.had_nothing_to_do() && recording.taken_over.is_none();
            if folder.has_result() && report.runs.last().is_some_and(had_nothing) {
                self.folder = Some((folder, began));
                if let Some(events) = events {
                    events.discard();
                }
                return;
            }
            self.begin(folder, began);
        }
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.append_beside(events, report, trial, recording) {
            let what =
                format!("the files of run `{}` in {}", trial.name, files.directory().display());
            tracing::error!(%error, "{what} can't be written");
            self.failure.get_or_insert(Failure::Write { what, error });
        }
    }

    /// Has [`Self::print`] end with `failure`, unless something else could not be written before.
    pub(super) fn fail_with(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Begins the files of a deployment in `folder`.
    fn begin(&mut self, folder: ReportFolder, began: Duration) {
        let what = folder.directory().display().to_string();
        match Files::beside_earlier(folder, began) {
            Ok((files, aside)) => {
                tell_of_moved(files.directory(), aside.as_deref(), self.quiet);
                self.files = Some(files);
            }
            Err(error) => {
                self.failure.get_or_insert(Failure::Write { what, error });
            }
        }
    }

    /// Has the files show all runs of `report`, of which the last may be missing.
    pub(super) fn finish(&mut self, report: &Report) {
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.finish(report) {
            let what = format!("the report in {}", files.directory().display());
            self.failure.get_or_insert(Failure::Write { what, error });
        }
    }

    /// Prints what there is of the report of a command that was asked to stop: the runs of `all`
    /// that are over.
    ///
    /// # Errors
    /// As [`Self::print`].
    pub(super) fn print_so_far(
        self,
        format: Format,
        report: &Report,
        all: usize,
    ) -> Result<(), Failure> {
        say!("stopped: {}", so_far(report, all));
        self.print_if_any(format, report)
    }

    /// Prints what there is of the report of a command that ends with an error, which is told next.
    ///
    /// # Errors
    /// As [`Self::print`].
    pub(super) fn print_before_error(
        self,
        format: Format,
        report: &Report,
        all: usize,
    ) -> Result<(), Failure> {
        if !report.runs.is_empty() {
            say!("{}", so_far(report, all));
        }
        self.print_if_any(format, report)
    }

    /// Prints the report. If no run is over, there is none, and its files are removed.
    fn print_if_any(self, format: Format, report: &Report) -> Result<(), Failure> {
        if !report.runs.is_empty() {
            return self.print(format, report);
        }
        self.files.map_or(Ok(()), |files| {
            let folder = files.directory().display().to_string();
            files.remove().map_err(Failure::writing(folder))
        })
    }

    /// Writes `report` again, of which only the best runs are kept.
    pub(super) fn rewrite(&mut self, report: &Report) {
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.rewrite(report) {
            let what = format!("the report in {}", files.directory().display());
            self.failure.get_or_insert(Failure::Write { what, error });
        }
    }

    /// Prints the report as [`print()`].
    ///
    /// # Errors
    /// If it, or the files before, could not be written.
    pub(super) fn print(mut self, format: Format, report: &Report) -> Result<(), Failure> {
        self.finish(report);
        print(format, report).map_err(Failure::writing("the result"))?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// Says where the results that `directory` had are now, if they were set `aside`.
fn tell_of_moved(directory: &Path, aside: Option<&Path>, quiet: bool) {
    if let Some(aside) = aside.filter(|_| !quiet) {
        let (directory, aside) = (directory.display(), aside.display());
        say!("{directory} had the results of an earlier run: they are in {aside} now");
    }
}

/// The result `made`, with its error as a failure to write in `directory`.
fn to_write<T>(directory: &Path, made: io::Result<T>) -> Result<T, Failure> {
    made.map_err(Failure::writing(directory.display().to_string()))
}

/// Says once which changes of `experiment` change nothing in a run, which settings of `trials`, its
/// own in `world`, do nothing or cost what their author may not know, if `trainer` runs them, and
/// what is odd about their data.
///
/// # Errors
/// Every mistake in the scenario.
pub(super) fn caution(
    experiment: &Experiment,
    (trials, world): (&[Trial], World),
    trainer: &impl Trainer,
    quiet: bool,
) -> Result<(), Failure> {
    if quiet {
        return Ok(());
    }
    let cautions = cautions(trials, world, is_built_in(trainer));
    for caution in experiment.overruled()?.into_iter().chain(cautions) {
        say!("warning: {caution}");
    }
    Ok(())
}

/// Says which training of before a deployment of `trial` goes on with, whatever its settings were.
/// Servers that were started before this task may have their variables, and be further.
pub(super) fn tell_of_earlier(trial: &Trial, servers_may_live: bool, quiet: bool) {
    let Some((step, folder)) = trial.newest_checkpoint().filter(|_| !quiet) else { return };
    let (name, folder) = (&trial.name, folder.display());
    if servers_may_live {
        say!(
            "{name}: the newest checkpoint in {folder} is of step {step}; the training goes on \
             from it, with these settings, unless the parameter servers still have the variables; \
             to begin anew, start all tasks anew with another `checkpoint.directory`"
        );
    } else {
        say!(
            "{name}: goes on from step {step} of the checkpoint in {folder}, with these settings; \
             to begin anew, name another `checkpoint.directory`"
        );
    }
}

/// How many of `all` runs are over.
fn so_far(report: &Report, all: usize) -> String {
    let over = report.runs.iter().filter(|run| !run.is_unfinished()).count();
    let runs = if all == 1 { "run is" } else { "runs are" };
    format!("{over} of {all} {runs} over")
}

/// Prints the report: as JSON, or as tables with a line of digests for each run.
fn print(format: Format, report: &Report) -> io::Result<()> {
    let mut out = stdout();
    let layout = match format {
        Format::Json => return json::write(report, raw_stdout()),
        Format::Text(layout) => fitted(layout),
    };
    write!(out, "{}{}", table::render(report, layout), layout.lines(&notes(report)))?;
    for (name, comparison) in report.comparisons() {
        write!(out, "\n{}", comparison.render(name, layout))?;
    }
    let summary = summary(report.comparisons().map(|(_, comparison)| comparison));
    write!(out, "{}", layout.lines(&Vec::from_iter(summary)))
}

/// Prints a scenario with its changes, in the form of a file.
pub(super) fn print_scenario(args: &ScenarioArgs) -> Result<ExitCode, Failure> {
    let text = args.experiment()?.text_with_changes()?;
    write!(raw_stdout(), "{text}").map_err(Failure::writing("the scenario"))?;
    Ok(ExitCode::Done)
}

/// The exit code of a command that has come to `runs`: of their ends, the worst.
pub(super) fn exit_code(runs: &[Run]) -> ExitCode {
    let worst = [
        (End::Diverged, ExitCode::Diverged),
        (End::Unsaved, ExitCode::Unwritable),
        (End::TargetNotReached, ExitCode::TargetNotReached),
    ];
    if runs.is_empty() {
        return ExitCode::NothingToRun;
    }
    let found = worst.into_iter().find(|(end, _)| runs.iter().any(|run| run.end == *end));
    found.map_or(ExitCode::Done, |(_, code)| code)
}

/// Tells the tapes that a full disk has `cut`. Returns the exit code of the command: `code`, unless
/// a cut tape is worse, as it is than a target that was not reached.
pub(super) fn tell_of_tapes(cut: &[String], code: ExitCode) -> ExitCode {
    for which in cut {
        say!("{which}");
    }
    match code {
        ExitCode::Done | ExitCode::TargetNotReached if !cut.is_empty() => ExitCode::Unwritable,
        code => code,
    }
}

/// The words of this command; the program by its name alone.
pub(super) fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name();
        *program = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    }
    words
}

/// The digests of a run; runs that are the same have the same.
pub(super) fn digests(run: &Run) -> String {
    let known = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".to_owned());
    format!("digest={} weights={}", known(&run.digest), known(&run.weights_digest))
}
