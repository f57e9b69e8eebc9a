//! Where a training's checkpoints are kept, how often one is written, and which are kept.

use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::{Retention, Store, open_store};
use crate::runtime::Result;

use super::hooks::SecondOrStepTimer;

/// What the steps in a checkpoint are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Whole ones: every step is in all variables or in none. The other workers are held between
    /// two of their steps while the variables are read.
    #[default]
    Consistent,
    /// Those that each variable happens to have had when it was read, as in TensorFlow; nobody is
    /// held.
    Fuzzy,
}

/// Where and how often checkpoints are written, and which of them are kept.
#[derive(Clone)]
pub struct Checkpointing {
    /// Where they are.
    pub store: Arc<dyn Store>,
    /// How often one is written, besides at the beginning and at the end of a session.
    pub every: SecondOrStepTimer,
    /// Which are kept.
    pub retention: Retention,
    /// What they hold.
    pub consistency: Consistency,
}

impl Checkpointing {
    /// One every 600 seconds in `store`, the last 5, each consistent.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let every = SecondOrStepTimer::every_time(Duration::from_secs(600));
        Self { store, every, retention: Retention::default(), consistency: Consistency::default() }
    }

    /// The same in a folder, or at an URL such as `s3://bucket/run-7`.
    ///
    /// # Errors
    /// If there can be none.
    pub fn at(location: &str) -> Result<Self> {
        Ok(Self::new(open_store(location)?))
    }
}
