//! Settings for a training's checkpoints: where they are stored, how often one is written, and how
//! many are kept.

use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::{Retention, Store, open_store};
use crate::runtime::Result;
use crate::units::BytesPerSecond;

use super::hooks::SecondOrStepTimer;

/// Whether a checkpoint holds whole steps only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every step is in all variables or in none. The other workers are held between two of their
    /// steps while the variables are read.
    #[default]
    Consistent,
    /// Each variable has the value of the moment at which it was read, as in TensorFlow, also in
    /// the last checkpoint. No worker is held. So are all checkpoints of a
    /// [`SyncReplicas`](crate::optimizer::SyncReplicas) whose updates take fewer gradients than
    /// there are replicas: they go on while the chief saves.
    Fuzzy,
}

/// Where and how often checkpoints are written, and which of them are kept.
#[derive(Clone)]
pub struct Checkpointing {
    /// The store that holds them.
    pub store: Arc<dyn Store>,
    /// When one is written, besides at the beginning and at the end of a session.
    pub every: SecondOrStepTimer,
    /// The rule by which old ones are removed.
    pub retention: Retention,
    /// Whether they hold whole steps only.
    pub consistency: Consistency,
    /// The rate at which a simulation lets a checkpoint be written \[bytes/s\]; `None` writes it
    /// in no time. A deployment takes what it takes.
    pub write_rate: Option<BytesPerSecond>,
    /// The rate at which a simulation lets a checkpoint be read \[bytes/s\]; `None` reads it in no
    /// time.
    pub read_rate: Option<BytesPerSecond>,
}

shown!(Checkpointing, every, retention, consistency);

impl Checkpointing {
    /// One every 600 seconds in `store`, the last 5, each consistent.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let every = SecondOrStepTimer::every_time(Duration::from_secs(600));
        let (retention, consistency) = (Retention::default(), Consistency::default());
        Self { store, every, retention, consistency, write_rate: None, read_rate: None }
    }

    /// The defaults of [`Checkpointing::new`] in a folder, or at a URL such as `s3://bucket/run-7`.
    /// A simulation, too, writes them there, and the next one goes on from them:
    /// [`Task::checkpointing_at`](super::Task::checkpointing_at) keeps its checkpoints in memory.
    ///
    /// # Errors
    /// If `location` can't be opened as a store.
    pub fn at(location: &str) -> Result<Self> {
        Ok(Self::new(open_store(location)?))
    }
}
