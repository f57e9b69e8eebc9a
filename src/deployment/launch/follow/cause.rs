//! The root cause of a launch's failure: the task that failed first, with its last words.

use std::fs;
use std::path::Path;

use crate::deployment::launch::follow::Followed;
use crate::deployment::launch::follow::followee::Followee;
use crate::deployment::launch::follow::listener::Exit;
use crate::deployment::{DeploymentError, ExitCode};

/// The most lines of a task's last error that are told.
const MOST_LINES: usize = 10;

impl Followed<'_> {
    /// Whether `followee` has ended with the error of a chief that can't give the variables their
    /// values.
    fn passes_on(&self, followee: &Followee) -> bool {
        let chief = Some(&self.tasks[self.chief].task);
        let error = followee.record.error();
        Some(&followee.task) != chief && error.is_some_and(|error| error.task.as_ref() == chief)
    }

    /// Whether the chief has failed, and its process is not gone yet: it sends its last messages,
    /// and others that have heard of its error may be gone before it.
    pub(super) fn awaits_the_cause(&self) -> bool {
        let mut failed = self.tasks.iter().filter(|followee| followee.failed.is_some());
        self.tasks[self.chief].runs() && failed.any(|followee| self.passes_on(followee))
    }

    /// The first failure, or the first that is not merely the loss of another task.
    pub(super) fn root_cause(&self) -> DeploymentError {
        let order = self.order;
        let mut failed: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|followee| Some((followee.failed.as_ref()?, followee)))
            .collect();
        failed.sort_by_key(|((rank, exit), followee)| {
            (exit.is_loss_of_another(), self.passes_on(followee), *rank)
        });
        let ((_, exit), Followee { task, record, .. }) = failed[0];
        let log = order.log(task);
        let mut why = why(exit, &log);
        let is_gone = matches!(exit, Exit::Signal(_) | Exit::Silent(_));
        let is_mended = is_gone && exit.meaning() == ExitCode::PeersLost;
        if is_mended && order.max_restarts == 0 && order.faults.is_empty() {
            why += "; `--max-restarts N` starts it again";
        }
        DeploymentError::Task {
            run: order.run.clone(),
            task: task.clone(),
            why,
            log: log.display().to_string(),
            code: exit.meaning(),
            error: record.error().filter(|_| matches!(exit, Exit::Code(_))).cloned().map(Box::new),
        }
    }
}

/// Why a process with this `log` ended with `exit`: its last error, if it had the time for any, or
/// else the exit with the end of its log.
pub(super) fn why(exit: &Exit, log: &Path) -> String {
    let said = match exit {
        Exit::Code(_) => words(log),
        _ => None,
    };
    match said {
        Some(Words::Error(error)) => error,
        Some(Words::LastLine(line)) => format!("{exit}; its log ends with: {line}"),
        None => exit.to_string(),
    }
}

/// The last error in a log, with the lines of it that follow, or else the log's last line that may
/// say why.
pub(crate) fn last_words(log: &Path) -> Option<String> {
    match words(log)? {
        Words::Error(words) | Words::LastLine(words) => Some(words),
    }
}

/// What the log of a process that has ended says of its end.
enum Words {
    /// The last error, without `error: `.
    Error(String),
    /// The last line, where there is no error.
    LastLine(String),
}

/// How lines begin that say nothing of the end, and may be the last: those that trainyard itself
/// logs below the level of errors, and a hint.
const UNRELATED: [&str; 5] =
    [" WARN ", " INFO ", "DEBUG ", "TRACE ", "note: run with `RUST_BACKTRACE"];

fn words(log: &Path) -> Option<Words> {
    let text =
        fs::read(log).inspect_err(|error| tracing::warn!(%error, "a log can't be read")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let Some(at) = lines.iter().rposition(|line| line.starts_with("error: ")) else {
        let is_related = |line: &&&str| !UNRELATED.iter().any(|start| line.starts_with(start));
        return lines.iter().rfind(is_related).map(|line| Words::LastLine((*line).to_owned()));
    };
    let error = lines[at..].iter().take(MOST_LINES).copied().collect::<Vec<_>>().join("\n");
    error.strip_prefix("error: ").map(|error| Words::Error(error.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::Folder;

    #[test]
    fn the_last_words_of_a_task_are_all_lines_of_its_last_error() {
        let folder = Folder::private("trainyard-last-words").unwrap();
        let log = folder.path().join("worker-0.log");
        let words = |text: &str| {
            fs::write(&log, text).unwrap();
            last_words(&log)
        };
        let mistakes = "error: early\nstep 3\nerror: task.toml:3: stop.steps: 0 must be at \
                        least 1\ntask.toml:9: program.batch: 0 must be at least 1\n\n";
        let said = words(mistakes).unwrap();
        assert!(said.starts_with("task.toml:3: stop.steps") && said.contains("task.toml:9:"));
        assert_eq!(words("step 3\nstep 4\n").as_deref(), Some("step 4"));
        assert_eq!(words(""), None);
    }

    #[test]
    fn an_end_without_an_error_is_told_with_its_exit_code_and_no_warning_stands_for_its_cause() {
        let folder = Folder::private("trainyard-no-error").unwrap();
        let log = folder.path().join("worker-0.log");
        let told = |text: &str| {
            fs::write(&log, text).unwrap();
            why(&Exit::Code(3), &log)
        };
        let warning = " WARN trainyard::transport::quic::socket: UDP buffers are small\n";
        assert_eq!(told(warning), "it ended with exit code 3");
        let said = told(&format!("no more rows\n{warning}"));
        assert_eq!(said, "it ended with exit code 3; its log ends with: no more rows");
        assert_eq!(told(&format!("error: no rows\n{warning}\n")).lines().next(), Some("no rows"));
        assert_eq!(Exit::Code(3).meaning(), ExitCode::Internal, "no target was missed");
        assert_eq!(Exit::Code(9).meaning(), ExitCode::Unwritable);
    }
}
