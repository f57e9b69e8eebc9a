//! The event file of a deployed run, which grows while the run goes on.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::event_file::{self, GrowingFile};
use crate::experiment::trial::folder_of;
use crate::report::events::{self, Events};
use crate::training::{Beginning, Fact, Recording, Watch};

/// Writes the event file below `directory` of the run called `run`, which is over and `began` at
/// this date.
pub(super) fn write(
    directory: &Path,
    run: &str,
    began: Duration,
    recording: &Recording,
) -> io::Result<()> {
    let (file, _) = create(directory, run, began)?;
    events::write(recording, began.as_secs_f64(), BufWriter::new(file))
}

fn create(directory: &Path, run: &str, began: Duration) -> io::Result<(File, PathBuf)> {
    let folder = directory.join("events").join(folder_of(run));
    fs::create_dir_all(&folder)?;
    event_file::create_new(&folder, &events::file_name(began.as_secs()))
}

/// The event file of a deployed run. It is made when there is a step or an evaluation, and has each
/// at once; what goes wrong with it is told at the end. All clones are of one file.
#[derive(Clone)]
pub(crate) struct EventLog(Arc<Mutex<Log>>);

struct Log {
    directory: PathBuf,
    run: String,
    began: Duration,
    /// The graph, which the file has once it is made.
    graph: Option<Vec<u8>>,
    events: Option<Events<GrowingFile>>,
}

impl EventLog {
    /// The file below `directory` of the run called `run`, of a deployment that began at the date
    /// `began`.
    pub(crate) fn new(directory: &Path, run: &str, began: Duration) -> Self {
        let (directory, run) = (directory.to_owned(), run.to_owned());
        Self(Arc::new(Mutex::new(Log { directory, run, began, graph: None, events: None })))
    }

    /// Writes what it is called with.
    pub(crate) fn recorder(&self) -> Rc<dyn Fn(Fact)> {
        let log = self.clone();
        Rc::new(move |fact| log.add(&fact))
    }

    fn add(&self, fact: &Fact) {
        self.lock().add(fact).expect("a growing file tells its error at the end");
    }

    /// Writes what belongs to the end of the run, which has this `recording`.
    ///
    /// # Errors
    /// If the file could not be written, now or earlier.
    pub(super) fn finish(self, recording: &Recording) -> io::Result<()> {
        let mut log = self.lock();
        log.events()?.histograms(recording)?;
        log.events.take().map_or(Ok(()), |events| events.into_out().finish().map(drop))
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        let events = self.lock().events.take();
        match events.map(|events| events.into_out().finish()) {
            Some(Ok(path)) => {
                fs::remove_file(&path).ok(); // a file too many does no harm
                if let Some(folder) = path.parent() {
                    fs::remove_dir(folder).ok(); // it stays if something else is in it
                }
            }
            Some(Err(error)) => tracing::warn!(%error, "a file of events may be left behind"),
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().expect("nobody panics while it is written")
    }
}

impl Watch for EventLog {
    fn fact(&mut self, fact: &Fact) {
        self.add(fact);
    }
}

impl Log {
    fn add(&mut self, fact: &Fact) -> io::Result<()> {
        match fact {
            // A chief that was started again tells the same one.
            Fact::Began(Beginning { graph, .. }) if self.graph.as_ref() == Some(graph) => Ok(()),
            Fact::Began(Beginning { graph, .. }) => {
                self.graph = Some(graph.clone());
                // Steps of other workers may have come before it.
                self.events.as_mut().map_or(Ok(()), |events| events.graph(graph.clone()))
            }
            Fact::Step(step) => self.events()?.step(step),
            Fact::Evaluated(evaluation) => self.events()?.evaluation(evaluation),
            _ => Ok(()),
        }
    }

