//! `sim --weights`: a file of its own for the weights of each run.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::checkpoint::{Restored, export};
use crate::experiment::{Trial, folder_of};
use crate::report::Run;
use crate::say::say;
use crate::training::Recording;

/// Makes `folder`, and removes the files that earlier runs called as `trials` have left there: none
/// is to stand for a run that fails.
///
/// # Errors
/// If the folder can't be made, or a file in it can't be removed.
pub(super) fn prepare(folder: &Path, trials: &[Trial]) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(Failure::writing(folder.display().to_string()))?;
    for trial in trials {
        let path = file(folder, &trial.name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Failure::Write { what: path.display().to_string(), error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes the weights of `run`, which is over, into `folder`, and takes them from its `recording`.
/// Says why, if it has none.
///
/// # Errors
/// If they can't be written.
pub(super) fn write(folder: &Path, run: &Run, recording: &mut Recording) -> Result<(), Failure> {
    let Some(weights) = recording.weights.take() else {
        let why = match recording.ending {
            Some(_) => "only shapes are computed",
            None => "its program has closed no monitored session",
        };
        say!("{}: no weights are written: {why}", run.name);
        return Ok(());
    };
    let restored = Restored::of(&run.name, run.global_steps, weights);
    let written = restored.and_then(|restored| export(restored, false, &file(folder, &run.name)));
    written.map(drop).map_err(|error| Failure::Write {
        what: format!("the weights of run `{}`", run.name),
        error: io::Error::other(error),
    })
}

fn file(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{}.safetensors", folder_of(run)))
}
