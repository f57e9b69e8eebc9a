//! How arguments are read: each flag also from the environment, TensorFlow's flags alone as a task.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::Args;
use crate::deployment::VARIABLES;

/// The flags by which TensorFlow's trainers, which have no commands, are told who they are.
const OF_TENSORFLOW: [&str; 4] = ["ps-hosts", "worker-hosts", "job-name", "task-index"];

/// The command line as it is understood.
pub(crate) fn understood() -> Command {
    with_variables(Args::command())
}

/// Reads `words`, of which the first is the program.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(is_of_tensorflow) {
        words.insert(1, "task".into());
    }
    Args::from_arg_matches(&understood().try_get_matches_from(words)?)
}

/// `--busy-poll` may also be given as the variable `TRAINYARD_BUSY_POLL`.
fn with_variables(command: Command) -> Command {
    let variable = |flag: &str| format!("{VARIABLES}{}", flag.to_uppercase().replace('-', "_"));
    let with_variable = |arg: Arg| match arg.get_long().map(variable) {
        Some(name) => arg.env(name).hide_env(true),
        None => arg,
    };
    command.mut_args(with_variable).mut_subcommands(with_variables)
}

fn is_of_tensorflow(word: &OsString) -> bool {
    let flag = word.to_str().and_then(|word| word.strip_prefix("--"));
    let flag = flag.map(|flag| flag.split('=').next().unwrap_or_default().replace('_', "-"));
    flag.is_some_and(|flag| OF_TENSORFLOW.contains(&&*flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    #[test]
    fn flags_of_tensorflow_without_a_command_run_a_task() {
        let words = ["trainer", "--ps_hosts=a:1", "--job_name=worker", "--task_index=3"];
        let args = read(words.map(OsString::from)).unwrap();
        let args::Command::Task(task) = args.command else { panic!("{:?}", args.command) };
        assert_eq!(
            (task.role.job_name.as_deref(), task.role.task_index),
            (Some("worker"), Some(3))
        );
        assert!(read(["trainer", "--out=x"].map(OsString::from)).is_err());
    }

    #[test]
    fn the_definition_of_the_arguments_has_no_contradiction() {
        understood().debug_assert();
    }
}
