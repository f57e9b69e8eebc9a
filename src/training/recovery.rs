//! How a monitored session goes on after it has lost a task, and when it gives up.
//!
//! An error that a new session can mend (`Unavailable`, `Aborted`) is followed by one, after a
//! pause; as in TensorFlow, the step is then taken again. Where a parameter server has come back
//! without its variables, the chief restores all of them, on all parameter servers, from the newest
//! checkpoint. Without one the training would go on from numbers that nobody has learnt, so it
//! ends, with the error that began it all.

use std::time::Duration;

use crate::runtime::{Code, Error};

/// How long an operation of a monitored session may take: far longer than any step that goes on.
pub(super) const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a task that is lost has to come back.
pub(super) const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// How often something is tried again, and how soon.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// Failures since the last success.
    failures: u32,
}

impl Patience {
    /// Failures in a row after which it is not tried again.
    const MOST: u32 = 6;
    /// The pause after the first failure; each next one is twice as long.
    const PAUSE: Duration = Duration::from_millis(100);

    /// How long to wait before the next try; none where there is none.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let pause = Self::PAUSE * 2u32.pow(self.failures);
        self.failures += 1;
        (self.failures <= Self::MOST).then_some(pause)
    }

    /// It has succeeded.
    pub(super) fn renew(&mut self) {
        self.failures = 0;
    }
}

/// Whether a new session can mend it.
pub(super) fn is_mendable(error: &Error) -> bool {
    matches!(error.code, Code::Unavailable | Code::Aborted)
}

/// `root`, of which it is known by now why it could not be mended.
pub(super) fn given_up(root: &Error, why: &str) -> Error {
    Error { message: format!("{}; {why}", root.message), ..root.clone() }
}

/// The end of a training whose variables are gone. It can't be mended by trying again, but by
/// starting anew.
pub(super) fn lost_values(root: &Error, what: &str) -> Error {
    let message = format!(
        "{}; it has come back without its variables: {what}, and no checkpoint to restore",
        root.message
    );
    Error { code: Code::FailedPrecondition, message, ..root.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_there_is_no_more_trying_and_a_success_renews_them() {
        let mut patience = Patience::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| patience.pause()).collect();
        assert_eq!(pauses.len(), Patience::MOST as usize);
        assert!(pauses.windows(2).all(|pair| pair[1] == 2 * pair[0]));
        patience.renew();
        assert_eq!(patience.pause(), Some(Patience::PAUSE));
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
    }
}
