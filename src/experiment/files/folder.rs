//! The folder of a report: one process's at a time. What an earlier report has left there is
//! removed, or set aside.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::report::events;

/// The files that a report has once, and that are written again as runs are added.
pub(super) const WHOLE: [&str; 2] = ["report.html", "result.json"];

/// The files of rows, which are appended to.
pub(super) const ROWS: [&str; 2] = ["steps.csv", "evaluations.csv"];

/// What is written before the runs begin, and is gone at once, to see that there is room [bytes].
const TRIAL: usize = 4 << 10;

/// A folder that takes the report of this process and no other. What is in it is as it was.
pub(crate) struct ReportFolder {
    directory: PathBuf,
    /// The file of the steps, which is locked.
    steps: File,
    /// Whether it has got a report.
    is_used: bool,
}

impl ReportFolder {
    /// The folder `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// If it can't be made or written to, its disk is full, or another report is being written
    /// there.
    pub(crate) fn lock(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        let steps = locked(&directory.join(ROWS[0]))?;
        tempfile::tempfile_in(&directory)?.write_all(&[0; TRIAL])?;
        Ok(Self { directory, steps, is_used: false })
    }

    /// The folder's path.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether an earlier report is there.
    pub(crate) fn has_result(&self) -> bool {
        let [_, result] = WHOLE;
        self.directory.join(result).exists()
    }

    /// The files of rows, empty, with the lock.
    pub(super) fn begin_rows(&mut self) -> io::Result<[File; 2]> {
        self.is_used = true;
        let [_, evaluations] = ROWS;
        let steps = self.steps.try_clone()?;
        steps.set_len(0)?;
        Ok([steps, File::create(self.directory.join(evaluations))?])
    }

    /// Whether the earlier report is a deployment's.
    pub(super) fn has_deployment(&self) -> bool {
        let [_, result] = WHOLE;
        let text = fs::read(self.directory.join(result)).unwrap_or_default();
        let report = serde_json::from_slice::<serde_json::Value>(&text);
        report.is_ok_and(|report| report["world"] == "deployment")
    }

    /// Moves the files of an earlier report, if there is one, to a folder of their own, which is
    /// returned: `earlier-1`, `earlier-2` and so on. Its event files stay: the next ones have other
    /// names, and TensorBoard draws all of them as one training.
    pub(super) fn set_aside_earlier(&mut self) -> io::Result<Option<PathBuf>> {
        let mut earlier = whole_of(&self.directory)?;
        let rows = ROWS.iter().map(|name| self.directory.join(name));
        earlier.extend(rows.filter(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0)));
        if earlier.is_empty() {
            return Ok(None);
        }
        let aside = new_folder(&self.directory)?;
        for path in earlier {
            fs::rename(&path, aside.join(path.file_name().unwrap_or_default()))?;
        }
        // Where there were no steps the file is still there, and this process's lock with it.
        let steps = self.directory.join(ROWS[0]);
        if !steps.exists() {
            self.steps = locked(&steps)?;
        }
        Ok(Some(aside))
    }
}

impl Drop for ReportFolder {
    /// A folder that has got no report is left as it was.
    fn drop(&mut self) {
        if !self.is_used && self.steps.metadata().is_ok_and(|file| file.len() == 0) {
            fs::remove_file(self.directory.join(ROWS[0])).ok(); // an empty file does no harm
        }
    }
}

/// Removes what an earlier report has left in `directory`, but for its rows, and for what a
/// deployment has left in `events`: a run that fails now must not have its results.
pub(super) fn remove_earlier(directory: &Path) -> io::Result<()> {
    whole_of(directory)?.iter().try_for_each(fs::remove_file)?;
    for run in entries(&directory.join("events"))? {
        let file = run.join(events::file_name(0));
        if file.is_file() {
            fs::remove_file(file)?;
            // It stays if something else is in it.
            fs::remove_dir(run).ok();
        }
    }
    Ok(())
}

/// The files of a report in `directory` that are written as a whole.
fn whole_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let stem = name.strip_suffix(".json").unwrap_or_default();
        let is_timeline = stem == "timeline" || stem.starts_with("timeline-");
        (is_timeline || WHOLE.contains(&name)) && path.is_file()
    };
    Ok(entries(directory)?.into_iter().filter(is_ours).collect())
}

/// What is in `folder`: nothing if there is no such folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(_) => Ok(Vec::new()),
    }
}

/// A folder in `directory` for the files of an earlier report.
fn new_folder(directory: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let folder = directory.join(format!("earlier-{number}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    unreachable!("a folder has fewer entries than there are numbers")
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
