//! Checkpoints: a training's variables in files that outlive it, and the search for the newest
//! complete one.
//!
//! A checkpoint is one file a shard, in the format of safetensors, and an index that is written
//! last: it names the files and has the checksum of each, and a checkpoint without its index does
//! not exist. So a save that is killed at any moment leaves the earlier checkpoints unchanged. A
//! reader checks every byte: it names a file that was cut off, changed or lost, and takes the
//! newest complete checkpoint.
//!
//! ```text
//! model.ckpt-300-00000-of-00002.safetensors   what ps:0 holds
//! model.ckpt-300-00001-of-00002.safetensors   what ps:1 holds
//! model.ckpt-300.index.json                   commits them
//! checkpoint                                  names the newest, for people and TensorFlow's tools
//! ```
//!
//! TensorFlow's `Saver` needs a file system that all tasks share; here one writer saves everything,
//! to any [`Store`]. This module knows no sessions, and all its calls block: the caller decides on
//! which thread.

mod error;
mod export;
#[cfg(test)]
mod fixture;
mod foreign;
mod index;
mod names;
mod reader;
mod restored;
mod retention;
mod saver;
mod saving_task;
mod shard_file;
mod slices;
mod snapshot;
mod state_file;
mod store;
mod weights;

pub use error::CheckpointError;
pub use export::export;
pub(crate) use export::export_into;
pub use foreign::read_safetensors;
pub(crate) use index::{Index, ShardEntry};
pub(crate) use names::is_shard;
pub use restored::Restored;
pub use retention::Retention;
pub use saver::{Found, Listed, Saved, Saver};
pub use saving_task::SavingTask;
pub use slices::Slice;
pub use snapshot::{SavedVariable, Shard, Snapshot};
#[cfg(feature = "object-store")]
pub use store::ObjectStore;
pub use store::{Entry, Folder, Memory, Store, Stores, open_store};
pub(crate) use weights::{POSITIONS, counter, own_name};
