//! `tape`: prints what the tasks of a recorded deployment received.

use std::io::Write;

use super::args::{ShowTapeArgs, TapeArgs, TapeCommand};
use super::failure::Failure;
use super::stdout::stdout;
use crate::deployment::ExitCode;
use crate::experiment::ExperimentError;
use crate::tape::{Life, Tapes};

/// Runs the command.
pub(super) fn run(args: &TapeArgs) -> Result<ExitCode, Failure> {
    let TapeCommand::Show(args) = &args.command;
    let tapes = Tapes::load(&args.folder).map_err(ExperimentError::from)?;
    show(args, &tapes, stdout())?;
    Ok(ExitCode::Done)
}

fn show(args: &ShowTapeArgs, tapes: &Tapes, mut out: impl Write) -> Result<(), Failure> {
    let failed = || Failure::writing("the result");
    let Some(task) = &args.task else {
        for (number, task) in tapes.tasks().iter().enumerate() {
            for (number, life) in tapes.lives(number).iter().enumerate() {
                let Life { began, entries, died } = life;
                let (began, count) = (began.as_secs_f64(), entries.len());
                let end = if died.is_some() { ", and was killed" } else { "" };
                writeln!(out, "{task} life {number}: began at {began:.6} s, {count} entries{end}")
                    .map_err(failed())?;
            }
        }
        return Ok(());
    };
    let number = tapes.tasks().iter().position(|own| own == task);
    let life = number.and_then(|number| tapes.lives(number).get(args.life));
    let Some(life) = life else {
        let (folder, life) = (args.folder.display(), args.life);
        return Err(Failure::NotSupported(format!(
            "{folder} has no tape of life {life} of {task}"
        )));
    };
    let entries = life.entries.iter().enumerate().skip(args.from).take(args.count);
    for (position, entry) in entries {
        let (at, what) = (entry.at.as_secs_f64(), entry.event.in_words(tapes.tasks()));
        writeln!(out, "{position:>6} {at:>12.6} {what}").map_err(failed())?;
    }
    Ok(())
}
