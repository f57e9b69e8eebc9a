//! `GlobalStepWaiter`: delays a worker's start until the others have reached a global step.

use std::time::Duration;

use crate::graph::{Graph, Output};
use crate::runtime::{Code, Error, NOTICE, Result};

use super::super::task::Task;
use super::{Hook, HookContext, HookFuture};

/// The time between two looks at the global step.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Waits until the training is at a global step (TensorFlow: `GlobalStepWaiterHook`): workers that
/// start one after the other disturb each other's first steps less. The usual step for worker `i`
/// is a constant times `ln(i + 1)`.
///
/// It waits once, when the session is opened. Unlike TensorFlow's, it also stops waiting when the
/// training is over, and fails if the step has not moved for as long as tasks are waited for at
/// their start: nobody trains.
#[derive(Debug)]
pub struct GlobalStepWaiter {
    until: u64,
    step: Option<Output>,
    is_over: bool,
}

impl GlobalStepWaiter {
    /// Waits until the global step is `step` or more. With 0 it does not wait.
    pub fn new(step: u64) -> Self {
        Self { until: step, step: None, is_over: step == 0 }
    }

    async fn wait(&mut self, context: &HookContext<'_>) -> Result<()> {
        let step = self.step.as_ref().expect("a hook begins before there is a session");
        let task = context.task;
        let (mut last, mut moved, mut told) = (None, task.now(), task.now());
        while !self.is_over && !context.should_stop() {
            let now = context.session.run().fetch(step).await?.scalar::<i64>(0)?;
            self.is_over = u64::try_from(now).is_ok_and(|now| now >= self.until);
            if self.is_over {
                break;
            }
            if last.replace(now) != Some(now) {
                moved = task.now();
            } else if task.now().since(moved) >= task.patience().first {
                return Err(self.nobody_trains(now, task));
            }
            if task.now().since(told) >= NOTICE {
                told = task.now();
                tracing::warn!("waiting for global step {}; it is {now}", self.until);
            }
            task.sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    fn nobody_trains(&self, now: i64, task: &Task) -> Error {
        let message = format!(
            "{} waits for global step {}, which has been {now} for {:?}: nobody trains, not even \
             the chief, {}",
            task.name(),
            self.until,
            task.patience().first,
            task.chief()
        );
        Error::new(Code::DeadlineExceeded, message).on(&task.chief())
    }
}

impl Hook for GlobalStepWaiter {
    fn begin(&mut self, _: &Task, graph: &Graph) -> Result<()> {
        self.step = Some(graph.global_step()?.read());
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(self.wait(context))
    }
}
