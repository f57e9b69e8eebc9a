//! What a training tells of itself: a row a step, the evaluations, the weights at the end.

use crate::cluster::TaskName;
use crate::units::Time;

/// One training step of one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct StepStats {
    /// Whose step.
    pub worker: TaskName,
    /// Which of the worker's steps, from 0.
    pub local_step: u64,
    /// The global step after it.
    pub global_step: u64,
    /// When the worker asked for it.
    pub started: Time,
    /// When it was done.
    pub ended: Time,
    /// When its kernels ran on the worker, the first of them and the last.
    pub computed: Option<(Time, Time)>,
    /// The first f32 scalar that the step fetched, which by custom is the loss; none where it has
    /// no number.
    pub loss: Option<f32>,
    /// How many updates were applied between its reading of the variables and its gradient's
    /// application.
    pub staleness: u64,
    /// Whether the gradient was applied, or came too late and was dropped.
    pub applied: bool,
}

/// A look at the test split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The global step at which it was made.
    pub global_step: u64,
    /// When.
    pub at: Time,
    /// The mean loss on the test split.
    pub loss: f32,
    /// The share of the test split that is classified correctly.
    pub accuracy: f64,
}

/// What is trained, as its chief built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The values of all trainable variables together.
    pub parameters: u64,
}

/// How a training ended, as its chief saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// A hash of the trainable variables, by name; equal for equal weights. None where they have no
    /// numbers.
    pub weights_digest: Option<u64>,
}

/// Takes what a training tells of itself.
pub trait Recorder {
    /// The chief is about to begin its training.
    fn beginning(&self, beginning: Beginning);

    /// A worker has taken a step.
    fn step(&self, stats: StepStats);

    /// The chief has restored the checkpoint of step `global_step`: what was applied after that is
    /// undone.
    fn restored(&self, global_step: u64);

    /// The chief has looked at the test split.
    fn evaluation(&self, evaluation: Evaluation);

    /// The chief has ended its training.
    fn ending(&self, ending: Ending);
}
