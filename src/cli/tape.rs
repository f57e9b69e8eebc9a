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
    let count = life.entries.len();
    if args.from > 0 && args.from >= count {
        return Err(Failure::NotSupported(format!(
            "the tape of life {} of {task} has {count} entries, counted from 0; there is none from \
             {} on",
            args.life, args.from
        )));
    }
    let entries = life.entries.iter().enumerate().skip(args.from).take(args.count);
    for (position, entry) in entries {
        let (at, what) = (entry.at.as_secs_f64(), entry.event.in_words(tapes.tasks()));
        writeln!(out, "{position:>6} {at:>12.6} {what}").map_err(failed())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;
    use crate::tape::{Entry, Event};
    use crate::units::Time;

    #[test]
    fn a_position_past_the_end_of_a_tape_is_told_how_many_entries_there_are() {
        let entry = Entry { at: Time(1), event: Event::Computed { device: 0 } };
        let life = Life { began: Time::ZERO, entries: vec![entry; 3], died: None };
        let task: TaskName = "worker:0".parse().unwrap();
        let tapes = Tapes::of(vec![task.clone()], vec![vec![life]]);
        let shown = |from| {
            let (folder, task) = ("tapes".into(), Some(task.clone()));
            let args = ShowTapeArgs { folder, task, life: 0, from, count: 20 };
            let mut out = Vec::new();
            show(&args, &tapes, &mut out)
                .map(|()| out.iter().filter(|byte| **byte == b'\n').count())
        };
        assert_eq!(shown(2).ok(), Some(1));
        let error = shown(3).unwrap_err().to_string();
        assert!(error.contains("the tape of life 0 of worker:0 has 3 entries"), "{error}");
    }
}
