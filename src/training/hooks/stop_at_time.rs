//! `StopAtTime`: ends a training when its time is up.

use std::future::ready;
use std::time::Duration;

use crate::units::Time;

use super::{Hook, HookContext, HookFuture, RunValues};

/// Ends the training of all workers once the chief has seen `limit` go by: virtual time in a
/// simulation, the time since the task began when deployed.
#[derive(Clone, Copy, Debug)]
pub struct StopAtTime {
    limit: Duration,
}

impl StopAtTime {
    /// Ends the training after `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl Hook for StopAtTime {
    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        _: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if context.task.is_chief() && context.now().since(Time::ZERO) >= self.limit {
            context.task.finish_training();
            context.request_stop();
        }
        Box::pin(ready(Ok(())))
    }
}