    /// The events, which begin with the graph.
    fn events(&mut self) -> io::Result<&mut Events<GrowingFile>> {
        if self.events.is_none() {
            let (directory, run, began) = (self.directory.clone(), self.run.clone(), self.began);
            let file = GrowingFile::start(move || create(&directory, &run, began));
            let mut events = Events::new(file, began.as_secs_f64())?;
            if let Some(graph) = &self.graph {
                events.graph(graph.clone())?;
            }
            self.events = Some(events);
        }
        Ok(self.events.as_mut().expect("they have begun"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, WallClock};
    use crate::event_file::reading::{Scalars, read_graphs, read_histograms, read_scalars};
    use crate::training::{Evaluation, SharedRecording, StepStats};
    use crate::units::Time;

    const BEGAN: Duration = Duration::from_secs(1_700_000_000);

    fn step(worker: u32, n: u64) -> Fact {
        let times = (Time(n * 1_000_000), Time((n + 1) * 1_000_000));
        let stats = StepStats::applied(worker, (n, n + 1), times);
        Fact::Step(StepStats { loss: Some(1.0 / n as f32), ..stats })
    }

    fn evaluation(n: u64) -> Fact {
        let at = Time(n * 1_000_000);
        Fact::Evaluated(Evaluation { global_step: n, at, loss: 0.5, accuracy: 0.25 })
    }

    /// The log of a run `a` in `folder`, and the recording that it watches.
    fn watched(folder: &Path) -> (EventLog, SharedRecording) {
        let log = EventLog::new(folder, "a", BEGAN);
        (log.clone(), SharedRecording::showing(log))
    }

    /// The event files of the run `a` in `folder`.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder.join("events/a")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The event file, once it has `count` events with scalars.
    fn file_of(folder: &Path, count: usize) -> Vec<u8> {
        let (clock, limit) = (WallClock::new(), Time(10_000_000_000));
        loop {
            let file = files(folder).first().map(|path| fs::read(path).unwrap());
            if let Some(file) =
                file.filter(|file| is_whole(file) && read_scalars(file).len() == count)
            {
                return file;
            }
            assert!(clock.now() < limit, "it does not get {count} events");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Whether `file` has an event, and ends with the end of one.
    fn is_whole(mut file: &[u8]) -> bool {
        let is_there = !file.is_empty();
        while let Some((length, rest)) = file.split_first_chunk::<8>() {
            let end = u64::from_le_bytes(*length) as usize + 8;
            let Some(after) = rest.get(end..) else { return false };
            file = after;
        }
        is_there && file.is_empty()
    }

    /// The scalars in the file that is written of `recording` as a whole.
    fn scalars_of(recording: &Recording) -> Vec<Scalars> {
        let mut file = Vec::new();
        events::write(recording, BEGAN.as_secs_f64(), &mut file).unwrap();
        read_scalars(&file)
    }

    fn beginning() -> Fact {
        Fact::Began(Beginning { parameters: 1, graph: b"graph".to_vec() })
    }

    #[test]
    fn an_event_file_has_each_step_and_evaluation_while_the_run_goes_on_and_all_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (log, recording) = watched(folder.path());
        recording.record(beginning());
        let facts = [step(0, 1), step(1, 1), step(0, 2), evaluation(2), step(1, 2)];
        for (count, fact) in (1..).zip(facts) {
            recording.record(fact);
            let file = file_of(folder.path(), count);
            assert_eq!(read_graphs(&file), [b"graph"]);
            assert!(read_histograms(&file).is_empty());
        }
        let recording = recording.finish();
        log.finish(&recording).unwrap();
        let file = file_of(folder.path(), 5);
        let (mut live, mut whole) = (read_scalars(&file), scalars_of(&recording));
        for scalars in [&mut live, &mut whole] {
            scalars.sort_by(|a, b| (a.0, &a.2[0].0).cmp(&(b.0, &b.2[0].0)));
        }
        assert_eq!(live, whole);
        assert_eq!(read_histograms(&file).len(), 2 * 4, "two for each of four stretches");
    }

    #[test]
    fn an_event_file_has_a_graph_once_that_is_told_after_a_step_and_by_a_chief_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let (log, recording) = watched(folder.path());
        [step(1, 1), beginning(), beginning()].into_iter().for_each(|fact| recording.record(fact));
        log.finish(&recording.finish()).unwrap();
        assert_eq!(read_graphs(&file_of(folder.path(), 1)), [b"graph"]);
    }

    #[test]
    fn a_run_that_fails_keeps_its_events_and_one_with_nothing_to_do_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (log, recording) = watched(folder.path());
        recording.record(beginning());
        drop((log, recording));
        assert!(!folder.path().join("events").exists(), "there is nothing to see");
        for is_kept in [false, true] {
            let (log, recording) = watched(folder.path());
            recording.record(evaluation(3));
            drop(recording);
            match is_kept {
                true => drop(log),
                false => log.discard(),
            }
            assert_eq!(folder.path().join("events/a").exists(), is_kept);
        }
        assert_eq!(read_scalars(&fs::read(&files(folder.path())[0]).unwrap()).len(), 1);
    }

    #[test]
    fn a_file_that_can_not_be_written_is_told_at_the_end_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("events"), "in the way").unwrap();
        let (log, recording) = watched(folder.path());
        (1..100).for_each(|n| recording.record(step(0, n)));
        assert!(log.finish(&recording.finish()).is_err());
    }
}
