//! `StepCounter`: logs how many steps a second the training takes.

use std::future::ready;

use crate::graph::Graph;
use crate::runtime::Result;
use crate::units::Time;

use super::super::summary::SummaryWriter;
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunValues, SecondOrStepTimer};

/// The greatest number of warnings that the global step does not grow.
const MOST_WARNINGS: u32 = 5;

/// Logs how many global steps a second all workers take together (TensorFlow: `StepCounterHook`).
/// With a writer, TensorBoard gets it as `global_step/sec`.
pub struct StepCounter {
    timer: SecondOrStepTimer,
    writer: Option<SummaryWriter>,
    tag: String,
    growth: Growth,
}

shown!(StepCounter, timer, tag);

/// Tracks whether the global step grows between runs that take no training step.
#[derive(Default)]
struct Growth {
    last: Option<u64>,
    warnings: u32,
}

impl StepCounter {
    /// Logs the rate as often as `timer` says; every 100 steps are usual.
    pub fn new(timer: SecondOrStepTimer) -> Self {
        Self { timer, writer: None, tag: String::new(), growth: Growth::default() }
    }

    /// Writes the rate to `writer` as well.
    #[must_use]
    pub fn writer(mut self, writer: &SummaryWriter) -> Self {
        self.writer = Some(writer.clone());
        self
    }

    /// The steps a second since the last time, if it is time to log them.
    fn rate(&mut self, global_step: u64, now: Time) -> Option<f64> {
        if !self.timer.should_trigger(global_step, now) {
            return None;
        }
        let (steps, time) = self.timer.triggered(global_step, now)?;
        (!time.is_zero()).then(|| steps as f64 / time.as_secs_f64())
    }
}

impl Growth {
    /// Whether to warn that the global step is still at `global_step` after a run. A training step
    /// need not raise it: it can be on the worker's own copy, or one of several for an update.
    fn has_to_warn(&mut self, global_step: u64, is_training_step: bool) -> bool {
        if is_training_step {
            return false;
        }
        let has_grown = self.last.replace(global_step) != Some(global_step);
        let has_to = !has_grown && self.warnings < MOST_WARNINGS;
        self.warnings += u32::from(has_to);
        has_to
    }
}

impl Default for StepCounter {
    fn default() -> Self {
        Self::new(SecondOrStepTimer::every_steps(100))
    }
}

impl Hook for StepCounter {
    fn begin(&mut self, _: &Task, graph: &Graph) -> Result<()> {
        self.tag = format!("{}/sec", graph.global_step()?.name());
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        if context.restored.is_some() {
            self.timer.reset();
        }
        Box::pin(ready(Ok(())))
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        let step = context.global_step;
        if self.growth.has_to_warn(step, run.step.is_some()) {
            tracing::warn!(
                "the global step has stayed at {step} over a run; is the run given a train op, \
                 made by `Optimizer::minimize` with the global step?"
            );
        }
        let Some(rate) = self.rate(step, context.now()) else { return Box::pin(ready(Ok(()))) };
        tracing::info!(global_step = step, "{}: {rate}", self.tag);
        let writer = self.writer.as_ref();
        Box::pin(ready(writer.map_or(Ok(()), |writer| writer.scalar(&self.tag, rate as f32, step))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO.after(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_global_step_that_does_not_grow_is_told_five_times_and_no_more() {
        let mut growth = Growth::default();
        assert!((1..=3).all(|step| !growth.has_to_warn(step, false)), "it grows");
        assert_eq!((0..9).filter(|_| growth.has_to_warn(3, false)).count(), 5);
    }

    #[test]
    fn a_training_step_need_not_grow_the_global_step() {
        let mut growth = Growth::default();
        assert!((0..9).all(|_| !growth.has_to_warn(3, true)));
        assert!(!growth.has_to_warn(3, false), "a look between two training steps");
        assert!(growth.has_to_warn(3, false), "a second run that does not train");
    }

    #[test]
    fn a_rate_is_of_the_steps_of_all_workers_and_needs_time_to_have_passed() {
        let mut counter = StepCounter::new(SecondOrStepTimer::every_steps(10));
        let asked = [(1, at(0)), (10, at(900)), (15, at(1000)), (25, at(1000)), (45, at(1500))];
        let rates = asked.map(|(step, now)| counter.rate(step, now));
        assert_eq!(rates, [None, None, Some(14.0), None, Some(40.0)]);
    }
}
