//! `Coordinated`: any optimizer, as one of several workers that train the same variables.

use super::{ClipGradients, Optimizer};
use crate::graph::{LearningRate, Replica, UpdateRule};
use crate::sync::Mode;

/// An optimizer whose steps are coordinated with those of other workers: asynchronous, synchronous
/// (TensorFlow: `SyncReplicasOptimizer`), with bounded staleness, or any other [`Mode`].
///
/// Where TensorFlow's synchronous optimizer counts gradients, hands out tokens that any worker may
/// take, and begins with free ones, a round here has exactly one gradient of each contributing
/// worker, all computed from the same version of the variables.
#[derive(Clone, Debug)]
pub struct Coordinated<O> {
    inner: O,
    replica: Replica,
}

impl<O: Optimizer> Coordinated<O> {
    /// `inner`, for worker `worker` of `workers`.
    ///
    /// # Panics
    /// If there is no such worker, or the mode does not fit so many workers: as many backups as
    /// workers, or more gradients of different workers in an update than there are workers.
    pub fn new(inner: O, mode: Mode, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} is not one of {workers}");
        if let Err((_, problem)) = mode.check(workers) {
            panic!("{problem}");
        }
        Self { inner, replica: Replica { worker, workers, mode } }
    }
}

impl<O: Optimizer> Optimizer for Coordinated<O> {
    fn rule(&self) -> UpdateRule {
        self.inner.rule()
    }

    fn learning_rate(&self) -> LearningRate {
        self.inner.learning_rate()
    }

    fn clip(&self) -> Option<ClipGradients> {
        self.inner.clip()
    }

    fn top_k(&self) -> Option<f64> {
        self.inner.top_k()
    }

    fn replica(&self) -> Replica {
        self.replica
    }
}

impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    fn rule(&self) -> UpdateRule {
        (**self).rule()
    }

    fn learning_rate(&self) -> LearningRate {
        (**self).learning_rate()
    }

    fn clip(&self) -> Option<ClipGradients> {
        (**self).clip()
    }

    fn top_k(&self) -> Option<f64> {
        (**self).top_k()
    }

    fn replica(&self) -> Replica {
        (**self).replica()
    }
}
