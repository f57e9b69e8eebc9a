//! Snapshots: the variables to be saved, and their encoding as files.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::CheckpointError;
use super::index::{Checksum, Contents, ShardEntry, VariableEntry};
use super::shard_file::Encoded;
use super::slices::{self, Layout, Slice};
use crate::tensor::Tensor;

/// The contents of one save: all variables at one moment of the training.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The training's step (TensorFlow: `global_step`).
    pub global_step: u64,
    /// The variables of each parameter server, in their order.
    pub shards: Vec<Shard>,
}

/// The variables of one task, which become one file.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// The task, such as `ps:0`.
    pub task: String,
    /// Its variables, in any order.
    pub variables: Vec<SavedVariable>,
}

/// A variable and its value. Names are unique within a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct SavedVariable {
    /// Its name in the graph.
    pub name: String,
    /// Its value.
    pub value: Tensor,
    /// Its slice, for a part of a partitioned variable or of its slot.
    pub slice: Option<Slice>,
}

impl SavedVariable {
    /// A variable that is not partitioned.
    pub fn new(name: impl Into<String>, value: Tensor) -> Self {
        Self { name: name.into(), value, slice: None }
    }

    fn layout(&self) -> Layout<'_> {
        let (dtype, shape) = (self.value.dtype(), self.value.shape());
        Layout { name: &self.name, dtype, shape, slice: self.slice.as_ref() }
    }

    fn entry(&self, shard: usize) -> VariableEntry {
        let checksum = Checksum(xxh3_64(self.value.bytes()));
        let (dtype, shape) = (self.value.dtype(), self.value.shape());
        VariableEntry { shard, dtype, shape, checksum, slice: self.slice.clone() }
    }
}

/// The files of `snapshot`, and their entries for its index.
pub(super) fn encode(snapshot: &Snapshot) -> Result<(Contents, Vec<Encoded<'_>>), CheckpointError> {
    let refused = |(variable, problem)| CheckpointError::NotSavable { variable, problem };
    let all = || snapshot.shards.iter().flat_map(|shard| &shard.variables);
    slices::tables(all().map(SavedVariable::layout)).map_err(refused)?;
    let (mut shards, mut variables, mut files) = (Vec::new(), BTreeMap::new(), Vec::new());
    let step = snapshot.global_step.to_string();
    for (at, Shard { task, variables: of_shard }) in snapshot.shards.iter().enumerate() {
        let tensors = of_shard.iter().map(|variable| (&*variable.name, &variable.value));
        let encoded = Encoded::new(tensors, ("global_step", &step)).map_err(refused)?;
        let checksum = Checksum(encoded.checksum());
        shards.push(ShardEntry {
            task: task.clone(),
            file: String::new(),
            bytes: encoded.bytes(),
            checksum,
        });
        files.push(encoded);
        variables
            .extend(of_shard.iter().map(|variable| (variable.name.clone(), variable.entry(at))));
    }
    Ok((Contents { shards, variables }, files))
}
