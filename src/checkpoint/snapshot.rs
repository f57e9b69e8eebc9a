//! Snapshots: the variables to be saved, and their encoding as files.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::CheckpointError;
use super::index::{Checksum, Contents, ShardEntry, VariableEntry};
use super::shard_file::Encoded;
use super::slices::{self, Layout, Slice};
use super::weights::{as_in_model, is_like_slot};
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
    /// Whether it is of the model, for the export of weights alone: trained, or the average of what
    /// is. One that is not counts as a slot if its name begins with another's and a `/`.
    pub is_of_model: bool,
}

impl SavedVariable {
    /// A variable that is not partitioned; its name says whether it is of the model.
    pub fn new(name: impl Into<String>, value: Tensor) -> Self {
        Self { name: name.into(), value, slice: None, is_of_model: false }
    }

    /// The name of the variable that it is, or is a part of.
    pub(super) fn whole(&self) -> &str {
        self.slice.as_ref().map_or(&self.name, |slice| &slice.full_name)
    }

    pub(super) fn layout(&self) -> Layout<'_> {
        let (dtype, shape) = (self.value.dtype(), self.value.shape());
        Layout { name: &self.name, dtype, shape, slice: self.slice.as_ref() }
    }

    /// Its entry in the index, which says only of what is named like a slot that it is none; `all`
    /// are the names of variables.
    fn entry(&self, shard: usize, all: &BTreeSet<&str>) -> VariableEntry {
        let checksum = Checksum(xxh3_64(self.value.bytes()));
        let (dtype, shape) = (self.value.dtype(), self.value.shape());
        let is_of_model = self.is_of_model && is_like_slot(as_in_model(self.whole()), all);
        VariableEntry { shard, dtype, shape, checksum, slice: self.slice.clone(), is_of_model }
    }
}

/// The files of `snapshot`, and their entries for its index.
pub(super) fn encode(snapshot: &Snapshot) -> Result<(Contents, Vec<Encoded<'_>>), CheckpointError> {
    let refused = |(variable, problem)| CheckpointError::NotSavable { variable, problem };
    let all = || snapshot.shards.iter().flat_map(|shard| &shard.variables);
    slices::tables(all().map(SavedVariable::layout)).map_err(refused)?;
    let names: BTreeSet<&str> = all().map(|variable| as_in_model(variable.whole())).collect();
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
        let entry = |variable: &SavedVariable| (variable.name.clone(), variable.entry(at, &names));
        variables.extend(of_shard.iter().map(entry));
    }
    Ok((Contents { shards, variables }, files))
}
