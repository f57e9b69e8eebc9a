//! `completions` and `man`: what a shell completes, and the manual's pages.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;

use super::args::{CompletionsArgs, ManArgs, understood};
use super::failure::Failure;
use super::stdout::raw_stdout;
use crate::deployment::ExitCode;
use crate::say::say;

/// The name under which the program is installed.
const NAME: &str = "trainyard";

/// Prints the script by which a shell completes commands and flags.
pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut understood(), NAME, &mut script);
    raw_stdout().write_all(&script).map_err(Failure::writing("the script"))?;
    Ok(ExitCode::Done)
}

/// Writes a page for each command into a folder; without one, prints the program's.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let Some(folder) = &args.folder else {
        let printed = clap_mangen::Man::new(understood()).render(&mut raw_stdout());
        printed.map_err(Failure::writing("the page"))?;
        return Ok(ExitCode::Done);
    };
    let shown = folder.display().to_string();
    fs::create_dir_all(folder).map_err(Failure::writing(shown.clone()))?;
    clap_mangen::generate_to(understood(), folder).map_err(Failure::writing(shown.clone()))?;
    let written = fs::read_dir(folder).map_err(Failure::writing(shown.clone()))?;
    let is_page = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(NAME));
    let pages = written.flatten().filter(|entry| is_page(&entry.file_name())).count();
    say!("{pages} pages of the manual are in {shown}; read one with `man -l {shown}/{NAME}.1`");
    Ok(ExitCode::Done)
}
