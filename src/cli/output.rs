//! Writes results: a report's files, and the comparison on stdout.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::args::{Format, ScenarioArgs};
use super::failure::Failure;
use super::stdout::{fitted, stdout};
use crate::cluster::TaskName;
use crate::deployment::ExitCode;
use crate::experiment::{
    EventLog, Experiment, Files, ReportFolder, Trainer, Trial, cautions, is_built_in,
};
use crate::report::{End, Report, Run, SkippedFaultText, World, json, summary, table};
use crate::say::say;
use crate::training::Recording;

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
    /// deployed. A deployed one that had nothing to do leaves the folder as it is.
    pub(super) fn append(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
        events: Option<EventLog>,
    ) {
        if let Some((folder, began)) = self.folder.take() {
            if report.runs.last().is_some_and(Run::had_nothing_to_do) {
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
        Format::Json => return json::write(report, out),
        Format::Text(layout) => fitted(layout),
    };
    write!(out, "{}{}", table::render(report, layout), layout.lines(&notes(report)))?;
    for (name, comparison) in report.comparisons() {
        write!(out, "\n{}", comparison.render(name, layout))?;
    }
    let summary = summary(report.comparisons().map(|(_, comparison)| comparison));
    write!(out, "{}", layout.lines(&Vec::from_iter(summary)))
}

/// By run: its digests, the step that it went on from, and checkpoints that could not be written.
fn notes(report: &Report) -> Vec<String> {
    // Of many seeds they would be many lines; the JSON has them all.
    let has_digests = report.runs.iter().all(|run| run.seed == report.seed);
    let mut notes = Vec::new();
    for run in &report.runs {
        let name = &run.name;
        if has_digests {
            notes.push(format!("{name}: {}", digests(run)));
        }
        notes.extend(run.resumed_from.map(|step| match run.had_nothing_to_do() {
            true => format!("{name}: nothing was left to do: step {step} is saved"),
            false => format!(
                "{name}: went on from step {step}, to which an earlier process had led it: seconds \
                 and rates are those since then"
            ),
        }));
        notes.extend(absences(run));
        notes.extend(failed_checkpoints(name, &run.failed_checkpoints));
    }
    let skipped = report.runs.iter().map(|run| (&*run.name, &*run.skipped_faults));
    notes.extend(skipped_faults(&skipped.collect::<Vec<_>>()));
    notes
}

/// A line for each task that `run` took steps without.
fn absences(run: &Run) -> impl Iterator<Item = String> {
    let has_servers = run.bytes_sent.keys().any(TaskName::is_parameter_server);
    let what = match has_servers {
        true => "their rounds lack its gradients",
        false => "the others shared its part of the batch",
    };
    let line = move |(task, steps)| format!("{}: {steps} steps without {task}: {what}", run.name);
    run.steps_without.iter().map(line)
}

/// How many checkpoints that could not be written have a line each; a full disk has many.
const FAILED: usize = 3;

/// A line for each of the first of the checkpoints of the run `name` that could not be written, and
/// one for the others.
fn failed_checkpoints(name: &str, failed: &[(u64, String)]) -> Vec<String> {
    let line = |(step, why): &(u64, String)| {
        format!("{name}: the checkpoint of step {step} could not be written: {why}")
    };
    let shown = if failed.len() > FAILED + 1 { FAILED } else { failed.len() };
    let (shown, others) = failed.split_at(shown);
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if let Some((step, why)) = others.last() {
        let others = others.len();
        lines.push(format!(
            "{name}: {others} more could not be written, the last that of step {step}: {why}"
        ));
    }
    lines
}

/// A line for each fault that did not happen in one of `runs`, which have a name and such faults.
fn skipped_faults(runs: &[(&str, &[SkippedFaultText])]) -> Vec<String> {
    let mut skipped: Vec<(&SkippedFaultText, Vec<&str>)> = Vec::new();
    for (name, faults) in runs {
        for fault in *faults {
            match skipped.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, names)) if names.last() == Some(name) => {}
                Some((_, names)) => names.push(name),
                None => skipped.push((fault, vec![name])),
            }
        }
    }
    let line = |(SkippedFaultText { fault, why }, names): (&SkippedFaultText, Vec<&str>)| {
        let of = match names.len() {
            1..=3 => names.join(", "),
            several => format!("{several} of {} runs", runs.len()),
        };
        format!("{of}: this fault did not happen: {fault}: {why}")
    };
    skipped.into_iter().map(line).collect()
}

/// Prints a scenario with its changes, in the form of a file.
pub(super) fn print_scenario(args: &ScenarioArgs) -> Result<ExitCode, Failure> {
    let text = args.experiment()?.text_with_changes()?;
    write!(stdout(), "{text}").map_err(Failure::writing("the scenario"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_did_not_happen_has_one_line_for_all_runs_that_it_was_skipped_in() {
        let skipped = |fault: &str| vec![SkippedFaultText::new(fault, "the run had ended before")];
        let (late, later) = (skipped("{ at = \"8s\" }"), skipped("{ at = \"9s\" }"));
        let both = [late.clone(), later].concat();
        let lines = skipped_faults(&[("sync", &both), ("async", &late), ("ssp", &[])]);
        let expected = [
            "sync, async: this fault did not happen: { at = \"8s\" }: the run had ended before",
            "sync: this fault did not happen: { at = \"9s\" }: the run had ended before",
        ];
        assert_eq!(lines, expected);
        let of_seeds = [("a", &*late), ("b", &late), ("c", &late), ("d", &late), ("e", &[])];
        let lines = skipped_faults(&of_seeds);
        assert!(lines[0].starts_with("4 of 5 runs: this fault did not happen"), "{lines:?}");
    }
    #[test]
    fn of_many_checkpoints_that_could_not_be_written_the_first_ones_have_a_line_each() {
        let failed: Vec<(u64, String)> = (1..=9).map(|step| (step, "full".to_owned())).collect();
        let lines = failed_checkpoints("a", &failed);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2], "a: the checkpoint of step 3 could not be written: full");
        assert_eq!(lines[3], "a: 6 more could not be written, the last that of step 9: full");
        assert_eq!(failed_checkpoints("a", &failed[..4]).len(), 4, "one more is told itself");
        assert!(failed_checkpoints("a", &[]).is_empty());
    }
}
