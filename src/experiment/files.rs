//! The files of a report in a folder. They are written run by run, so that a later failure loses
//! nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use super::{Trial, summary};
use crate::report::{Report, csv, events, html, json};
use crate::training::Recording;

/// A folder with `report.html`, `result.json`, `steps.csv`, `evaluations.csv`, and `events/` for
/// TensorBoard.
pub struct Files {
    directory: PathBuf,
    steps: csv::Steps<File>,
    evaluations: csv::Evaluations<File>,
    courses: Vec<html::Course>,
}

impl Files {
    /// The files of a new report in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// If they can't be created.
    pub fn create(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        let steps = csv::Steps::new(File::create(directory.join("steps.csv"))?)?;
        let evaluations = csv::Evaluations::new(File::create(directory.join("evaluations.csv"))?)?;
        Ok(Self { directory, steps, evaluations, courses: Vec::new() })
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
        self.steps.append(&trial.name, &steps)?;
        self.evaluations.append(&trial.name, &evaluations)?;
        let folder = self.directory.join("events").join(trial.name.replace(['/', '\\'], "_"));
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(events::file_name()))?;
        events::write(&steps, &evaluations, BufWriter::new(file))?;
        // One seed and one launch are enough to look at; the numbers are of all.
        if trial.cluster.seed == report.seed && trial.repeat == 1 {
            self.courses.push(html::Course::new(&trial.name, &steps, &evaluations));
        }
        self.write(report)
    }

    fn write(&self, report: &Report) -> io::Result<()> {
        let page = BufWriter::new(File::create(self.directory.join("report.html"))?);
        html::write(report, &self.courses, page)?;
        json::write(report, File::create(self.directory.join("result.json"))?)
    }
}
