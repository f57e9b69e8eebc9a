//! `SecondOrStepTimer`: decides when to act, every so many steps or every so often.

use std::time::Duration;

use crate::units::Time;

/// Says when to act: every so many steps, or every so many seconds (TensorFlow:
/// `SecondOrStepTimer`).
///
/// It says yes the first time that it is asked, and at most once for each step. It has no clock:
/// the caller passes the time.
#[derive(Clone, Copy, Debug)]
pub struct SecondOrStepTimer {
    every: Every,
    last: Option<(u64, Time)>,
}

#[derive(Clone, Copy, Debug)]
enum Every {
    Steps(u64),
    Time(Duration),
    Never,
}

impl SecondOrStepTimer {
    /// Acts every `steps` steps; 0 counts as 1, as in TensorFlow.
    pub fn every_steps(steps: u64) -> Self {
        Self { every: Every::Steps(steps), last: None }
    }

    /// Acts after every `time`.
    pub fn every_time(time: Duration) -> Self {
        Self { every: Every::Time(time), last: None }
    }

    /// Never acts.
    pub fn never() -> Self {
        Self { every: Every::Never, last: None }
    }

    /// Acts every `steps` steps; never if that is 0, which turns off what a session does by itself.
    pub(in crate::training) fn every_steps_but_0(steps: u64) -> Self {
        if steps == 0 { Self::never() } else { Self::every_steps(steps) }
    }

    /// Acts after every `seconds`; never if that is 0.
    pub(in crate::training) fn every_seconds_but_0(seconds: u64) -> Self {
        match seconds {
            0 => Self::never(),
            _ => Self::every_time(Duration::from_secs(seconds)),
        }
    }

    /// Whether it ever acts.
    pub(in crate::training) fn acts(&self) -> bool {
        !matches!(self.every, Every::Never)
    }

    /// Forgets when it acted last: the next question counts as the first.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Whether to act at `step` and `now`.
    pub fn should_trigger(&self, step: u64, now: Time) -> bool {
        match (self.last, self.every) {
            (_, Every::Never) => false,
            (None, _) => true,
            (Some((last, _)), _) if last == step => false,
            (Some((last, _)), Every::Steps(steps)) => step >= last.saturating_add(steps),
            (Some((_, at)), Every::Time(time)) => now >= at.after(time),
        }
    }

    /// Notes that the caller has acted. Returns the steps and the time since it acted before, if it
    /// did.
    pub fn triggered(&mut self, step: u64, now: Time) -> Option<(u64, Duration)> {
        let before = self.last.replace((step, now));
        before.map(|(last, at)| (step.saturating_sub(last), now.since(at)))
    }

    /// The step at which it acted last, if it has.
    pub fn last_step(&self) -> Option<u64> {
        self.last.map(|(step, _)| step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO.after(Duration::from_secs_f64(seconds))
    }

    /// The steps of those `questions` (a step and a time \[s\] each) that are answered with yes,
    /// acting upon each.
    fn triggers(mut timer: SecondOrStepTimer, questions: &[(u64, f64)]) -> Vec<u64> {
        let mut acted = Vec::new();
        for (step, time) in questions {
            if timer.should_trigger(*step, at(*time)) {
                timer.triggered(*step, at(*time));
                acted.push(*step);
            }
        }
        acted
    }

    /// From TensorFlow's `basic_session_run_hooks_test`: every 3 steps acts at 1, not at 2 or 3,
    /// again at 4.
    #[test]
    fn a_timer_of_steps_acts_at_first_and_then_every_so_many() {
        let steps: Vec<(u64, f64)> = (1..=8).map(|step| (step, 0.0)).collect();
        assert_eq!(triggers(SecondOrStepTimer::every_steps(3), &steps), [1, 4, 7]);
        assert_eq!(
            triggers(
                SecondOrStepTimer::every_steps(3),
                &[(1, 0.0), (9, 0.0), (10, 0.0), (12, 0.0)]
            ),
            [1, 9, 12]
        );
    }

    /// From TensorFlow's `basic_session_run_hooks_test`: a timer of seconds never acts twice at one
    /// step.
    #[test]
    fn a_timer_of_seconds_acts_at_a_step_once_however_late_it_is() {
        let asked = [(1, 0.0), (1, 1.5), (2, 0.9), (3, 1.0), (4, 1.5), (5, 2.1)];
        let mut timer = SecondOrStepTimer::every_time(Duration::from_secs(1));
        assert_eq!(triggers(timer, &asked), [1, 3, 5]);
        timer.triggered(1, at(0.0));
        timer.reset();
        assert!(timer.should_trigger(1, at(0.0)), "the next question is the first");
    }

    /// TensorFlow's timer of 0 steps acts at every one.
    #[test]
    fn a_timer_of_0_steps_acts_at_every_step_and_one_that_never_acts_not_even_at_first() {
        let steps = [(1, 0.0), (1, 0.5), (2, 1.0), (3, 1.0)];
        assert_eq!(triggers(SecondOrStepTimer::every_steps(0), &steps), [1, 2, 3]);
        assert!(triggers(SecondOrStepTimer::never(), &steps).is_empty());
    }

    #[test]
    fn what_has_passed_since_the_last_time_is_told() {
        let mut timer = SecondOrStepTimer::every_steps(10);
        assert_eq!(timer.triggered(3, at(1.0)), None);
        assert_eq!(timer.triggered(15, at(1.5)), Some((12, Duration::from_millis(500))));
        assert_eq!(timer.last_step(), Some(15));
    }
}
