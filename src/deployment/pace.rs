//! How fast a training goes on: the global step of a task as it was some time ago.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::network::Network;
use crate::runtime::Server;
use crate::units::Time;

/// The interval of the looks at the global step.
const LOOK: Duration = Duration::from_secs(2);
/// The time without a look after which the task has stood still, as under SIGSTOP: the others may
/// have gone on, and the global step that it knows is an old one.
const STANDSTILL: Duration = Duration::from_secs(5);
/// The time that a pace is of, if the training has gone on for so long.
const SPAN: Duration = Duration::from_secs(30);
/// The least time that a pace is of: that of one step would say little.
const LEAST: Duration = Duration::from_millis(500);

/// The global steps of the last [`SPAN`].
#[derive(Debug, Default)]
pub(super) struct Pace(RefCell<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The global steps, each with its time, in order.
    steps: VecDeque<(Time, u64)>,
    /// When the task last looked, even if it had heard of no global step yet.
    looked: Option<Time>,
    /// After a standstill: the global step as it was, until another is seen.
    outdated: Option<u64>,
}

impl Pace {
    /// The global step is `step` at `now`, if it is known. After a return to an earlier one it
    /// counts anew. After a standstill, too, once the task has heard how far the others have come:
    /// that takes until it is connected again, and the first step that it ends may still be of
    /// before.
    fn look(&self, now: Time, step: Option<u64>) {
        let Seen { steps, looked, outdated } = &mut *self.0.borrow_mut();
        let has_stood_still = looked.replace(now).is_some_and(|at| now.since(at) > STANDSTILL);
        let Some(step) = step else { return };
        if has_stood_still {
            steps.clear();
            *outdated = Some(step);
        }
        if let Some(known) = *outdated {
            outdated.take_if(|_| known != step);
            return;
        }
        if steps.back().is_some_and(|(_, last)| *last > step) {
            steps.clear();
        }
        while steps.front().is_some_and(|(then, _)| now.since(*then) > SPAN) {
            steps.pop_front();
        }
        steps.push_back((now, step));
    }

    /// The global steps a second until `now`, at which the global step is `step`; none if that is
    /// not known yet, or the task has just stood still.
    pub(super) fn steps_per_second(&self, now: Time, step: u64) -> Option<f64> {
        let seen = self.0.borrow();
        let ((then, before), (last, _)) = (*seen.steps.front()?, *seen.steps.back()?);
        if now.since(last) > STANDSTILL {
            return None;
        }
        let (steps, span) = (step.checked_sub(before)?, now.since(then));
        (span >= LEAST).then(|| steps as f64 / span.as_secs_f64())
    }
}

/// Looks at the global step of `server` from now on, until it is gone.
pub(super) fn watch(network: &Rc<Network>, server: &Rc<Server>) {
    actix_rt::spawn(look(Rc::downgrade(network), Rc::downgrade(server)));
}

async fn look(network: Weak<Network>, server: Weak<Server>) {
    loop {
        {
            let (Some(network), Some(server)) = (network.upgrade(), server.upgrade()) else {
                return;
            };
            let step = network.progress(&server).await.global_step;
            network.pace().look(server.clock().now(), step);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn a_pace_is_of_the_last_half_minute_and_counts_anew_after_a_return() {
        let pace = Pace::default();
        assert_eq!(pace.steps_per_second(at(9), 5), None);
        for second in (0..=60).step_by(2) {
            // One step a second, and ten from the 30th on.
            let step = second + 9 * u64::saturating_sub(second, 30);
            pace.look(at(second), Some(step));
        }
        assert_eq!(pace.steps_per_second(at(60), 330), Some(10.0));
        pace.look(at(62), Some(40));
        assert_eq!(pace.steps_per_second(at(62), 40), None, "it is no time ago");
        assert_eq!(pace.steps_per_second(at(66), 48), Some(2.0));
    }

    #[test]
    fn a_pace_after_a_standstill_counts_none_of_the_steps_that_others_took_meanwhile() {
        let pace = Pace::default();
        (0..=20).step_by(2).for_each(|second| pace.look(at(second), Some(second)));
        // It stands still until the 50th second, while the others take a step a second.
        assert_eq!(pace.steps_per_second(at(50), 20), None);
        pace.look(at(50), Some(20));
        pace.look(at(52), Some(20)); // it is not connected yet
        pace.look(at(54), Some(21));
        assert_eq!(pace.steps_per_second(at(55), 55), None);
        pace.look(at(56), Some(56));
        assert_eq!(pace.steps_per_second(at(60), 60), Some(1.0));
    }

    #[test]
    fn a_standstill_before_the_task_has_heard_of_a_step_is_one_too() {
        let pace = Pace::default();
        pace.look(at(0), None);
        pace.look(at(20), Some(5)); // as it was before
        pace.look(at(22), Some(5_000));
        pace.look(at(24), Some(5_002));
        assert_eq!(pace.steps_per_second(at(26), 5_004), Some(1.0));
    }
}
