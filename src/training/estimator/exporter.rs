//! Exporters: the weights of measured checkpoints, each in a file of its own, for those who use the
//! model.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checkpoint::{Restored, export};
use crate::runtime::Result;

use super::super::summary::unwritable;
use super::Evaluated;

/// Exports measured checkpoints (TensorFlow: `tf.estimator.Exporter`). It runs beside the actors.
pub trait Exporter: Send {
    /// A checkpoint has been measured.
    ///
    /// # Errors
    /// If it can't be exported.
    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()>;
}

/// Exports each checkpoint that is measured, and keeps the last 5 (TensorFlow: `LatestExporter`).
///
/// An export is two files of a folder, `STEP.safetensors` with the model's variables, as
/// [`export`] has them with `weights_only`, and `STEP.json` with what was measured and the number
/// of the export. TensorFlow writes a SavedModel into a folder by the time.
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

/// The exports in a folder.
#[derive(Debug)]
struct Exports {
    folder: PathBuf,
    keep: usize,
}

impl LatestExporter {
    /// Exports into `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { exports: Exports { folder: folder.into(), keep: 5 } }
    }

    /// Keeps the last `exports`.
    #[must_use]
    pub fn keep(mut self, exports: usize) -> Self {
        self.exports.keep = exports;
        self
    }
}

impl BestExporter {
    /// Exports into `folder` what has a smaller loss than all before.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let is_better = |new: &Evaluated, best: &Evaluated| new.loss < best.loss;
        Self { exports: Exports { folder: folder.into(), keep: 5 }, is_better }
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
    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        self.exports.add(checkpoint, evaluated)
    }
}

impl Exporter for BestExporter {
    fn export(&mut self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        let before = self.exports.all()?;
        let is_best = before
            .iter()
            .filter(|(_, other)| other.global_step != evaluated.global_step)
            .all(|(_, other)| (self.is_better)(evaluated, other));
        if is_best { self.exports.add(checkpoint, evaluated) } else { Ok(()) }
    }
}

impl Exports {
    fn file(&self, step: u64, extension: &str) -> PathBuf {
        self.folder.join(format!("{step}.{extension}"))
    }

    /// Writes the weights, then what was measured; then deletes the earliest exports beyond those
    /// to keep. Steps do not tell which are the earliest: a training may have begun again.
    fn add(&self, checkpoint: &Restored, evaluated: &Evaluated) -> Result<()> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| unwritable(&path, &error)
        };
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let step = evaluated.global_step;
        export(checkpoint.clone(), true, &self.file(step, "safetensors"))?;
        let number = self.all()?.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let measured = self.file(step, "json");
        fs::write(&measured, written(number, evaluated).to_string()).map_err(failed(&measured))?;
        let mut all = self.all()?;
        all.sort_by_key(|(number, export)| (*number, export.global_step));
        for (_, superfluous) in &all[..all.len().saturating_sub(self.keep)] {
            for extension in ["json", "safetensors"] {
                let path = self.file(superfluous.global_step, extension);
                fs::remove_file(&path).map_err(failed(&path))?;
            }
        }
        Ok(())
    }

    /// The exports that the folder has, each with its number.
    fn all(&self) -> Result<Vec<(u64, Evaluated)>> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(Vec::new()) };
        let texts = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
            .filter_map(|entry| fs::read_to_string(entry.path()).ok());
        Ok(texts.filter_map(|text| read(&serde_json::from_str(&text).ok()?)).collect())
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
    use crate::checkpoint::{Memory, Retention, SavedVariable, Saver, Shard, Snapshot};
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

    fn files(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_latest_exporter_keeps_the_newest_and_the_best_what_beats_all_before() {
        let folder = std::env::temp_dir().join(format!("trainyard-{}", std::process::id()));
        let (latest_in, best_in) = (folder.join("latest"), folder.join("best"));
        let mut latest = LatestExporter::new(&latest_in).keep(2);
        for (step, loss) in [(10, 3.0), (20, 1.0), (30, 2.0)] {
            // Each is made anew, as by a task that has restarted.
            let mut best = BestExporter::new(&best_in);
            let exporters: [&mut dyn Exporter; 2] = [&mut latest, &mut best];
            for exporter in exporters {
                exporter.export(&checkpoint(step), &evaluated(step, loss)).unwrap();
            }
        }
        let named = |steps: [u64; 2]| -> BTreeSet<String> {
            let of = |step: u64| [format!("{step}.json"), format!("{step}.safetensors")];
            steps.into_iter().flat_map(of).collect()
        };
        assert_eq!(files(&latest_in), named([20, 30]));
        assert_eq!(files(&best_in), named([10, 20]));
        let text = fs::read_to_string(best_in.join("20.json")).unwrap();
        assert_eq!(read(&serde_json::from_str(&text).unwrap()), Some((2, evaluated(20, 1.0))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_exports_of_a_training_that_begins_again_stay_and_the_older_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut latest = LatestExporter::new(folder.path()).keep(2);
        let mut left = |step| {
            latest.export(&checkpoint(step), &evaluated(step, 1.0)).unwrap();
            let named = |name: String| name.strip_suffix(".json")?.parse::<u64>().ok();
            files(folder.path()).into_iter().filter_map(named).collect::<BTreeSet<_>>()
        };
        left(80);
        assert_eq!(left(90), BTreeSet::from([80, 90]));
        assert_eq!(left(10), BTreeSet::from([10, 90]));
        assert_eq!(left(20), BTreeSet::from([10, 20]));
        assert_eq!(left(10), BTreeSet::from([10, 20]), "written again");
        assert_eq!(left(30), BTreeSet::from([10, 30]));
    }
}
