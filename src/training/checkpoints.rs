//! The checkpoints of a training: its chief saves and finds them, on a thread beside the actors.

mod noted_store;
mod store_work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::checkpoint::{CheckpointError, Restored, Saved, Saver, SavingTask, Slice, Snapshot};
use crate::graph::VariablePart;
use crate::process::{lacks_files, more_files};
use crate::runtime::{Code, Error, Result};
use crate::tensor::Shape;
use crate::units::{BytesPerSecond, seconds};

use super::checkpointing::Checkpointing;
use super::task::Task;
use noted_store::NotedStore;
use store_work::{Purpose, StoreWork};

/// Advice where a folder can not be made or written to.
const ELSEWHERE: &str = "; name a folder for checkpoints (`checkpoint.directory`) that this task \
                         may make and write to";
/// Advice where the checkpoint was saved by another model.
const OTHER_MODEL: &str = "; go on with the model that was saved, or name another folder for \
                           checkpoints (`checkpoint.directory`); a program that trains several \
                           models builds a session with `checkpoint_dir` or `without_checkpoints`";
/// Advice where another chief has taken over.
const FOLDER_OF_ITS_OWN: &str = "; if that one is of another training, give each a folder of its \
                                 own (`checkpoint.directory`)";
/// Advice where another training has the folder.
const NAME_THE_FOLDER: &str = " (`checkpoint.directory`)";

/// The checkpoints of a training, as its chief writes and reads them.
#[derive(Clone)]
pub(super) struct Checkpoints {
    saver: Arc<Mutex<Saver>>,
    work: StoreWork,
    place: Arc<str>,
    /// Whether the saver has still to take over the checkpoints: there was no room to say so.
    must_take_over: Arc<AtomicBool>,
    write_rate: Option<BytesPerSecond>,
    read_rate: Option<BytesPerSecond>,
}

impl Checkpoints {
    pub(super) fn new(checkpointing: &Checkpointing) -> Self {
        let store = Arc::new(NotedStore::new(Arc::clone(&checkpointing.store)));
        let work = StoreWork::new(&store);
        Self {
            saver: Arc::new(Mutex::new(Saver::new(store, checkpointing.retention))),
            work,
            place: checkpointing.store.locate("").into(),
            must_take_over: Arc::default(),
            write_rate: checkpointing.write_rate,
            read_rate: checkpointing.read_rate,
        }
    }

