//! `checkpoint`: lists, verifies and merges the checkpoints of a training.

mod listing;

use std::fs;
use std::io::{self, Write};

use super::args::{
    CheckpointArgs, CheckpointCommand, CheckpointsArgs, MergeArgs, ShowCheckpointArgs,
};
use super::failure::Failure;
use super::stdout::{raw_stdout, stdout};
use crate::checkpoint::{CheckpointError, Restored, Retention, Saver, export, open_store};
use crate::deployment::ExitCode;
use crate::say::say;
use crate::units::Bytes;
use listing::{Contents, Row, Sound};

/// Runs the command.
pub(super) fn run(args: &CheckpointArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        CheckpointCommand::List(args) => list(args),
        CheckpointCommand::Show(args) => show(args),
        CheckpointCommand::Verify(args) => verify(args),
        CheckpointCommand::Merge(args) => merge(args),
    }
}

fn list(args: &CheckpointsArgs) -> Result<ExitCode, Failure> {
    let listed = saver(&args.location)?.checkpoints()?;
    let rows: Vec<Row> =
        listed.into_iter().map(|listed| Row::of(listed, Sound::Complete)).collect();
    print(&rows, args.json)?;
    Ok(ExitCode::Done)
}

fn show(args: &ShowCheckpointArgs) -> Result<ExitCode, Failure> {
    let mut saver = saver(&args.location)?;
    let step = match args.step {
        Some(step) => step,
        None => newest(&mut saver, &args.location)?.global_step,
    };
    let contents = Contents::of(&saver.index(step)?);
    let printed = match args.json {
        true => listing::write_json(&contents, raw_stdout()),
        false => contents.write_text(stdout()),
    };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// Reads every checkpoint. A damaged one is in the result, and on stderr with its problem.
fn verify(args: &CheckpointsArgs) -> Result<ExitCode, Failure> {
    let saver = saver(&args.location)?;
    let (mut rows, mut code) = (Vec::new(), ExitCode::Done);
    for mut listed in saver.checkpoints()? {
        listed.problem = listed.problem.or_else(|| saver.restore(listed.global_step).err());
        if let Some(problem) = &listed.problem {
            say!("error: {problem}");
            code = ExitCode::CorruptData;
        }
        rows.push(Row::of(listed, Sound::Whole));
    }
    print(&rows, args.json)?;
    Ok(code)
}

fn merge(args: &MergeArgs) -> Result<ExitCode, Failure> {
    let mut saver = saver(&args.location)?;
    let restored = match args.step {
        Some(step) => saver.restore(step)?,
        None => newest(&mut saver, &args.location)?,
    };
    let name = restored.name.clone();
    let (variables, bytes) = export(restored, args.weights_only, &args.out)?;
    say!("{} has {variables} variables of {name} now, {}", args.out.display(), Bytes(bytes));
    Ok(ExitCode::Done)
}

/// A saver for reading only. It is an error if there are no checkpoints.
fn saver(location: &str) -> Result<Saver, Failure> {
    let saver = Saver::new(open_store(location)?, Retention::default());
    if saver.checkpoints()?.is_empty() {
        return Err(unfit(location, where_else(location)));
    }
    Ok(saver)
}

/// The newest complete checkpoint. Prints the problems of newer ones.
fn newest(saver: &mut Saver, location: &str) -> Result<Restored, Failure> {
    let found = saver.latest()?;
    for error in &found.rejected {
        say!("warning: {error}");
    }
    let location = location.to_owned();
    found.checkpoint.ok_or(Failure::Checkpoint(CheckpointError::NoneWhole { location }))
}

fn unfit(location: &str, problem: String) -> Failure {
    Failure::Checkpoint(CheckpointError::Location { location: location.to_owned(), problem })
}

/// Why there are no checkpoints in `location`, and where there may be.
fn where_else(location: &str) -> String {
    if location.contains("://") {
        return "there is none in it".to_owned();
    }
    let Ok(entries) = fs::read_dir(location) else { return "it is not there".to_owned() };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut folders: Vec<String> =
        folders.map(|entry| format!("`{}`", entry.path().display())).collect();
    folders.sort();
    if folders.is_empty() {
        return "there is none in it".to_owned();
    }
    format!("each run has a folder of its own; name one of {}", folders.join(", "))
}

fn print(rows: &[Row], as_json: bool) -> Result<(), Failure> {
    let printed = match as_json {
        true => listing::write_json(rows, raw_stdout()),
        false => write_rows(rows, stdout()),
    };
    printed.map_err(Failure::writing("the result"))
}

fn write_rows(rows: &[Row], out: impl Write) -> io::Result<()> {
    listing::write_columns(Row::TITLES, rows.iter().map(Row::cells), out)
}
