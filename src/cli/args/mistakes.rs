//! What is said to arguments that are not understood: clap's words, and what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::reading::variable;
use crate::scenario::key_of;

/// Words of other programs for a command of this one.
const COMMANDS: [(&str, &str); 12] = [
    ("compare", "sim"),
    ("deploy", "launch"),
    ("new", "init"),
    ("run", "sim"),
    ("server", "serve"),
    ("simulate", "sim"),
    ("simulation", "sim"),
    ("start", "launch"),
    ("sweep", "plan"),
    ("train", "sim"),
    ("whatif", "plan"),
    ("worker", "task"),
];

/// Clap's words, and what they mean for who reads them.
const WORDS: [(&str, &str); 4] = [
    ("invalid digit found in string", "write a whole number from 0"),
    ("number would be zero for non-zero type", "write 1 or more"),
    ("number too large to fit in target type", "it is too large"),
    (" as a value, use '", " to a program of your own, write '"),
];

/// The flags whose number is at least 1.
const FROM_1: [&str; 4] = ["--devices", "--jobs", "--repeat", "--seeds"];

/// `error` as it is printed.
pub(crate) fn said(error: &clap::Error) -> String {
    let mut text = error.render().ansi().to_string();
    for (theirs, ours) in WORDS {
        text = text.replace(theirs, ours);
    }
    if let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
        && arg.split_once(' ').is_some_and(|(flag, _)| FROM_1.contains(&flag))
    {
        text = text.replace("a whole number from 0", "a whole number from 1");
    }
    if let Some((before, range)) = text.split_once(" is not in ") {
        text = format!("{before} is not from {}", range.replacen("..=", " to ", 1));
    }
    match tip(error) {
        Some(tip) => text.replacen('\n', &format!("\n\n  tip: {tip}\n"), 1),
        None => text,
    }
}

/// What was probably meant, which clap can't know.
fn tip(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = context(ContextKind::InvalidSubcommand)?;
            let (_, meant) = COMMANDS.iter().find(|(other, _)| *other == word)?;
            Some(format!("it is 'trainyard {meant}' here"))
        }
        ErrorKind::UnknownArgument => {
            let key = key_of(context(ContextKind::InvalidArg)?.strip_prefix("--")?)?;
            let takes_a_scenario = error.render().to_string().contains("SCENARIO");
            takes_a_scenario.then(|| format!("the scenario says it: '--set {key}=...'"))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let (flag, _) = context(ContextKind::InvalidArg)?.split_once(' ')?;
            of_variable(flag, context(ContextKind::InvalidValue)?)
        }
        _ => None,
    }
}

/// Names the variable that gives `flag` the value `found`, if no word of the command does.
fn of_variable(flag: &str, found: &str) -> Option<String> {
    let name = variable(flag.strip_prefix("--")?);
    let is_typed = std::env::args_os()
        .any(|word| word.to_str().is_some_and(|word| word.split('=').next() == Some(flag)));
    let is_there = std::env::var(&name).is_ok_and(|value| value.contains(found));
    (is_there && !is_typed).then(|| format!("the variable {name} says it: mend it, or unset it"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Args;
    use super::*;

    #[test]
    fn a_number_below_the_least_of_its_flag_is_told_that_least() {
        let said_of = |number: &str| {
            let words = ["trainyard", "sim", "a.toml", number];
            said(&Args::try_parse_from(words).unwrap_err())
        };
        assert!(said_of("--seeds=-1").contains("write a whole number from 1"));
        assert!(said_of("--seeds=0").contains("write 1 or more"));
        assert!(said_of("--chaos=-1").contains("write a whole number from 0"));
    }
}
