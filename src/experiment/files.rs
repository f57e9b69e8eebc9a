//! The files of a report in a folder. They are written run by run, so that a later failure loses
//! nothing.

mod event_log;
mod folder;

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::trial::folder_of;
use super::{Trial, summary};
use crate::clock::{Clock, WallClock};
use crate::report::{Report, Timeline, csv, html, json};
use crate::training::Recording;
use crate::units::Time;

pub(crate) use event_log::EventLog;
pub(crate) use folder::ReportFolder;
use folder::{ROWS, WHOLE, remove_earlier};

/// The largest timeline that is drawn on the page \[bytes\].
const MOST_DRAWN: u64 = 32 << 20;

/// The file in `directory` for the timeline of a run, which is the only one or one of several.
pub(crate) fn timeline_file(directory: &Path, run: &str, is_only: bool) -> PathBuf {
    directory.join(match is_only {
        true => "timeline.json".to_owned(),
        false => format!("timeline-{}.json", folder_of(run)),
    })
}

/// The time between two writings of the whole files, as a multiple of the time of the first.
/// Without it the time of a long sweep would grow with the square of its runs.
const APART: u32 = 20;

/// A folder with `report.html`, `result.json`, `steps.csv`, `evaluations.csv`, and `events/` for
/// TensorBoard.
pub struct Files {
    directory: PathBuf,
    /// The date when the runs began; zero for simulations, whose files are to be the same again.
    began: Duration,
    steps: csv::Steps<File>,
    evaluations: csv::Evaluations<File>,
    courses: Vec<html::Course>,
    clock: WallClock,
    /// When the whole files are due to be written again.
    due: Time,
    /// Whether they lack a run.
    is_behind: bool,
}

shown!(Files, directory);

