//! A small training's checkpoints, and stores that go wrong, for tests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Entry, Memory, Restored, Retention, SavedVariable, Saver, Shard, Slice, Snapshot, Store,
};
use crate::tensor::{DType, Tensor};

/// A snapshot of a training at `global_step` on two parameter servers; a different `salt` gives
/// different values.
pub(super) fn snapshot(global_step: u64, salt: u64) -> Snapshot {
    let values = |count: u64, from: u64| -> Vec<f32> {
        (0..count).map(|at| (global_step * 1000 + salt * 100 + from + at) as f32).collect()
    };
    let part = |number: usize, rows: usize| SavedVariable {
        slice: Some(Slice {
            full_name: "table".to_owned(),
            full_shape: [5, 2].into(),
            begin: number * 3,
        }),
        ..SavedVariable::new(
            format!("table/part_{number}"),
            Tensor::new([rows, 2], &values(rows as u64 * 2, number as u64 * 6)).unwrap(),
        )
    };
    let first = vec![
        SavedVariable::new("mlp/w", Tensor::new([2, 3], &values(6, 20)).unwrap()),
        SavedVariable::new("global_step", Tensor::scalar(global_step as i64)),
        part(0, 3),
    ];
    let second = vec![
        SavedVariable::new("mlp/w/Adagrad", Tensor::new([2, 3], &values(6, 40)).unwrap()),
        SavedVariable::new("is_warm", Tensor::scalar(true)),
        SavedVariable::new("none", Tensor::zeros(DType::F64, [0, 3])),
        part(1, 2),
    ];
    let shard = |task: &str, variables| Shard { task: task.to_owned(), variables };
    Snapshot { global_step, shards: vec![shard("ps:0", first), shard("ps:1", second)] }
}

/// What is asked of a [`Tampered`] store.
pub(super) enum Call<'a> {
    Read(&'a str),
    Write(&'a str, &'a [&'a [u8]]),
    /// A file has been written.
    Written(&'a str),
    Delete,
}

/// A store in memory that tells each call to `on`, and fails with what that fails with.
pub(super) struct Tampered {
    memory: Memory,
    on: Box<dyn Fn(Call<'_>) -> io::Result<()> + Send + Sync>,
}

impl Tampered {
    /// It has the files of `memory`.
    pub(super) fn new(
        memory: &Memory,
        on: impl Fn(Call<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { memory: memory.clone(), on: Box::new(on) }
    }
}

impl Store for Tampered {
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.memory.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        (self.on)(Call::Read(name))?;
        self.memory.read(name)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        (self.on)(Call::Write(name, parts))?;
        self.memory.write(name, parts)?;
        (self.on)(Call::Written(name))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        (self.on)(Call::Delete)?;
        self.memory.delete(name)
    }

    fn locate(&self, name: &str) -> String {
        self.memory.locate(name)
    }
}

/// A saver that keeps the newest two.
pub(super) fn saver(store: impl Store + 'static) -> Saver {
    saver_to(Arc::new(store))
}

/// The same, to a store that others have, too.
pub(super) fn saver_to(store: Arc<dyn Store>) -> Saver {
    Saver::new(store, Retention { max_to_keep: Some(2), keep_every: None })
}

pub(super) fn at(step: u64) -> Duration {
    Duration::from_secs(step)
}

/// Saves the snapshots of `steps`, with salt 0.
pub(super) fn save(saver: &mut Saver, steps: impl IntoIterator<Item = u64>) {
    for step in steps {
        assert_eq!(saver.save(&snapshot(step, 0), at(step)).unwrap().unfinished.len(), 0);
    }
}

/// Whether `restored` has what was saved in `snapshot`, to the last bit.
pub(super) fn is_of(restored: &Restored, snapshot: &Snapshot) -> bool {
    let saved = snapshot.shards.iter().flat_map(|shard| &shard.variables);
    let mut saved: Vec<(&String, &Tensor)> =
        saved.map(|variable| (&variable.name, &variable.value)).collect();
    saved.sort_by_key(|(name, _)| *name);
    restored.global_step == snapshot.global_step && restored.variables.iter().eq(saved)
}

/// The names of the files in `store`.
pub(super) fn files(store: &impl Store) -> Vec<String> {
    store.list().unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The files of the checkpoints of `steps`, each saved once, and the state file.
pub(super) fn files_of(steps: &[u64]) -> Vec<String> {
    let mut files = vec!["checkpoint".to_owned()];
    for step in steps {
        for rest in ["-00000-of-00002.safetensors", "-00001-of-00002.safetensors", ".index.json"] {
            files.push(format!("model.ckpt-{step}{rest}"));
        }
    }
    files.sort();
    files
}
