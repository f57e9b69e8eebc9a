//! `StopAtStep`: stops a session at a global step.

use std::future::ready;

use super::super::record::Fact;
use super::{Hook, HookContext, HookFuture, RunValues};

/// Stops a session at a global step (TensorFlow: `StopAtStepHook`).
///
/// If the step was reached before, no step is taken at all (TensorFlow takes one more).
///
/// Workers that train asynchronously each stop after their own step, so that the global step can
/// end as many steps higher as there are other workers.
#[derive(Clone, Copy, Debug)]
pub struct StopAtStep {
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Last(u64),
    After(u64),
}

impl StopAtStep {
    /// Stops when the global step is `step` or more.
    pub fn last_step(step: u64) -> Self {
        Self { end: End::Last(step) }
    }

    /// Stops `steps` global steps after the session was first opened.
    pub fn num_steps(steps: u64) -> Self {
        Self { end: End::After(steps) }
    }

    fn opened_at(&mut self, global_step: u64) {
        if let End::After(steps) = self.end {
            self.end = End::Last(global_step.saturating_add(steps));
        }
    }

    fn stop(context: &HookContext<'_>) {
        context.task.server().training().reach_last_step();
        context.request_stop();
    }

    fn is_reached(&self, global_step: u64) -> bool {
        matches!(self.end, End::Last(step) if global_step >= step)
    }
}

impl Hook for StopAtStep {
    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        self.opened_at(context.global_step);
        if let (End::Last(step), true) = (self.end, context.task.is_chief()) {
            context.task.record(Fact::EndsAt(step));
        }
        if self.is_reached(context.global_step) {
            Self::stop(context);
        }
        Box::pin(ready(Ok(())))
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if run.step.is_some() && self.is_reached(context.global_step) {
            Self::stop(context);
        }
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From TensorFlow's `basic_session_run_hooks_test`: with last step 10, it does not stop at 9
    /// and stops at 10.
    #[test]
    fn stop_at_step_stops_at_its_last_step_and_not_before() {
        let mut hook = StopAtStep::last_step(10);
        hook.opened_at(3);
        assert_eq!([9, 10, 11].map(|step| hook.is_reached(step)), [false, true, true]);
    }

    #[test]
    fn a_number_of_steps_counts_from_the_global_step_at_which_the_session_was_first_opened() {
        let mut hook = StopAtStep::num_steps(3);
        hook.opened_at(7);
        hook.opened_at(9);
        assert_eq!([9, 10].map(|step| hook.is_reached(step)), [false, true]);
    }
}
