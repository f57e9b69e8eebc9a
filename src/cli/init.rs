//! `init`: writes a first scenario, to be changed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use super::args::InitArgs;
use super::failure::Failure;
use crate::deployment::ExitCode;
use crate::say::say;

/// The scenario that is written, and that is run where none is named.
pub(super) const SCENARIO: &str = include_str!("../../sims/sync_vs_async.toml");

/// The line with the scenario's name.
const NAME: &str = "name = \"sync-vs-async\"";

/// Runs the command. A file that is there is left as it is.
pub(super) fn run(args: &InitArgs) -> Result<ExitCode, Failure> {
    let path = args.folder.join("scenario.toml");
    let shown = path.display().to_string();
    let folder = args.folder.display().to_string();
    fs::create_dir_all(&args.folder).map_err(Failure::writing(folder))?;
    let made = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = made.map_err(Failure::writing(shown.clone()))?;
    let text = SCENARIO.replace("sims/sync_vs_async.toml", &shown);
    let text = text.replace(NAME, &name_of(&args.folder).unwrap_or_else(|| NAME.to_owned()));
    let written = file.write_all(text.as_bytes()).inspect_err(|_| {
        fs::remove_file(&path).ok(); // the next try would take it for a scenario; this error counts
    });
    written.map_err(Failure::writing(shown.clone()))?;
    say!("{shown} is a scenario with a comment on each key; run it with `trainyard sim {shown}`");
    Ok(ExitCode::Done)
}

/// The line that names a scenario after `folder`, unless tables can't print that name.
fn name_of(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let name = folder.file_name()?.to_str()?;
    let is_printable = !name.trim().is_empty() && !name.contains(char::is_control);
    is_printable.then(|| format!("name = {}", toml::Value::from(name)))
}
