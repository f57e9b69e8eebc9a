//! The first session of a training.

use crate::runtime::{Code, Error, Result};

use super::super::recovery::{Tries, is_mendable, without_session};
use super::super::session_creator::{Created, SessionCreator};
use super::super::task::Task;

/// What precedes a later error than the first.
const THEN: &str = "then ";

/// Creates the first session, trying again as long as that can help.
///
/// # Errors
/// If a task fails; if this one is to stop before it has a session.
pub(super) async fn create(
    task: &Task,
    creator: &SessionCreator,
    tries: &mut Tries,
) -> Result<Created> {
    let mut root = None;
    loop {
        // One that has stopped and come back is there for this session.
        task.server().forget_past_stop();
        // No step would follow; and the others, which are asked to stop too, may be gone.
        let own = Some(task.name()).filter(|_| task.server().training().is_stop_requested());
        if let Some(asked) = own.cloned().or_else(|| task.server().stopping()) {
            let name = task.name();
            let message = format!("{asked} was asked to stop before {name} had begun to train");
            let stopped = Error::new(Code::Cancelled, message);
            return Err(match root {
                Some(root) => without_session(&root, THEN, stopped),
                None => stopped,
            });
        }
        let error = match creator.create().await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        // The chief may have cleared the values that this worker had found, to give all new ones.
        let may_be_reset = error.code == Code::FailedPrecondition && !task.is_chief();
        let pause = tries.pause().filter(|_| is_mendable(&error) || may_be_reset);
        // What is told is the loss behind it, if there is one.
        root.take_if(|root: &mut Error| root.code == Code::FailedPrecondition);
        let root: &mut Error = root.get_or_insert(error.clone());
        let Some(pause) = pause else {
            let is_first = *root == error;
            return Err(if is_first { error } else { without_session(root, THEN, error) });
        };
        tracing::warn!(%error, ?pause, "the session can't be opened; trying again");
        task.sleep(pause).await;
    }
}
