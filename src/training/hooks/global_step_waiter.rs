//! `GlobalStepWaiter`: delays a worker's start until the others have reached a global step.

use std::time::Duration;

use crate::graph::{Graph, Output};
use crate::runtime::Result;

use super::super::task::Task;
use super::{Hook, HookContext, HookFuture};

/// The time between two looks at the global step.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Waits until the training is at a global step (TensorFlow: `GlobalStepWaiterHook`): workers that
/// start one after the other disturb each other's first steps less. The usual step for worker `i`
/// is a constant times `ln(i + 1)`.
///
/// It waits once, when the session is opened. Unlike TensorFlow's, it also stops waiting when the
/// training is over.
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
        while !self.is_over && !context.should_stop() {
            let now = context.session.run().fetch(step).await?.scalar::<i64>(0)?;
            self.is_over = now >= self.until as i64;
            if !self.is_over {
                tracing::info!("waiting for global step {}; it is {now}", self.until);
                context.task.sleep(LOOK_AGAIN).await;
            }
        }
        Ok(())
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
