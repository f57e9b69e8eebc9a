//! How far a training is, as one of its tasks knows it, for those who ask.

use crate::units::Time;

/// How far a training is, as one of its tasks knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrainingProgress {
    /// The global step: the task has it, or has heard of it with its last step.
    pub(crate) global_step: Option<u64>,
    /// The last checkpoint that is saved, or that the training went on from, if the task saves
    /// them: its global step, and when.
    pub(crate) saved: Option<(u64, Time)>,
    /// The workers that are lost, perhaps for a while, by their numbers.
    pub(crate) lost: Vec<u32>,
}
