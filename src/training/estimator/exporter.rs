//! Exporters: the weights of measured checkpoints, each in a file of its own, for those who use the
//! model.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::checkpoint::{CheckpointError, Restored, Store, Stores, export_into};
use crate::runtime::{Error, Result};

use super::super::summary::unwritable;
use super::super::task::Task;
use super::Evaluated;

/// Exports measured checkpoints (TensorFlow: `tf.estimator.Exporter`).
pub trait Exporter: Send {
    /// `task` is about to measure. An exporter that writes files puts them into
    /// [`Task::run_folder`], since other runs export to the same place.
    #[expect(unused_variables, reason = "an exporter may need nothing of it")]
    fn begin(&mut self, task: &Task) {}

    /// A checkpoint has been measured. This runs beside the actors.
    ///
    /// # Errors
    /// If it can't be exported.
    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()>;
}

/// Exports each checkpoint that is measured, and keeps the last 5 (TensorFlow: `LatestExporter`).
///
/// An export is two files, `STEP.safetensors` with the model's variables, as
/// [`export`](crate::checkpoint::export) has them with `weights_only`, and `STEP.json` with what
/// was measured and the number of the export. They are in the [run's own
/// folder](Task::run_folder) below the exporter's; a simulation keeps them in memory. TensorFlow
/// writes a SavedModel into a folder by the time.
#[derive(Debug)]
pub struct LatestExporter {
    exports: Exports,
}

/// Exports each checkpoint that is better than all before, also before a restart, and keeps the
/// last 5 (TensorFlow: `BestExporter`). Files as those of [`LatestExporter`].
pub struct BestExporter {
    exports: Exports,
    is_better: fn(&Evaluated, &Evaluated) -> bool,
}

shown!(BestExporter, exports);

/// The exports in a folder, or at a URL.
#[derive(Clone)]
struct Exports {
    location: String,
    stores: Stores,
    keep: usize,
}

shown!(Exports, location, keep);

impl LatestExporter {
    /// Exports below `location`, a folder or a URL such as `s3://bucket/exported`.
    pub fn new(location: &str) -> Self {
        Self { exports: Exports::below(location) }
    }

    /// Keeps the last `exports`.
    #[must_use]
    pub fn keep(mut self, exports: usize) -> Self {
        self.exports.keep = exports;
        self
    }
}

impl BestExporter {
    /// Exports below `location`, a folder or a URL such as `s3://bucket/exported`, what has a
    /// smaller loss than all before.
    pub fn new(location: &str) -> Self {
        let is_better = |new: &Evaluated, best: &Evaluated| new.loss < best.loss;
        Self { exports: Exports::below(location), is_better }
    }

    /// Compares by `is_better`, which says whether its first argument is better than the second.
    #[must_use]
    pub fn compare(mut self, is_better: fn(&Evaluated, &Evaluated) -> bool) -> Self {
        self.is_better = is_better;
        self
    }

    /// Keeps the last `exports`.
    #[must_use]
    pub fn keep(mut self, exports: usize) -> Self {
        self.exports.keep = exports;
        self
    }
}

impl Exporter for LatestExporter {
    fn begin(&mut self, task: &Task) {
        self.exports.begin(task);
    }

    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        self.exports.add(&*self.exports.open()?, checkpoint, evaluated)
    }
}

impl Exporter for BestExporter {
    fn begin(&mut self, task: &Task) {
        self.exports.begin(task);
    }

    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        let store = self.exports.open()?;
        let is_best = all(&*store)?
            .iter()
            .filter(|(_, other)| other.global_step != evaluated.global_step)
            .all(|(_, other)| (self.is_better)(evaluated, other));
        if is_best { self.exports.add(&*store, checkpoint, evaluated) } else { Ok(()) }
    }
}

impl Exports {
    fn below(location: &str) -> Self {
        Self { location: location.to_owned(), stores: Stores::Lasting, keep: 5 }
    }

    /// Exports as `task` does: in a folder of its run's own, in the stores of its world.
    fn begin(&mut self, task: &Task) {
        let own = Path::new(&self.location).join(task.run_folder());
        self.location = own.display().to_string();
        self.stores = task.stores().clone();
    }

    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.stores.open(&self.location)?)
    }

    /// Writes the weights, then what was measured; then deletes the earliest exports beyond those
    /// to keep. Steps do not tell which are the earliest: a training may have begun again.
    fn add(&self, store: &dyn Store, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        let step = evaluated.global_step;
        export_into(store, &file(step, "safetensors"), checkpoint.clone(), true)
            .map_err(unexported)?;
        let number = all(store)?.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let (measured, text) = (file(step, "json"), written(number, evaluated).to_string());
        store.write(&measured, &[text.as_bytes()]).map_err(failed(store, &measured))?;
        let mut all = all(store)?;
        all.sort_by_key(|(number, export)| (*number, export.global_step));
        for (_, superfluous) in &all[..all.len().saturating_sub(self.keep)] {
            for extension in ["json", "safetensors"] {
                let name = file(superfluous.global_step, extension);
                store.delete(&name).map_err(failed(store, &name))?;
            }
        }
        Ok(())
    }
}

/// The exports that `store` has, each with its number.
fn all(store: &dyn Store) -> Result<Vec<(u64, Evaluated)>> {
    let entries = store.list().map_err(failed(store, ""))?;
    let measured = entries.iter().filter(|entry| entry.name.ends_with(".json"));
    let texts = measured.filter_map(|entry| store.read(&entry.name).ok());
    Ok(texts.filter_map(|text| read(&serde_json::from_slice(&text).ok()?)).collect())
}

fn file(step: u64, extension: &str) -> String {
    format!("{step}.{extension}")
}

