//! Replays in the simulated world: it does what the tapes have next, and reports a departure.

use std::collections::VecDeque;

use crate::kernels::Costs;
use crate::runtime::{Error, leaves_message_thread};
use crate::simulation::audit::EventKind;
use crate::simulation::chore::{Chore, Errand, Kernels};
use crate::simulation::critical_path::SpanKind;
use crate::simulation::device::DeviceOf;
use crate::simulation::fault_injector::FaultEffect;
use crate::simulation::replay::Played;
use crate::units::Time;

use super::{Action, World};

impl World {
    /// Lets the next of what the tapes have happen.
    pub(super) fn advance_replay(&mut self, actions: &mut Vec<Action>) {
        let replay = self.replay.as_mut().expect("it has just said when");
        let Some((task, played)) = replay.advance(self.now) else { return };
        match played {
            Played::Deliver { from, messages } => {
                let route = (from as u64) << 32 | task as u64;
                self.audit.record(self.now, EventKind::Delivery, [route, messages.len() as u64]);
                self.deliveries += 1;
                actions.push(Action::Deliver { from, to: task, messages });
            }
            Played::Lose { peer, loss } => self.tell_lost(task, peer, loss, actions),
            Played::Finish { device } => {
                self.audit.record(self.now, EventKind::WorkDone, [task as u64, device as u64]);
                let on = DeviceOf { task, device };
                let oldest = self.computing.get_mut(&on).and_then(VecDeque::pop_front);
                actions.push(Action::Finish(oldest.expect("the replay has counted them")));
            }
            Played::Die { restarts } => {
                self.audit.record(self.now, EventKind::Fault, [task as u64, 0]);
                self.connections.crash(task);
                let mut undone = self.computing.split_off(&DeviceOf { task, device: 0 });
                let of_others = &mut undone.split_off(&DeviceOf { task: task + 1, device: 0 });
                self.computing.append(of_others);
                let undone: Vec<Box<Kernels>> = undone.into_values().flatten().collect();
                self.apply(FaultEffect::Kill { task, restarts }, actions);
                if let Some(Action::Kill { undone: all, .. }) = actions.last_mut() {
                    all.extend(undone.into_iter().map(|kernels| self.undone(kernels)));
                }
            }
            Played::Start => {
                self.audit.record(self.now, EventKind::Fault, [task as u64, 1]);
                self.apply(FaultEffect::Start { task }, actions);
            }
        }
    }

    /// Runs kernels at once, as a deployed task runs small ones; those that leave its message
    /// thread end when the tape has it.
    pub(super) fn compute_as_recorded(
        &mut self,
        on: DeviceOf,
        costs: &Costs,
        kernels: Box<Kernels>,
    ) -> Option<Box<Kernels>> {
        if !leaves_message_thread(costs.total()) {
            return Some(kernels);
        }
        self.computing.entry(on).or_default().push_back(kernels);
        if let Some(replay) = &mut self.replay {
            replay.compute(on);
        }
        None
    }

    pub(super) fn undone(&self, kernels: Box<Kernels>) -> Errand {
        let (cause, part) = (self.history.current(), SpanKind::Kernels);
        Errand { cause, part, chore: Chore::Finish(kernels) }
    }

    /// Whether a message of a tape does not come: the next event would happen at `next`.
    pub(super) fn has_departed(&self, next: Option<Time>) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.departure(next).is_some())
    }

    /// The error of a replay in which a message does not come that a tape has.
    pub(in crate::simulation) fn departure(&self) -> Option<Error> {
        self.replay.as_ref()?.departure(None)
    }

    /// The error of a replay whose programs have all ended, but not as on the tapes.
    pub(in crate::simulation) fn departure_at_end(&mut self) -> Option<Error> {
        self.replay.as_mut()?.departure_at_end()
    }

    /// The error of a replay in which the program of `task` failed with `error`, which is its own
    /// if the tape has that, too.
    pub(in crate::simulation) fn departure_of(&self, task: usize, error: &Error) -> Option<Error> {
        self.replay.as_ref()?.departure_of(task, error)
    }
}
