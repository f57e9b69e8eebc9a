//! The tapes of a run: those of all lives of all its tasks, on one clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::{self, Header, Tape};
use super::{Entry, Event, TapeError};
use crate::cluster::TaskName;
use crate::transport::Loss;
use crate::units::Time;

/// How the names of tapes end.
pub(super) const EXTENSION: &str = "tape";

/// The tapes of a run.
#[derive(Clone, Debug)]
pub struct Tapes {
    /// The folder that they are in.
    folder: String,
    /// What the first of them says of the run.
    header: Header,
    /// By task, in the order of the cluster: its lives.
    lives: Vec<Vec<Life>>,
}

/// The tape of one life of a task.
#[derive(Clone, Debug)]
pub struct Life {
    /// When it began. All times of a run are since its first task began.
    pub began: Time,
    /// What it received, in order.
    pub entries: Vec<Entry>,
    /// When it was killed, unless it ended by itself: after all that is known of it.
    pub died: Option<Time>,
}

impl Tapes {
    /// Reads the tapes in `folder`.
    ///
    /// # Errors
    /// If there are none, if one can't be read or is damaged, or if they are of several runs.
    pub fn load(folder: &Path) -> Result<Self, TapeError> {
        let shown = folder.display().to_string();
        let mut tapes = Vec::new();
        for path in files(folder)? {
            tapes.push((path.display().to_string(), file::load(&path)?));
        }
        let Some((_, first)) = tapes.first() else {
            return Err(TapeError::None { folder: shown, within: folders(folder) });
        };
        let header = first.header.clone();
        for (path, tape) in &tapes {
            check(path, &tape.header, &header)?;
        }
        let zero = tapes.iter().map(|(_, tape)| tape.header.began).min().unwrap_or(0);
        let mut lives: BTreeMap<TaskName, Vec<(u64, Life)>> = BTreeMap::new();
        for (_, Tape { header, entries, .. }) in tapes {
            let late = header.began - zero;
            let later = |entry: Entry| Entry { at: Time(entry.at.0.saturating_add(late)), ..entry };
            let entries = entries.into_iter().map(later).collect();
            let life = Life { began: Time(late), entries, died: None };
            lives.entry(header.task).or_default().push((header.began, life));
        }
        let of_task = |task: &TaskName| {
            let mut own = lives.remove(task).unwrap_or_default();
            own.sort_by_key(|(began, _)| *began);
            own.into_iter().map(|(_, life)| life).collect()
        };
        let lives: Vec<Vec<Life>> = header.tasks.iter().map(of_task).collect();
        if let Some(task) = lives.iter().position(Vec::is_empty) {
            let task = header.tasks[task].clone();
            return Err(TapeError::Missing { folder: shown, task });
        }
        let mut tapes = Self { folder: shown, header, lives };
        tapes.find_deaths();
        Ok(tapes)
    }

    /// Tapes of `tasks`, as if they had been read.
    #[cfg(test)]
    pub(crate) fn of(tasks: Vec<TaskName>, lives: Vec<Vec<Life>>) -> Self {
        let header = Header {
            scenario: String::new(),
            run: String::new(),
            how: String::new(),
            seed: 0,
            program: 0,
            task: tasks[0].clone(),
            tasks,
            began: 0,
        };
        Self { folder: String::new(), header, lives }
    }

    /// What the tapes were recorded in.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The tasks of the cluster.
    pub fn tasks(&self) -> &[TaskName] {
        &self.header.tasks
    }

    /// The lives of the task of this number, in order.
    pub fn lives(&self, task: usize) -> &[Life] {
        &self.lives[task]
    }

    /// The digest of the weights that the run ended with, if it did.
    pub fn weights(&self) -> Option<u64> {
        let entries = self.lives.iter().flatten().flat_map(|life| &life.entries);
        entries
            .filter_map(|entry| match entry.event {
                Event::Ended { weights, .. } => weights,
                _ => None,
            })
            .next_back()
    }

    /// Whether a task was lost by another, other than by its orderly end.
    pub(crate) fn has_losses(&self) -> bool {
        let mut entries = self.lives.iter().flatten().flat_map(|life| &life.entries);
        entries
            .any(|entry| matches!(entry.event, Event::Lost { loss, .. } if loss != Loss::Stopped))
    }

