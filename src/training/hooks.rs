//! Hooks: what happens around the steps of a monitored session.

use super::record::StepStats;

/// What a hook wants after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop after this step.
    Stop,
}

/// Extends a monitored session (TensorFlow: `SessionRunHook`).
pub trait Hook {
    /// The session is open; the global step is this.
    fn after_create_session(&mut self, global_step: u64);

    /// A training step has been taken.
    fn after_run(&mut self, stats: &StepStats) -> Flow;
}

/// Stops a session at a global step (TensorFlow: `StopAtStepHook`).
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

    /// Stops `steps` global steps after the session was opened.
    pub fn num_steps(steps: u64) -> Self {
        Self { end: End::After(steps) }
    }
}

impl Hook for StopAtStep {
    fn after_create_session(&mut self, global_step: u64) {
        if let End::After(steps) = self.end {
            self.end = End::Last(global_step + steps);
        }
    }

    fn after_run(&mut self, stats: &StepStats) -> Flow {
        match self.end {
            End::Last(step) if stats.global_step >= step => Flow::Stop,
            _ => Flow::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;
    use crate::units::VirtualTime;

    fn after(hook: &mut StopAtStep, global_step: u64) -> Flow {
        hook.after_run(&StepStats {
            worker: TaskName::new("worker", 0),
            local_step: 1,
            global_step,
            started: VirtualTime::ZERO,
            ended: VirtualTime::ZERO,
            computed: None,
            loss: None,
            staleness: 0,
            applied: true,
        })
    }

    /// TensorFlow's basic_session_run_hooks_test: last 10: at 9 no, 10 yes.
    #[test]
    fn stop_at_step_stops_at_its_last_step_and_not_before() {
        let mut hook = StopAtStep::last_step(10);
        hook.after_create_session(3);
        assert_eq!(after(&mut hook, 9), Flow::Continue);
        assert_eq!(after(&mut hook, 10), Flow::Stop);
        assert_eq!(after(&mut hook, 11), Flow::Stop);
    }

    #[test]
    fn a_number_of_steps_counts_from_the_global_step_at_which_the_session_was_opened() {
        let mut hook = StopAtStep::num_steps(3);
        hook.after_create_session(7);
        assert_eq!(after(&mut hook, 9), Flow::Continue);
        assert_eq!(after(&mut hook, 10), Flow::Stop);
    }
}