    /// The newest complete checkpoint, if there is one. Incomplete ones are named in the log. From
    /// now on no earlier incarnation of the chief saves.
    ///
    /// # Errors
    /// If the store can't be read, or if there are checkpoints and none of them is complete: a
    /// training that began anew in their place would lose what they might still hold. Of class
    /// `DeadlineExceeded` if the store does not answer.
    pub(super) async fn latest(&self, task: &Task) -> Result<Option<Restored>> {
        let (must_take_over, own) = (Arc::clone(&self.must_take_over), saving_task(task));
        let look = move |saver: &mut Saver| {
            let not_taken = match saver.take_over_as(&own) {
                // What is saved can be restored even so; before the next save it tries again.
                Err(error) if error.is_for_lack_of_room() => {
                    must_take_over.store(true, Ordering::Relaxed);
                    Some(error)
                }
                taken => taken.map(|()| None)?,
            };
            let found = saver.latest()?;
            if let (Some(error), true) = (not_taken, found.checkpoint.is_some()) {
                tracing::warn!(%error, "the checkpoints can be read and not written");
            }
            Ok(found)
        };
        let found = self.with_saver(task, Purpose::read("to find the newest checkpoint"), look);
        let found = found.await.inspect_err(|_| {
            // It may yet; then this does nothing.
            self.must_take_over.store(true, Ordering::Relaxed);
        });
        let found = found?.map_err(try_again_if_transient)?;
        for rejected in &found.rejected {
            tracing::warn!("passed over a checkpoint: {rejected}");
        }
        match (found.checkpoint, found.rejected.first()) {
            (None, Some(rejected)) => {
                let message = format!(
                    "there are checkpoints, but none is whole, so that the training can't go on \
                     from one: {rejected}; mend them, or take them away to begin anew"
                );
                Err(Error::new(Code::DataLoss, message))
            }
            (Some(checkpoint), _) => self.read(task, checkpoint).await.map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The newest whole checkpoint, unless it is that of the step `known`. Whoever saves goes on
    /// saving. Incomplete ones are named in the log, each once.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(super) async fn newer(&self, task: &Task, known: Option<u64>) -> Result<Option<Restored>> {
        let look = move |saver: &mut Saver| saver.newer(known);
        let purpose = Purpose::read("to find the newest checkpoint");
        let found = self.with_saver(task, purpose, look).await?.map_err(try_again_if_transient)?;
        let Some(found) = found else { return Ok(None) };
        for rejected in &found.rejected {
            tracing::warn!("passed over a checkpoint: {rejected}");
        }
        match found.checkpoint.filter(|checkpoint| Some(checkpoint.global_step) != known) {
            Some(checkpoint) => self.read(task, checkpoint).await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes sure that checkpoints can be saved, before a training begins without any.
    ///
    /// # Errors
    /// If there is still no room to take over the checkpoints; of class `InvalidArgument` if their
    /// place can only be read.
    pub(super) async fn require_room(&self, task: &Task) -> Result<()> {
        if self.must_take_over.load(Ordering::Relaxed) {
            let (purpose, own) =
                (Purpose::write("to take over the checkpoints"), saving_task(task));
            let take_over = move |saver: &mut Saver| saver.take_over_as(&own);
            let taken = self.with_saver(task, purpose, take_over).await?;
            taken.map_err(refused_at_the_beginning)?;
            self.must_take_over.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The place where they are, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Lets the time pass that reading `checkpoint` takes in a simulation.
    async fn read(&self, task: &Task, checkpoint: Restored) -> Result<Restored> {
        task.take_simulated_time(span_of(checkpoint.bytes(), self.read_rate)).await;
        Ok(checkpoint)
    }

    /// Writes `snapshot`.
    ///
    /// # Errors
    /// If it can't be written. The earlier checkpoints are then unchanged; if the store does not
    /// answer, the new one may come to be there later.
    pub(super) async fn save(&self, task: &Task, snapshot: Snapshot) -> Result<Saved> {
        let (at, step) = (task.date(), snapshot.global_step);
        let must_take_over = self.must_take_over.load(Ordering::Relaxed);
        let taking_over = must_take_over.then(|| saving_task(task));
        let saving = move |saver: &mut Saver| {
            taking_over.map_or(Ok(()), |own| saver.take_over_as(&own))?;
            saver.save(&snapshot, at)
        };
        let purpose = Purpose::write(format!("to save the checkpoint of step {step}"));
        let saved = self.with_saver(task, purpose, saving).await??;
        if saved.is_new {
            task.take_simulated_time(span_of(saved.bytes, self.write_rate)).await;
        }
        Ok(saved)
    }

    /// Notes that the training of `task` has come to its end.
    pub(super) async fn note_end(&self, task: &Task) {
        let stop = task.settings().stop.conditions();
        let purpose = Purpose::write("to note the end of the training");
        let noted = self.with_saver(task, purpose, move |saver| saver.end(&stop)).await;
        if let Err(error) = noted.and_then(|noted| noted.map_err(Error::from)) {
            tracing::warn!(%error, "the end of the training can't be noted beside its checkpoints");
        }
    }

    /// The step of the last checkpoint of a training that has come to its end.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(super) async fn last_of_all(&self, task: &Task) -> Result<Option<u64>> {
        let stop = task.settings().stop.conditions();
        let look = move |saver: &mut Saver| match saver.ended()? {
            Some(ended) if ended == stop => saver.newest(),
            _ => Ok(None),
        };
        let purpose = Purpose::read("to see whether the training has ended");
        Ok(self.with_saver(task, purpose, look).await??)
    }

    /// The step of the newest, if there is any.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(super) async fn newest(&self, task: &Task) -> Result<Option<u64>> {
        let purpose = Purpose::read("to see whether there is a checkpoint");
        Ok(self.with_saver(task, purpose, |saver| saver.newest()).await??)
    }

    /// The error of a store that has been given up on, and has not answered yet: another save would
    /// only wait behind it. None if it answers.
    pub(super) fn hang(&self, task: &Task) -> Option<Error> {
        self.work.hang(task)
    }

    async fn with_saver<T: Send + 'static>(
        &self,
        task: &Task,
        purpose: Purpose,
        work: impl FnOnce(&mut Saver) -> T + Send + 'static,
    ) -> Result<T> {
        let saver = Arc::clone(&self.saver);
        let work = move || work(&mut saver.lock().unwrap_or_else(PoisonError::into_inner));
        self.work.run(task, &purpose, work).await
    }
}

/// The task that saves the checkpoints, as others read of it.
fn saving_task(task: &Task) -> SavingTask {
    SavingTask::new(task.name().to_string(), task.fingerprint(), task.date())
}

/// The time that so many bytes take at `rate`; none without one.
fn span_of(bytes: u64, rate: Option<BytesPerSecond>) -> Duration {
    seconds(rate.map_or(0.0, |rate| bytes as f64 / rate.0))
}

/// The session makes another try if the store may only have failed for a moment.
fn try_again_if_transient(error: CheckpointError) -> Error {
    let may_pass = error.is_transient() && !error.is_misplaced() && !error.lacks_files();
    let error = Error::from(error);
    if may_pass { Error { code: Code::Unavailable, ..error } } else { error }
}

/// A place that can only be read is a mistaken one where a training begins in it. One that goes on
/// may have found it so after a fault of the disk.
fn refused_at_the_beginning(error: CheckpointError) -> Error {
    match error.is_read_only() {
        true => Error::new(Code::InvalidArgument, format!("{error}{ELSEWHERE}")),
        false => error.into(),
    }
}

/// The slice by which a checkpoint names `part`. None for a scalar, which can't be sliced.
pub(super) fn part_as_slice(part: &VariablePart) -> Option<Slice> {
    let (full_name, full_shape, begin) = (part.whole.clone(), part.shape, part.begin);
    (full_shape != Shape::SCALAR).then_some(Slice { full_name, full_shape, begin })
}

impl From<CheckpointError> for Error {
    fn from(error: CheckpointError) -> Self {
        let (code, advice) = match &error {
            error if error.is_misplaced() => (Code::InvalidArgument, ELSEWHERE),
            CheckpointError::Store { source, .. } if lacks_files(source) => {
                (Code::ResourceExhausted, more_files(source))
            }
            CheckpointError::Location { .. } => (Code::InvalidArgument, ""),
            CheckpointError::NoSuchVariable { .. } => (Code::NotFound, OTHER_MODEL),
            CheckpointError::Mismatch { .. } => (Code::InvalidArgument, OTHER_MODEL),
            CheckpointError::TakenOver { .. } => (Code::FailedPrecondition, FOLDER_OF_ITS_OWN),
            CheckpointError::InUse { .. } => (Code::InvalidArgument, NAME_THE_FOLDER),
            error if error.is_of_writing() => (Code::Unwritable, ""),
            _ => (Code::DataLoss, ""),
        };
        Self::new(code, format!("{error}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_place_whose_name_is_too_long_is_mistaken_and_one_that_fails_is_tried_again() {
        let code = |kind: io::ErrorKind| {
            let (what, file, source) = ("list", "a".to_owned(), kind.into());
            try_again_if_transient(CheckpointError::Store { what, file, source }).code
        };
        assert_eq!(code(io::ErrorKind::InvalidFilename), Code::InvalidArgument);
        assert_eq!(code(io::ErrorKind::TimedOut), Code::Unavailable);
    }

    #[test]
    fn a_task_that_may_open_too_few_files_tries_no_other_time_and_says_what_to_raise() {
        for what in ["list", "write"] {
            let (file, source) = ("a".to_owned(), io::Error::from_raw_os_error(24));
            let error = try_again_if_transient(CheckpointError::Store { what, file, source });
            assert_eq!(error.code, Code::ResourceExhausted);
            assert!(error.message.ends_with("raise the limit of open files, `ulimit -n`"));
        }
    }
}
