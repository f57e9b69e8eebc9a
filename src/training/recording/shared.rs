//! The recording that all tasks of a run share: what it tells a watch and a launcher.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Recording, Watch};
use crate::checkpoint::SavedVariable;
use crate::training::record::{Fact, FailedCheckpoint};

/// A recording that all tasks of a run share.
#[derive(Clone, Default)]
pub struct SharedRecording(Arc<Mutex<Shared>>);

shown!(SharedRecording);

#[derive(Default)]
pub(super) struct Shared {
    pub(super) recording: Recording,
    watches: Vec<Box<dyn Watch + Send>>,
    /// The facts that have yet to be sent to the task's launcher, but for the steps, which are
    /// those in the log. None if it has no launcher.
    unsent: Option<Vec<Fact>>,
    /// Whether nobody wants the steps, but how far they came.
    is_of_progress: bool,
}

/// The most steps in the log of a recording that nobody wants the steps of.
const MOST_UNWANTED: usize = 1024;

impl SharedRecording {
    /// A recording that shows its progress to `watch`.
    pub fn showing(watch: impl Into<Box<dyn Watch + Send>>) -> Self {
        Self::default().also_showing(watch)
    }

    /// The same, which shows its progress to `watch`, too.
    pub(crate) fn also_showing(self, watch: impl Into<Box<dyn Watch + Send>>) -> Self {
        self.lock().watches.push(watch.into());
        self
    }

    /// Keeps for [`take_unsent`](Self::take_unsent) what is recorded from now on.
    pub(crate) fn telling(self) -> Self {
        self.lock().unsent.get_or_insert_default();
        self
    }

    /// Forgets the steps from time to time, but not how far they came: a training may last for
    /// weeks, and this task reports none of them.
    pub(crate) fn of_progress(self) -> Self {
        self.lock().is_of_progress = true;
        self
    }

    /// Records `fact`.
    pub fn record(&self, fact: Fact) {
        let Shared { recording, watches, unsent, is_of_progress } = &mut *self.lock();
        for watch in watches {
            watch.fact(&fact);
        }
        if let (Some(unsent), false) = (&mut *unsent, matches!(fact, Fact::Step(_))) {
            unsent.push(fact.clone());
        }
        recording.add(fact);
        if *is_of_progress && unsent.is_none() && recording.log.len() > MOST_UNWANTED {
            recording.forget_steps();
        }
    }

    /// Keeps `weights`, with which the training ends, in the recording.
    pub(crate) fn keep_weights(&self, weights: Vec<SavedVariable>) {
        self.lock().recording.weights = Some(weights);
    }

    /// Records what it is called with, as the recorder of a task's
    /// [`TaskParts`](crate::training::TaskParts).
    pub fn recorder(&self) -> Rc<dyn Fn(Fact)> {
        let recording = self.clone();
        Rc::new(move |fact| recording.record(fact))
    }

    /// The facts that were recorded since the last call. The recording forgets the steps among
    /// them: a training may last for days. There are none if nobody is [told](Self::telling).
    pub(crate) fn take_unsent(&self) -> Vec<Fact> {
        let Shared { recording, unsent, .. } = &mut *self.lock();
        let Some(unsent) = unsent else { return Vec::new() };
        if unsent.is_empty() && recording.log.is_empty() {
            return Vec::new();
        }
        let steps = recording.forget_steps();
        steps.iter().map(Fact::Step).chain(unsent.drain(..)).collect()
    }

    /// The training was stopped while the task's program waited for `waits`: if that has lost steps
    /// which no checkpoint has, records so as a checkpoint that could not be written, and returns
    /// it.
    pub(crate) fn note_stop(&self, waits: &[String]) -> Option<FailedCheckpoint> {
        let lost = self.lock().recording.lost_by_a_stop(waits)?;
        self.record(Fact::NotSaved(lost.clone()));
        Some(lost)
    }

    /// The digest of the weights at the end of the training, if the task knows it.
    pub(crate) fn weights(&self) -> Option<u64> {
        self.lock().recording.ending.and_then(|ending| ending.weights_digest)
    }

    /// Ends the recording.
    pub fn finish(self) -> Recording {
        let Shared { mut recording, watches, .. } = std::mem::take(&mut *self.lock());
        for watch in watches {
            watch.finish();
        }
        recording.leave_out_beginnings();
        recording
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().expect("nobody panics while recording")
    }
}
