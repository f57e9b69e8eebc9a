//! What is said to arguments that are not understood: clap's words, and what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::experiment::scenario::key_of;

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

/// `error` as it is printed.
pub(crate) fn said(error: &clap::Error) -> String {
    let mut text = error.render().ansi().to_string();
    for (theirs, ours) in WORDS {
        text = text.replace(theirs, ours);
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
        _ => None,
    }
}
