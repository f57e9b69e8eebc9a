//! What a run tells of itself, kept for the report and shown as progress.

use std::sync::{Arc, Mutex, MutexGuard};

use super::progress::Progress;
use crate::training::{Beginning, Ending, Evaluation, Recorder, StepStats};

/// What a run has told so far.
#[derive(Default)]
pub(super) struct Recording {
    pub(super) beginning: Option<Beginning>,
    pub(super) steps: Vec<StepStats>,
    pub(super) evaluations: Vec<Evaluation>,
    pub(super) ending: Option<Ending>,
    progress: Option<Progress>,
}

/// A recording that all tasks of a run share.
#[derive(Clone, Default)]
pub(super) struct SharedRecording(Arc<Mutex<Recording>>);

impl SharedRecording {
    /// A recording that shows what it is told.
    pub(super) fn showing(progress: Progress) -> Self {
        Self(Arc::new(Mutex::new(Recording { progress: Some(progress), ..Recording::default() })))
    }

    /// Ends the recording.
    pub(super) fn finish(self) -> Recording {
        let mut recording = std::mem::take(&mut *self.lock());
        if let Some(progress) = recording.progress.take() {
            progress.finish();
        }
        recording
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().expect("nobody panics while recording")
    }
}

impl Recorder for SharedRecording {
    fn beginning(&self, beginning: Beginning) {
        self.lock().beginning = Some(beginning);
    }

    fn step(&self, stats: StepStats) {
        let mut recording = self.lock();
        if let Some(progress) = &mut recording.progress {
            progress.update(stats.global_step, stats.loss, stats.ended);
        }
        recording.steps.push(stats);
    }

    fn evaluation(&self, evaluation: Evaluation) {
        self.lock().evaluations.push(evaluation);
    }

    fn ending(&self, ending: Ending) {
        self.lock().ending = Some(ending);
    }
}
