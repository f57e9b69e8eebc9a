//! What a saver has saved and found.

use std::time::Duration;

use crate::checkpoint::{CheckpointError, Restored};

/// A checkpoint that was saved.
#[derive(Debug)]
pub struct Saved {
    /// Its name, such as `model.ckpt-300`.
    pub name: String,
    /// The length of its files \[bytes\].
    pub bytes: u64,
    /// Whether it was written now. If the last save was of the same step and can be read, it stays.
    pub is_new: bool,
    /// The work after the save that failed: writing the state file, or deleting older checkpoints.
    /// The checkpoint is saved all the same, and the next save tries again.
    pub unfinished: Vec<CheckpointError>,
}

/// The newest complete checkpoint, and the newer ones that were rejected.
#[derive(Debug)]
pub struct Found {
    /// The newest complete checkpoint, if there is one.
    pub checkpoint: Option<Restored>,
    /// The problems of rejected checkpoints. If there are some and no `checkpoint`, a training that
    /// began anew would lose what they might still hold: ask first.
    pub rejected: Vec<CheckpointError>,
}

/// An entry in a list of checkpoints.
#[derive(Debug)]
pub struct Listed {
    /// Its name, such as `model.ckpt-300`.
    pub name: String,
    /// The training's step.
    pub global_step: u64,
    /// The time of the save: since the epoch or, in a simulation, since its beginning.
    pub time: Option<Duration>,
    /// The number of its variables.
    pub variables: Option<usize>,
    /// The length of its files \[bytes\].
    pub bytes: Option<u64>,
    /// The problem with it, as far as it shows without reading the values.
    pub problem: Option<CheckpointError>,
}
