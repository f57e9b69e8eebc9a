//! What `[checkpoint]` means.

use std::time::Duration;

use super::super::file::{CheckpointFile, NumericsFile};
use super::super::{Checkpoint, Often};
use super::Mistakes;

pub(super) fn checkpoint(
    file: Option<CheckpointFile>,
    numerics: NumericsFile,
    found: &mut Mistakes,
) -> Option<Checkpoint> {
    let file = file?;
    found.unless(numerics == NumericsFile::Real, "checkpoint", || {
        "with `numerics = \"shapes\"` there are no values to save; leave it out".to_owned()
    });
    found.unless(
        file.every_steps.is_none() || file.every.is_none(),
        "checkpoint.every_steps",
        || "give `every_steps` or `every`, not both".to_owned(),
    );
    let every = match (file.every_steps, file.every) {
        (Some(steps), _) => {
            found.at_least_1(steps, "checkpoint.every_steps");
            Often::Steps(steps.max(1))
        }
        (None, every) => Often::Time(every.map_or(Duration::from_secs(600), Duration::from)),
    };
    let directory = file.directory;
    found.unless(directory.as_deref() != Some(""), "checkpoint.directory", || {
        "name a folder or an URL".to_owned()
    });
    let (keep, keep_every) = (file.keep.unwrap_or(5), file.keep_every.map(Duration::from));
    Some(Checkpoint { every, directory, keep, keep_every, fuzzy: file.fuzzy })
}
