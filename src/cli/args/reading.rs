//! How arguments are read: each flag also from the environment, TensorFlow's flags alone as a task.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::Args;
use crate::deployment::VARIABLES;
use crate::live::http_address;

/// The flags by which TensorFlow's trainers, which have no commands, are told who they are.
const OF_TENSORFLOW: [&str; 4] = ["ps-hosts", "worker-hosts", "job-name", "task-index"];

/// The command line as it is understood.
pub(crate) fn understood() -> Command {
    with_variables(Args::command())
}

/// Reads `words`, of which the first is the program.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let mut command = understood();
    if words.get(1).is_some_and(is_of_tensorflow) {
        command.build();
        let task = command.find_subcommand("task").expect("it is one of the commands");
        words = as_task(words, task);
    }
    let words = with_address(words);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// The words of a trainer without commands as those of `task`. What `task` does not know is the
/// program's, as with `parse_known_args` of TensorFlow's example.
fn as_task(words: Vec<OsString>, task: &Command) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut known: Vec<OsString> = words.next().into_iter().chain(["task".into()]).collect();
    let mut programs = Vec::new();
    while let Some(word) = words.next() {
        match flag(&word) {
            Some("") => programs.extend(words.by_ref()), // after `--` all is the program's
            Some(name) if !knows(task, name) => {
                let has_value = word.as_encoded_bytes().contains(&b'=');
                programs.push(word);
                let value = words.next_if(|next| !has_value && flag(next).is_none());
                programs.extend(value);
            }
            _ => known.push(word),
        }
    }
    known.push("--".into());
    known.append(&mut programs);
    known
}

/// `--dashboard 6008` as `--dashboard=6008`. Clap can't tell the address, which may be left out,
/// from the scenario that may follow.
fn with_address(words: Vec<OsString>) -> Vec<OsString> {
    let mut known: Vec<OsString> = Vec::new();
    let mut is_ours = true; // until `--`
    for word in words {
        is_ours &= word != "--";
        let is_address = word.to_str().is_some_and(|word| http_address(word).is_ok());
        match known.last_mut().filter(|last| is_ours && is_address && *last == "--dashboard") {
            Some(last) => {
                last.push("=");
                last.push(word);
            }
            None => known.push(word),
        }
    }
    known
}

fn knows(command: &Command, flag: &str) -> bool {
    command.get_arguments().any(|arg| {
        arg.get_long() == Some(flag) || arg.get_all_aliases().is_some_and(|all| all.contains(&flag))
    })
}

/// The name of a flag: what stands between `--` and `=`.
fn flag(word: &OsStr) -> Option<&str> {
    word.to_str()?.strip_prefix("--")?.split('=').next()
}

/// The variable in which the flag `--flag` may also be given: of `busy-poll`,
/// `TRAINYARD_BUSY_POLL`.
pub(super) fn variable(flag: &str) -> String {
    format!("{VARIABLES}{}", flag.to_uppercase().replace('-', "_"))
}

/// Each flag may also be given as its variable.
fn with_variables(command: Command) -> Command {
    // A number below 0 is no flag, but a value to be refused.
    let with_variable = |arg: Arg| match arg.get_long().map(variable) {
        Some(name) => {
            let has_value = arg.get_action().takes_values();
            arg.env(name).hide_env(true).allow_negative_numbers(has_value)
        }
        None => arg,
    };
    command.mut_args(with_variable).mut_subcommands(with_variables)
}

fn is_of_tensorflow(word: &OsString) -> bool {
    flag(word).is_some_and(|flag| OF_TENSORFLOW.contains(&&*flag.replace('_', "-")))
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
    fn flags_that_a_task_does_not_know_are_its_programs() {
        let words = "trainer --job_name=ps --batch_size 32 --task_index 1 --lr=0.1 --async -- --x";
        let args = read(words.split(' ').map(OsString::from)).unwrap();
        let args::Command::Task(task) = args.command else { panic!("{:?}", args.command) };
        assert_eq!((task.role.job_name.as_deref(), task.role.task_index), (Some("ps"), Some(1)));
        let programs = &task.scenario.program;
        assert_eq!(programs, &["--batch_size", "32", "--lr=0.1", "--async", "--x"]);
        let with_command = "trainer task --job_name=ps --batch_size=32";
        assert!(read(with_command.split(' ').map(OsString::from)).is_err(), "perhaps misspelt");
    }

    #[test]
    fn the_address_of_a_dashboard_may_follow_it_as_a_word() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let with_address = |text| with_address(words(text));
        assert_eq!(with_address("t sim --dashboard 6008 a"), words("t sim --dashboard=6008 a"));
        for text in ["t sim --dashboard a.toml", "t sim --dashboard --seed 8", "t -- --dashboard 8"]
        {
            assert_eq!(with_address(text), words(text));
        }
        let args = read(words("trainyard sim a.toml --dashboard 0.0.0.0:6008")).unwrap();
        let args::Command::Sim(sim) = args.command else { panic!("{:?}", args.command) };
        assert_eq!(sim.dashboard.address.unwrap().port(), 6008);
    }

    #[test]
    fn the_definition_of_the_arguments_has_no_contradiction() {
        understood().debug_assert();
    }
}
