//! How a monitored session goes on after it has lost a task, and when it gives up.
//!
//! After an error that a new session can mend (`Unavailable`, `Aborted`), there is a pause and then
//! a new session; as in TensorFlow, the step is taken again. If a parameter server has come back
//! without its variables, the chief restores all variables, on all parameter servers, from the
//! newest checkpoint. If there is no checkpoint, the training ends with the first error: it would
//! otherwise go on from values that nobody has trained.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::runtime::{Code, Error};

/// Decides whether to try again, and after how long a pause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    /// Failures since the last success.
    failures: u32,
}

impl Tries {
    /// The number of failures in a row after which the session gives up.
    const MOST: u32 = 6;
    /// The pause after the first failure; each next one is twice as long.
    const PAUSE: Duration = Duration::from_millis(100);

    /// The pause before the next try. None if there is no next try.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let pause = (self.failures < Self::MOST).then(|| Self::PAUSE * 2u32.pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Begins anew, after a success.
    pub(super) fn renew(&mut self) {
        self.failures = 0;
    }
}

/// Whether a new session can mend `error`.
pub(super) fn is_mendable(error: &Error) -> bool {
    matches!(error.code, Code::Unavailable | Code::Aborted)
}

/// Whether `error` ends the training: nothing of it is left to go on with, or it is over.
pub(super) fn is_end(error: &Error) -> bool {
    matches!(error.code, Code::OutOfRange | Code::VariablesLost | Code::WorkersLeft)
}

/// `root`, extended by the reason why it could not be mended.
pub(super) fn given_up(root: &Error, why: &str) -> Error {
    Error { message: format!("{}; {why}", root.message), ..root.clone() }
}

/// The error of a training that has no session after the error `root`, since the last attempt at a
/// new one ended with `error`: `root`, extended by that. It has the code of `error` if starting
/// again would end the same way, as where a task is refused, or the checkpoints are damaged.
/// Otherwise `why` precedes that error.
pub(super) fn without_session(root: &Error, why: &str, error: Error) -> Error {
    let is_refused =
        matches!(error.code, Code::InvalidArgument | Code::NotFound | Code::Unauthenticated);
    if is_end(&error) || error.code.is_of_storage() || is_refused {
        let task = error.task.or_else(|| root.task.clone());
        return Error { code: error.code, task, ..given_up(root, &error.message) };
    }
    // The whole names the task of `root`, at its end.
    let task = error.task.filter(|task| root.task.as_ref() != Some(task));
    given_up(root, &format!("{why}{}", Error { task, ..error }))
}

/// The error of a training that has lost `what` after the error `root`. Trying again does not help;
/// starting anew does.
pub(super) fn lost_values(root: &Error, what: &str) -> Error {
    let message = format!("{}; {what}, and there is no checkpoint to restore", root.message);
    Error { code: Code::VariablesLost, message, ..root.clone() }
}

/// The error of a training that has gone back to the checkpoint of `step`, whose next steps need
/// the workers that have `left`. Trying again does not help.
pub(super) fn workers_have_left(
    root: &Error,
    what: &str,
    step: u64,
    left: &BTreeSet<u32>,
) -> Error {
    let left = left.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let message = format!(
        "{}; {what}, the training goes back to the checkpoint of step {step}, and needs the \
         workers that have left (number {left}); begin it again, to go on from there",
        root.message
    );
    Error { code: Code::WorkersLeft, message, ..root.clone() }
}

/// The error of a training that had reached a step when it went back, after the error `root`, to
/// the checkpoint of an earlier `step`, and has ended there.
pub(super) fn ended_behind(root: Option<Error>, reached: u64, step: u64) -> Error {
    let root = root.unwrap_or_else(|| Error::new(Code::WorkersLeft, "its variables were lost"));
    let message = format!(
        "{}; the training had reached step {reached} and has gone back to the checkpoint of step \
         {step}, and the other workers may have left; begin it again, to go on from there",
        root.message
    );
    Error { code: Code::WorkersLeft, message, ..root }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;

    #[test]
    fn pauses_grow_until_there_is_no_more_trying_and_a_success_renews_them() {
        let mut tries = Tries::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| tries.pause()).collect();
        assert_eq!(pauses.len(), Tries::MOST as usize);
        assert!(pauses.windows(2).all(|pair| pair[1] == 2 * pair[0]));
        tries.renew();
        assert_eq!(tries.pause(), Some(Tries::PAUSE));
    }

    #[test]
    fn only_lost_tasks_and_lost_state_are_mended() {
        let mendable = |code| is_mendable(&Error::new(code, ""));
        assert!(mendable(Code::Unavailable) && mendable(Code::Aborted));
        for code in [
            Code::Cancelled,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::Internal,
            Code::OutOfRange,
        ] {
            assert!(!mendable(code), "{code:?}");
        }
    }

    #[test]
    fn giving_up_keeps_the_root_cause() {
        let root = Error::new(Code::Unavailable, "ps:0 was lost");
        let error = given_up(&root, "no luck");
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::Unavailable, "ps:0 was lost; no luck")
        );
        let lost = || Error::new(Code::VariablesLost, "gone").on(&TaskName::new("ps", 1));
        let error = without_session(&root, "then ", lost());
        assert_eq!((error.code, error.task.clone()), (Code::VariablesLost, lost().task));
        assert_eq!(error.message, "ps:0 was lost; gone");
        let error = without_session(&root, "then ", Error::new(Code::DeadlineExceeded, "too late"));
        assert_eq!(error.code, Code::Unavailable);
        assert_eq!(error.message, "ps:0 was lost; then DeadlineExceeded: too late");
        let on_ps = |code| Error::new(code, "no").on(&TaskName::new("ps", 0));
        let twice = without_session(&on_ps(root.code), "then ", on_ps(Code::DeadlineExceeded));
        assert_eq!(twice.to_string(), "Unavailable: no; then DeadlineExceeded: no (on ps:0)");
        let error = ended_behind(Some(root), 12, 8);
        assert!(error.message.starts_with("ps:0 was lost; the training had reached step 12"));
        assert_eq!(error.code, Code::WorkersLeft);
    }

    #[test]
    fn who_is_refused_or_finds_no_good_checkpoint_ends_with_the_code_of_that() {
        let root = Error::new(Code::Unavailable, "ps:0 was lost");
        for code in [
            Code::InvalidArgument,
            Code::Unauthenticated,
            Code::NotFound,
            Code::DataLoss,
            Code::Unwritable,
        ] {
            let error = without_session(&root, "then ", Error::new(code, "no"));
            assert_eq!((error.code, &*error.message), (code, "ps:0 was lost; no"));
        }
    }
}
