//! A worker's look at the chief, which has to end the training by `stop.time`.

use std::time::Duration;

use crate::cluster::{DeviceSpec, TaskName};
use crate::graph::Graph;
use crate::runtime::{Code, Error, Result, SessionOptions};
use crate::training::session::Session;
use crate::training::task::Task;
use crate::units::Time;

/// In `network.recovery` a worker looks this often whether the chief gives an answer.
const LOOKS: u32 = 10;

/// A worker's watch of the chief: no other task ends the training by its time.
pub(super) struct ChiefWatch {
    /// The time of the next look, if there is to be one.
    next: Option<Time>,
    /// When the chief was last known to be there: at the end of the time, before the first look.
    heard: Time,
}

impl ChiefWatch {
    /// The watch of `task`. The chief has none, and a training without `stop.time` needs none.
    pub(super) fn new(task: &Task) -> Self {
        let limit = task.settings().stop.time.filter(|_| !task.is_chief());
        let heard = Time::ZERO.after(limit.unwrap_or_default());
        Self { next: limit.map(|_| heard.after(pause(task))), heard }
    }

    /// Looks, if it is time to. A chief that answers is slow, and not gone; one that does not may
    /// stand still, or be started again.
    ///
    /// # Errors
    /// If the chief has given no answer for `network.recovery`: nobody would ever end the training.
    pub(super) async fn look(&mut self, task: &Task) -> Result<()> {
        if self.next.is_none_or(|next| task.now() < next) {
            return Ok(());
        }
        let chief = task.chief();
        match answer_of(task, &chief).await {
            Ok(()) => self.heard = task.now(),
            // It has ended the training meanwhile, and is gone.
            Err(_) if task.is_training_over() => {}
            Err(_) if task.now().since(self.heard) < task.patience().recovery => {}
            Err(error) => return Err(gone(task, &chief, &error)),
        }
        self.next = Some(task.now().after(pause(task)));
        Ok(())
    }
}

/// The time between two looks, and for which a look lasts.
fn pause(task: &Task) -> Duration {
    task.patience().recovery / LOOKS
}

/// Waits for the answer of `chief`, which gives one while it computes, too.
async fn answer_of(task: &Task, chief: &TaskName) -> Result<()> {
    let g = Graph::new();
    let device = DeviceSpec::of_task(chief).to_string();
    let alive = g.with_device(&device, |g| Ok(g.constant(true)))?;
    let operation_timeout = Some(pause(task));
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