    /// Checks that they were recorded in the run of `own`.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check(&self, own: &Header) -> Result<(), TapeError> {
        check(&self.folder, &self.header, own)
    }

    /// Finds when each killed life died: after the last message that it received, and after the
    /// last that others received from it.
    fn find_deaths(&mut self) {
        for task in 0..self.lives.len() {
            for life in 0..self.lives[task].len() {
                let next = self.lives[task].get(life + 1).map(|next| next.began);
                let own = &self.lives[task][life];
                let last = own.entries.last();
                if last.is_some_and(|entry| matches!(entry.event, Event::Ended { .. })) {
                    continue;
                }
                let last = last.map_or(own.began, |entry| entry.at);
                let until = next.unwrap_or(Time(u64::MAX));
                let heard = self.last_heard(task, (own.began, until)).unwrap_or(last);
                self.lives[task][life].died = Some(Time(last.max(heard).0.saturating_add(1)));
            }
        }
    }

    /// When others last received something of `task` between two times.
    fn last_heard(&self, task: usize, (from, until): (Time, Time)) -> Option<Time> {
        let entries = self.lives.iter().flatten().flat_map(|life| &life.entries);
        let of_task = |entry: &&Entry| match &entry.event {
            Event::Received { from, .. } => *from as usize == task,
            _ => false,
        };
        let times = entries.filter(of_task).map(|entry| entry.at);
        times.filter(|at| (from..until).contains(at)).max()
    }
}

/// Checks that the tape at `path` was recorded in the run of `own`.
fn check(path: &str, tape: &Header, own: &Header) -> Result<(), TapeError> {
    let list =
        |tasks: &[TaskName]| tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let both = [
        ("the scenario", tape.scenario.clone(), own.scenario.clone()),
        (TapeError::RUN, tape.run.clone(), own.run.clone()),
        ("the mode", tape.how.clone(), own.how.clone()),
        ("the seed", tape.seed.to_string(), own.seed.to_string()),
        ("the tasks", list(&tape.tasks), list(&own.tasks)),
        ("the program of hash", hex(tape.program), hex(own.program)),
    ];
    match both.into_iter().find(|(_, tape, run)| tape != run) {
        Some((what, tape, run)) => {
            Err(TapeError::Foreign { path: path.to_owned(), what, tape, run })
        }
        None => Ok(()),
    }
}

fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The tapes in `folder`, in the order of their names.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, TapeError> {
    let failed = || TapeError::system(format!("read the folder {}", folder.display()));
    let mut files = Vec::new();
    for file in fs::read_dir(folder).map_err(failed())? {
        let path = file.map_err(failed())?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The folders in `folder` that have tapes, in quotes, each with the flag that names its run.
fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let has_tapes = |path: &PathBuf| files(path).is_ok_and(|tapes| !tapes.is_empty());
    let with_run = |path: PathBuf| {
        let first = files(&path).ok().and_then(|tapes| file::load(tapes.first()?).ok());
        let run = first.map(|tape| format!(" (with `--run '{}'`)", tape.header.run));
        format!("`{}`{}", path.display(), run.unwrap_or_default())
    };
    let found = entries.map(|entry| entry.path()).filter(has_tapes);
    let mut found: Vec<String> = found.map(with_run).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_of_another_run_names_the_flag_and_one_of_another_seed_does_not() {
        let header = Tapes::of(vec![TaskName::new("ps", 0)], Vec::new()).header;
        let said = |own: Header| check("a.tape", &header, &own).unwrap_err().to_string();
        let of_run = said(Header { run: "b".to_owned(), ..header.clone() });
        assert!(of_run.ends_with(&format!("; add `--run '{}'`", header.run)), "{of_run}");
        let of_seed = said(Header { seed: header.seed + 1, ..header.clone() });
        assert!(of_seed.ends_with(" that it was recorded with"), "{of_seed}");
    }

    #[test]
    fn a_life_that_lasts_to_the_end_of_the_clock_dies_there() {
        let end = Time(u64::MAX);
        let entry = Entry { at: end, event: Event::Computed { device: 0 } };
        let life = Life { began: Time::ZERO, entries: vec![entry], died: None };
        let mut tapes = Tapes::of(vec![TaskName::new("ps", 0)], vec![vec![life]]);
        tapes.find_deaths();
        assert_eq!(tapes.lives(0)[0].died, Some(end));
    }
}
