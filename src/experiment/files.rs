//! The files of a report in a folder. They are written run by run, so that a later failure loses
//! nothing.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use super::trial::folder_of;
use super::{Trial, summary};
use crate::report::{Report, Timeline, csv, events, html, json};
use crate::training::Recording;

/// The largest timeline that is drawn on the page \[bytes\].
const MOST_DRAWN: u64 = 32 << 20;

/// The file in `directory` for the timeline of a run, which is the only one or one of several.
pub(crate) fn timeline_file(directory: &Path, run: &str, is_only: bool) -> PathBuf {
    directory.join(match is_only {
        true => "timeline.json".to_owned(),
        false => format!("timeline-{}.json", folder_of(run)),
    })
}

/// The files that a report has once, and that are written again after each run.
const WHOLE: [&str; 2] = ["report.html", "result.json"];

/// The files of rows, which are appended to.
const ROWS: [&str; 2] = ["steps.csv", "evaluations.csv"];

/// Removes what an earlier report has left in `directory`, but for its rows: a run that fails now
/// must not have its results.
fn remove_earlier(directory: &Path) -> io::Result<()> {
    let entries = |folder: &Path| match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>(),
        Err(_) => Ok(Vec::new()),
    };
    for path in entries(directory)? {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let stem = name.strip_suffix(".json").unwrap_or_default();
        let is_ours = stem == "timeline" || stem.starts_with("timeline-") || WHOLE.contains(&name);
        if is_ours && path.is_file() {
            fs::remove_file(path)?;
        }
    }
    for run in entries(&directory.join("events"))? {
        let file = run.join(events::file_name());
        if file.is_file() {
            fs::remove_file(file)?;
            // It stays if something else is in it.
            fs::remove_dir(run).ok();
        }
    }
    Ok(())
}

/// A folder with `report.html`, `result.json`, `steps.csv`, `evaluations.csv`, and `events/` for
/// TensorBoard.
pub struct Files {
    directory: PathBuf,
    steps: csv::Steps<File>,
    evaluations: csv::Evaluations<File>,
    courses: Vec<html::Course>,
}

impl Files {
    /// The files of a new report in `directory`, which is made if it is missing. Those of an
    /// earlier report there go.
    ///
    /// # Errors
    /// If they can't be created, or another report is being written there.
    pub fn create(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        let [steps, evaluations] = ROWS.map(|name| directory.join(name));
        let rows = locked(&steps)?;
        remove_earlier(&directory)?;
        rows.set_len(0)?;
        let steps = csv::Steps::new(rows)?;
        let evaluations = csv::Evaluations::new(File::create(evaluations)?)?;
        Ok(Self { directory, steps, evaluations, courses: Vec::new() })
    }

    /// Removes the files of a report without any run.
    ///
    /// # Errors
    /// If they can't be removed.
    pub(crate) fn remove(self) -> io::Result<()> {
        remove_earlier(&self.directory)?;
        ROWS.iter().try_for_each(|name| fs::remove_file(self.directory.join(name)))
    }

    /// The folder of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes `report.html` and `result.json` again, once it is known which runs are kept.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn rewrite(&mut self, report: &Report) -> io::Result<()> {
        self.courses.retain(|course| report.runs.iter().any(|run| run.name == course.run()));
        self.write(report)
    }

    /// Appends the last run of `report`, which is the run of `trial` with `recording`.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn append(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
    ) -> io::Result<()> {
        let steps = summary::rows(recording);
        let evaluations = summary::evaluations(trial, recording);
        self.steps.append(&trial.name, steps.clone())?;
        self.evaluations.append(&trial.name, &evaluations)?;
        let folder = self.directory.join("events").join(folder_of(&trial.name));
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(events::file_name()))?;
        let graph = recording.beginning.as_ref().map(|beginning| &*beginning.graph);
        events::write(graph, steps.clone(), &evaluations, BufWriter::new(file))?;
        // One seed and one launch are enough to look at; the numbers are of all.
        if trial.cluster.seed == report.seed && trial.repeat == 1 {
            let course = html::Course::new(&trial.name, steps, &evaluations);
            self.courses.push(course.with_timeline(self.timeline(trial)));
        }
        self.write(report)
    }

    /// The timeline of `trial`, if one was asked for.
    fn timeline(&self, trial: &Trial) -> Option<Timeline> {
        trial.cluster.timeline.as_ref()?;
        let path =
            [true, false].map(|is_only| timeline_file(&self.directory, &trial.name, is_only));
        let path = path.into_iter().find(|path| path.exists())?;
        let is_small = fs::metadata(&path).is_ok_and(|file| file.len() <= MOST_DRAWN);
        Timeline::read(&fs::read_to_string(path).ok().filter(|_| is_small)?)
    }

    fn write(&self, report: &Report) -> io::Result<()> {
        let [page, result] = WHOLE;
        self.write_whole(page, |file| html::write(report, &self.courses, BufWriter::new(file)))?;
        self.write_whole(result, |file| json::write(report, file))
    }

    /// Writes the file `name` beside the one that is there, and then takes its place: where there
    /// is no room, the old one stays.
    fn write_whole(
        &self,
        name: &str,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.new"));
        let written = File::create(&new).and_then(|file| write(&file));
        let moved = written.and_then(|()| fs::rename(&new, self.directory.join(name)));
        moved.inspect_err(|_| {
            fs::remove_file(&new).ok(); // the first error counts
        })
    }
}

/// Opens `path` for one process alone.
fn locked(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        // On a file system without locks, two reports may mix.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let why = "another run writes its results there; give each a folder of its own";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_one_report_at_a_time_and_the_next_one_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let first = Files::create(folder.path()).unwrap();
        fs::write(folder.path().join("result.json"), "{}").unwrap();
        let second = Files::create(folder.path()).err().expect("the first is being written");
        assert!(second.to_string().contains("a folder of its own"), "{second}");
        assert!(folder.path().join("result.json").exists(), "it is still the first one's");
        drop(first);
        Files::create(folder.path()).unwrap();
        assert!(!folder.path().join("result.json").exists());
    }
}
