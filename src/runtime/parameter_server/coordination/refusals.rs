//! The reasons to refuse a worker's part in a training: it is of another training, or of a round to
//! come, or has given way to another part of the same worker.

use std::fmt;

use crate::graph::Replica;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::state::Ticket;

/// Checks that `replica` is of `training`, and has not read `what` after more `updates` than its
/// rounds have made, if those are at a `round`.
pub(crate) fn check_round(
    replica: Replica,
    training: &Replica,
    updates: u64,
    round: Option<u64>,
    what: impl fmt::Display,
) -> Result<()> {
    replica
        .check_trains_with(training)
        .map_err(|problem| Error::new(Code::InvalidArgument, problem))?;
    let Some(round) = round.filter(|round| updates > *round) else { return Ok(()) };
    let message = format!(
        "worker {} has read {what} after {updates} updates, but the rounds of the training are at \
         {round}: variables were reset or updated from outside of it; reset their container and \
         initialize them",
        replica.worker
    );
    Err(Error::new(Code::FailedPrecondition, message))
}

/// The error of `older`, which gives way to the `newer` request of `replica`.
pub(crate) fn taken_over(replica: Replica, newer: Ticket, older: Ticket) -> Error {
    if newer.step == older.step {
        return two_operations(replica);
    }
    let worker = replica.worker;
    let message = format!("worker {worker} has begun another step, which takes its place");
    Error::new(Code::Aborted, message)
}

/// The error of a worker's second part in one round.
pub(crate) fn two_operations(replica: Replica) -> Error {
    let Replica { worker, mode, .. } = replica;
    let message = format!(
        "worker {worker} runs two training operations in one step, but in the mode {mode} it has \
         one part in a round; run them in steps of their own"
    );
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mode;

    #[test]
    fn who_has_read_more_updates_than_rounds_were_made_is_told_of_both_and_what_to_do() {
        let replica = Replica { worker: 1, workers: 2, mode: Mode::KAsync { k: 2 } };
        let check = |updates, round| check_round(replica, &replica, updates, round, "`w`");
        assert!(check(4, Some(4)).is_ok() && check(5, None).is_ok());
        let error = check(5, Some(4)).unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition);
        for said in ["worker 1 has read `w` after 5 updates", "at 4", "reset their container"] {
            assert!(error.message.contains(said), "{error}");
        }
    }
}
