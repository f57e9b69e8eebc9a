//! What a run tells of itself, kept for the report and shown to whoever watches.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::units::Time;

use super::record::{Beginning, Ending, Evaluation, Recorder, StepStats};

/// Is shown how far a run is.
pub trait Watch {
    /// The run is at `global_step`, with this `loss` of its last worker step, at `now` on its
    /// clock. Cheap enough for every step.
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time);

    /// The run is over.
    fn finish(self: Box<Self>);
}

/// What a run has told so far. A gradient that a restored checkpoint undid counts as dropped.
#[derive(Default)]
pub struct Recording {
    /// What was trained; none where it ended before that was known.
    pub beginning: Option<Beginning>,
    /// A row a step, in the order in which they were told.
    pub steps: Vec<StepStats>,
    /// The looks at the test split, in order.
    pub evaluations: Vec<Evaluation>,
    /// How it ended; none where the chief did not get there.
    pub ending: Option<Ending>,
    watch: Option<Box<dyn Watch + Send>>,
}

/// A recording that all tasks of a run share.
#[derive(Clone, Default)]
pub struct SharedRecording(Arc<Mutex<Recording>>);

impl SharedRecording {
    /// A recording that shows `watch` how far it is.
    pub fn showing(watch: impl Watch + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Recording {
            watch: Some(Box::new(watch)),
            ..Recording::default()
        })))
    }

    /// Ends the recording.
    pub fn finish(self) -> Recording {
        let mut recording = std::mem::take(&mut *self.lock());
        if let Some(watch) = recording.watch.take() {
            watch.finish();
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
        if let Some(watch) = &mut recording.watch {
            watch.update(stats.global_step, stats.loss, stats.ended);
        }
        recording.steps.push(stats);
    }

    /// A gradient that is undone counts as dropped.
    fn restored(&self, global_step: u64) {
        let mut recording = self.lock();
        for step in recording.steps.iter_mut().filter(|step| step.global_step > global_step) {
            step.applied = false;
        }
    }

    fn evaluation(&self, evaluation: Evaluation) {
        self.lock().evaluations.push(evaluation);
    }

    fn ending(&self, ending: Ending) {
        self.lock().ending = Some(ending);
    }
}