/// The error of the file `name` of `store`.
fn failed(store: &dyn Store, name: &str) -> impl FnOnce(io::Error) -> Error {
    let place = store.locate(name);
    move |error| unwritable(Path::new(&place), &error)
}

/// The error of an export: another folder for checkpoints would not help.
fn unexported(error: CheckpointError) -> Error {
    match error {
        CheckpointError::Store { file, source, .. } => unwritable(Path::new(&file), &source),
        other => other.into(),
    }
}

fn written(number: u64, evaluated: &Evaluated) -> Value {
    let metrics: serde_json::Map<String, Value> =
        evaluated.metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let Evaluated { global_step, loss, .. } = evaluated;
    json!({ "export": number, "global_step": global_step, "loss": loss, "metrics": metrics })
}

/// The number of an export, 0 if it has none, and what was measured; none if the file is another's.
/// A loss that is no number counts as infinite.
fn read(value: &Value) -> Option<(u64, Evaluated)> {
    let metrics = value.get("metrics")?.as_object()?.iter();
    let metrics = metrics.map(|(name, value)| (name.clone(), value.as_f64().unwrap_or(f64::NAN)));
    let number = value.get("export").and_then(Value::as_u64).unwrap_or(0);
    let evaluated = Evaluated {
        global_step: value.get("global_step")?.as_u64()?,
        loss: value.get("loss")?.as_f64().unwrap_or(f64::INFINITY),
        metrics: metrics.collect(),
    };
    Some((number, evaluated))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use tempfile::TempDir;

    use crate::checkpoint::{Memory, Retention, SavedVariable, Saver, Shard, Snapshot};
    use crate::runtime::Code;
    use crate::tensor::Tensor;

    /// A checkpoint of one weight.
    fn checkpoint(step: u64) -> Restored {
        let mut saver = Saver::new(Arc::new(Memory::default()), Retention::default());
        let value = Tensor::scalar(step as f32);
        let variables = vec![SavedVariable::new("w", value)];
        let shards = vec![Shard { task: "ps:0".to_owned(), variables }];
        saver.save(&Snapshot { global_step: step, shards }, Duration::ZERO).unwrap();
        saver.restore(step).unwrap()
    }

    fn evaluated(global_step: u64, loss: f64) -> Evaluated {
        Evaluated { global_step, loss, metrics: vec![("accuracy".to_owned(), 0.5)] }
    }

    fn files(exports: &Exports) -> BTreeSet<String> {
        let entries = exports.open().unwrap().list().unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    /// Exports in a folder, which is there as long as the guard, and in memory.
    fn in_both_worlds() -> (TempDir, [Exports; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let on_disk = Exports::below(folder.path().to_str().unwrap());
        let in_memory = Exports { stores: Stores::in_memory(), ..on_disk.clone() };
        (folder, [on_disk, in_memory])
    }

    #[test]
    fn the_latest_exporter_keeps_the_newest_and_the_best_what_beats_all_before() {
        let (_folder, worlds) = in_both_worlds();
        for exports in worlds {
            let below = |name: &str| {
                let location = format!("{}/{name}", exports.location);
                Exports { location, ..exports.clone() }
            };
            let mut latest = LatestExporter { exports: below("latest") }.keep(2);
            for (step, loss) in [(10, 3.0), (20, 1.0), (30, 2.0)] {
                // Each is made anew, as by a task that has restarted.
                let best = BestExporter::new("");
                let mut best = BestExporter { exports: below("best"), ..best };
                let exporters: [&mut dyn Exporter; 2] = [&mut latest, &mut best];
                for exporter in exporters {
                    exporter.export(&checkpoint(step), &evaluated(step, loss)).unwrap();
                }
            }
            let named = |steps: [u64; 2]| -> BTreeSet<String> {
                let of = |step: u64| [format!("{step}.json"), format!("{step}.safetensors")];
                steps.into_iter().flat_map(of).collect()
            };
            assert_eq!(files(&latest.exports), named([20, 30]));
            assert_eq!(files(&below("best")), named([10, 20]));
            let text = below("best").open().unwrap().read("20.json").unwrap();
            assert_eq!(
                read(&serde_json::from_slice(&text).unwrap()),
                Some((2, evaluated(20, 1.0)))
            );
        }
    }

    #[test]
    fn the_exports_of_a_training_that_begins_again_stay_and_the_older_ones_go() {
        let (_folder, worlds) = in_both_worlds();
        for exports in worlds {
            let mut latest = LatestExporter { exports }.keep(2);
            let mut left = |step| {
                latest.export(&checkpoint(step), &evaluated(step, 1.0)).unwrap();
                let named = |name: String| name.strip_suffix(".json")?.parse::<u64>().ok();
                files(&latest.exports).into_iter().filter_map(named).collect::<BTreeSet<_>>()
            };
            left(80);
            assert_eq!(left(90), BTreeSet::from([80, 90]));
            assert_eq!(left(10), BTreeSet::from([10, 90]));
            assert_eq!(left(20), BTreeSet::from([10, 20]));
            assert_eq!(left(10), BTreeSet::from([10, 20]), "written again");
            assert_eq!(left(30), BTreeSet::from([10, 30]));
        }
    }

    #[test]
    fn a_folder_that_can_not_be_made_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let below = file.join("exported");
        let mut latest = LatestExporter::new(below.to_str().unwrap());
        let error = latest.export(&checkpoint(10), &evaluated(10, 1.0)).unwrap_err();
        assert_eq!(error.code, Code::Unwritable, "{error}");
        let says = [below.to_str().unwrap(), "write to another folder"];
        assert!(says.iter().all(|words| error.message.contains(words)), "{error}");
    }
}