impl Files {
    /// The files of a new report in `directory`, which is made if it is missing. Those of an
    /// earlier report there go; a deployment's, which no run comes to again, are set aside into a
    /// folder below it.
    ///
    /// # Errors
    /// If they can't be created, or another report is being written there.
    pub fn create(directory: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self::in_place_of_earlier(directory)?.0)
    }

    /// As [`Self::create`], and the folder into which a deployment's files were set aside.
    pub(crate) fn in_place_of_earlier(
        directory: impl Into<PathBuf>,
    ) -> io::Result<(Self, Option<PathBuf>)> {
        let mut folder = ReportFolder::lock(directory)?;
        let aside = if folder.has_deployment() { folder.set_aside_earlier()? } else { None };
        remove_earlier(folder.directory())?;
        Ok((Self::begin(&mut folder, Duration::ZERO)?, aside))
    }

    /// The files in `folder` of a report on a deployment that began at the date `began`. Those of
    /// an earlier report there are set aside, into the folder that is returned.
    ///
    /// # Errors
    /// If they can't be created, or the earlier ones moved.
    pub(crate) fn beside_earlier(
        mut folder: ReportFolder,
        began: Duration,
    ) -> io::Result<(Self, Option<PathBuf>)> {
        let aside = folder.set_aside_earlier()?;
        Ok((Self::begin(&mut folder, began)?, aside))
    }

    fn begin(folder: &mut ReportFolder, began: Duration) -> io::Result<Self> {
        let [steps, evaluations] = folder.begin_rows()?;
        Ok(Self {
            directory: folder.directory().to_owned(),
            began,
            steps: csv::Steps::new(steps)?,
            evaluations: csv::Evaluations::new(evaluations)?,
            courses: Vec::new(),
            clock: WallClock::new(),
            due: Time::ZERO,
            is_behind: false,
        })
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
    /// `report.html` and `result.json` have it at once if it is the last of all; else they may have
    /// it a little later, so that at most one part in 20 of the time goes to them.
    /// [`Self::finish`] writes what they lack.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn append(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
    ) -> io::Result<()> {
        self.append_beside(None, report, trial, recording)
    }

    /// As [`Self::append`]; `events` is the run's event file, if it has one by now. Where that
    /// can't be written, the others are all the same.
    ///
    /// # Errors
    /// If they can't be written, or the event file could not.
    pub(crate) fn append_beside(
        &mut self,
        events: Option<EventLog>,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
    ) -> io::Result<()> {
        let written = match events {
            Some(events) => events.finish(recording),
            None => event_log::write(&self.directory, &trial.name, self.began, recording),
        };
        self.append_rows(report, trial, recording).and(written)
    }

    /// Appends to all files but those of events.
    fn append_rows(
        &mut self,
        report: &Report,
        trial: &Trial,
        recording: &Recording,
    ) -> io::Result<()> {
        let steps = recording.steps();
        let evaluations = summary::evaluations(trial, recording);
        self.steps.append(&trial.name, steps.clone())?;
        self.evaluations.append(&trial.name, &evaluations)?;
        // One seed and one launch are enough to look at; the numbers are of all.
        if trial.cluster.seed == report.seed && trial.repeat == 1 {
            let course = html::Course::new(&trial.name, steps, &evaluations);
            self.courses.push(course.with_timeline(self.timeline(trial)));
        }
        self.is_behind = true;
        if report.complete || self.clock.now() >= self.due { self.write(report) } else { Ok(()) }
    }

    /// Writes the runs of `report` that `report.html` and `result.json` lack.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn finish(&mut self, report: &Report) -> io::Result<()> {
        if self.is_behind { self.write(report) } else { Ok(()) }
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

    fn write(&mut self, report: &Report) -> io::Result<()> {
        let ([page, result], began) = (WHOLE, self.clock.now());
        self.write_whole(page, |file| html::write(report, &self.courses, BufWriter::new(file)))?;
        self.write_whole(result, |file| json::write(report, file))?;
        let ended = self.clock.now();
        self.due = ended.after(ended.since(began) * APART);
        self.is_behind = false;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::report::World;
    use crate::training::train;

    #[test]
    fn a_folder_takes_one_report_at_a_time_and_the_next_one_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let first = Files::create(folder.path()).unwrap();
        fs::write(folder.path().join("result.json"), "{}").unwrap();
        let second = Files::create(folder.path()).expect_err("the first is being written");
        assert!(second.to_string().contains("a folder of its own"), "{second}");
        assert!(folder.path().join("result.json").exists(), "it is still the first one's");
        drop(first);
        Files::create(folder.path()).unwrap();
        assert!(!folder.path().join("result.json").exists());
    }

    #[test]
    fn what_an_earlier_deployment_left_is_set_aside_and_a_folder_that_gets_nothing_stays_as_it_was()
    {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        drop(ReportFolder::lock(folder.path()).unwrap());
        assert!(!path("steps.csv").exists());
        let begin = || {
            let folder = ReportFolder::lock(folder.path()).unwrap();
            Files::beside_earlier(folder, Duration::from_secs(7)).unwrap()
        };
        let (first, aside) = begin();
        assert_eq!(aside, None);
        drop(first);
        for life in ["first", "second"] {
            fs::write(path("steps.csv"), life).unwrap();
            fs::write(path("result.json"), life).unwrap();
            drop(ReportFolder::lock(folder.path()).unwrap());
            assert_eq!(fs::read_to_string(path("result.json")).unwrap(), life);
            let (files, aside) = begin();
            assert!(ReportFolder::lock(folder.path()).is_err(), "the new file is locked");
            drop(files);
            let aside = aside.expect("there was something");
            for name in ["steps.csv", "result.json"] {
                assert_eq!(fs::read_to_string(aside.join(name)).unwrap(), life);
            }
            assert!(!path("result.json").exists());
        }
        assert!(path("earlier-1").exists() && path("earlier-2").exists());
    }

    #[test]
    fn a_simulation_sets_the_result_of_a_deployment_aside() {
        let folder = tempfile::tempdir().unwrap();
        let result = folder.path().join("result.json");
        let left_of = |world: &str| {
            fs::write(&result, format!("{{\"world\": \"{world}\"}}")).unwrap();
            let (_, aside) = Files::in_place_of_earlier(folder.path()).unwrap();
            assert!(!result.exists());
            aside
        };
        assert_eq!(left_of("simulation"), None);
        let aside = left_of("deployment").expect("it had a result");
        assert!(aside.ends_with("earlier-1") && aside.join("result.json").exists());
    }

    #[test]
    fn the_result_of_many_runs_is_whole_at_any_time_is_written_seldom_and_has_all_in_the_end() {
        const RUNS: usize = 200;
        let text = "[program]\nmodel = 'softmax'\nbatch = 1\n[stop]\nsteps = 1\n";
        let experiment = Experiment::parse(text).unwrap();
        let trial = experiment.trials_in(World::Simulation).unwrap().remove(0);
        let mut report =
            experiment.report(std::slice::from_ref(&trial), World::Simulation).unwrap();
        let simulated = trial.simulate(&train);
        let run = trial.report(&simulated).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(folder.path()).unwrap();
        let read = || {
            let text = fs::read_to_string(folder.path().join("result.json")).unwrap();
            let result: serde_json::Value = serde_json::from_str(&text).unwrap();
            result["runs"].as_array().unwrap().len()
        };
        let mut had = std::collections::BTreeSet::new();
        for _ in 0..RUNS {
            report.add(run.clone(), RUNS + 1);
            files.append(&report, &trial, &simulated.recording).unwrap();
            had.insert(read());
        }
        assert!(had.contains(&1) && had.len() < RUNS / 2, "{had:?}");
        files.finish(&report).unwrap();
        assert_eq!(read(), RUNS);
        report.add(run, RUNS + 1);
        files.append(&report, &trial, &simulated.recording).unwrap();
        assert_eq!(read(), RUNS + 1, "the last of all is there at once");
    }
}
