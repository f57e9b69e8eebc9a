//! Exports the variables of a checkpoint into one file, for any reader of safetensors.

use std::path::Path;

use super::names::is_of_store;
use super::shard_file::Encoded;
use super::store::{Folder, Store};
use super::weights::of_model;
use super::{CheckpointError, Restored};

/// Writes the variables of `restored` to `path`, each partitioned one as a whole. Returns their
/// number and the length of the file \[bytes\].
///
/// With `weights_only`, the file has the model's variables alone: no global step, counters or
/// slots; and where each worker has trained a copy, one value, the center of all. Averages of
/// variables are in it under their own names. A variable named `OTHER/…` after another is treated
/// as a slot and left out, unless the checkpoint marks it as trained or as an average. Older
/// checkpoints have no such marks; all of these are left out.
///
/// # Errors
/// If the file can't be written, if it is named as a store's own file, or if there is a link, a
/// device or a folder in its place.
pub fn export(
    restored: Restored,
    weights_only: bool,
    path: &Path,
) -> Result<(usize, u64), CheckpointError> {
    let error = |problem: String| CheckpointError::Destination {
        file: path.display().to_string(),
        problem,
    };
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| error("it has no name".to_owned()))?;
    // One of the same name may be the checkpoint that is exported.
    if is_of_store(name) {
        return Err(error("it is named as a file of checkpoints; give it another name".to_owned()));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        let problem = "it is there and no plain file, which alone is replaced; name another place";
        return Err(error(problem.to_owned()));
    }
    let folder =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    export_into(&Folder::new(folder), name, restored, weights_only)
}

/// Writes the variables of `restored` as [`export`] does, as the file `name` of `store`.
///
/// # Errors
/// If the file can't be written.
pub(crate) fn export_into(
    store: &dyn Store,
    name: &str,
    restored: Restored,
    weights_only: bool,
) -> Result<(usize, u64), CheckpointError> {
    let step = restored.global_step.to_string();
    let marked = restored.of_model.clone();
    let mut variables = restored.into_whole();
    if weights_only {
        variables = of_model(variables, &marked);
    }
    let tensors = variables.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let encoded = Encoded::new(tensors, ("global_step", &step))
        .map_err(|(variable, problem)| CheckpointError::NotSavable { variable, problem })?;
    let written = store.write(name, &encoded.parts());
    written.map_err(CheckpointError::store("write", store.locate(name)))?;
    Ok((variables.len(), encoded.bytes()))
}
