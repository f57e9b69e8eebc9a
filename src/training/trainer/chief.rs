//! A worker's look at the chief, which has to end the training by `stop.time`.

use crate::cluster::{DeviceSpec, TaskName};
use crate::graph::Graph;
use crate::runtime::{Code, Error, Result, SessionOptions};
use crate::training::session::Session;
use crate::training::task::Task;
use crate::units::Time;

/// When a worker looks whether the chief is still there, if it has to: no other task ends the
/// training by its time.
pub(super) struct ChiefWatch(Option<Time>);

impl ChiefWatch {
    /// The watch of `task`. The chief has none, and a training without `stop.time` needs none.
    pub(super) fn new(task: &Task) -> Self {
        let limit = task.settings().stop.time.filter(|_| !task.is_chief());
        Self(limit.map(|limit| Time::ZERO.after(limit).after(task.patience().recovery)))
    }

    /// Looks, if it is time to. A chief that answers is slow, and not gone: it is looked for again
    /// later.
    ///
    /// # Errors
    /// If the chief does not answer, so that nobody would ever end the training.
    pub(super) async fn look(&mut self, task: &Task) -> Result<()> {
        if self.0.is_none_or(|next| task.now() < next) {
            return Ok(());
        }
        let chief = task.chief();
        answer_of(task, &chief).await.map_err(|error| gone(task, &chief, &error))?;
        self.0 = Some(task.now().after(task.patience().recovery));
        Ok(())
    }
}

/// Waits for the answer of `chief`, which gives one while it computes, too.
async fn answer_of(task: &Task, chief: &TaskName) -> Result<()> {
    let g = Graph::new();
    let device = DeviceSpec::of_task(chief).to_string();
    let alive = g.with_device(&device, |g| Ok(g.constant(true)))?;
    let operation_timeout = Some(task.patience().recovery);
    let options = SessionOptions { operation_timeout, ..SessionOptions::default() };
    let session = Session::with_options(&task.target(), &g, options).await?;
    session.run().fetch(&alive).await.map(drop)
}

fn gone(task: &Task, chief: &TaskName, error: &Error) -> Error {
    let limit = task.settings().stop.time.unwrap_or_default();
    let recovery = task.patience().recovery;
    let message = format!(
        "the training should have ended by `stop.time`, {limit:?}, but its chief, {chief}, has not \
         ended it and gives no answer: {}; start {chief} again, or set `network.recovery`, \
         {recovery:?}, to more than it may stand still",
        error.message
    );
    Error::new(Code::Unavailable, message).on(chief)
}
