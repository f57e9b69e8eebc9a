//! Work done for a training's steps, remembered so that a step that is taken again does nothing
//! twice.
//!
//! A step is taken again if its answer was lost with the way to a task: any of its operations, on
//! that task or another, may have been done by then. A task takes its steps one after the other, so
//! remembering the last step of each training is enough.

use std::collections::{BTreeMap, VecDeque};

use smallvec::{SmallVec, smallvec};

use crate::cluster::LocalDevice;
use crate::runtime::state::{Taken, Ticket};
use crate::transport::PeerId;

/// The number of trainings remembered for each task: those that go on at the same time.
const REMEMBERED: usize = 4;

/// The results of the last step of each training, by the task that takes its steps. A task's later
/// lives and trainings take the places of its earlier ones, so there are only a few for each.
#[derive(Debug)]
pub(super) struct Done<T>(BTreeMap<PeerId, VecDeque<Last<T>>>);

/// The results of a training's last step.
#[derive(Debug)]
struct Last<T> {
    master: u64,
    training: u64,
    step: u64,
    /// By operation, identified by its device and its number there.
    operations: SmallVec<[((LocalDevice, u32), T); 1]>,
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Last<T> {
    fn is_of(&self, ticket: Ticket, taken: Taken) -> bool {
        (self.master, self.training) == (ticket.step.master, taken.origin.training)
    }
}

impl<T: Copy> Done<T> {
    fn last(&self, ticket: Ticket, taken: Taken) -> Option<&Last<T>> {
        self.0.get(&taken.task)?.iter().find(|last| last.is_of(ticket, taken))
    }

    /// The result of the operation of `ticket` in the step `taken`, if it has been done.
    pub(super) fn done(&self, ticket: Ticket, taken: Taken) -> Option<T> {
        let last = self.last(ticket, taken)?;
        if last.step > taken.origin.number {
            return last.operations.first().map(|(_, came)| *came);
        }
        let is_it =
            |(operation, _): &&((LocalDevice, u32), T)| *operation == (ticket.device, ticket.node);
        let is_step = last.step == taken.origin.number;
        last.operations.iter().find(is_it).filter(|_| is_step).map(|(_, came)| *came)
    }

    /// Whether another operation has been done in the step `taken`.
    pub(super) fn has_other(&self, ticket: Ticket, taken: Taken) -> bool {
        let own = (ticket.device, ticket.node);
        let last = self.last(ticket, taken).filter(|last| last.step == taken.origin.number);
        last.is_some_and(|last| last.operations.iter().any(|(operation, _)| *operation != own))
    }

    /// Forgets what was done for `task`: a step that it takes again is another one.
    pub(super) fn forget(&mut self, task: PeerId) {
        self.0.remove(&task);
    }

    /// Notes the operation's result.
    pub(super) fn note(&mut self, ticket: Ticket, taken: Taken, came: T) {
        let (training, step) = (taken.origin.training, taken.origin.number);
        let operation = ((ticket.device, ticket.node), came);
        let of_task = self.0.entry(taken.task).or_default();
        match of_task.iter_mut().find(|last| last.is_of(ticket, taken)) {
            Some(last) if last.step == step => {
                last.operations.retain(|(done, _)| *done != operation.0);
                last.operations.push(operation);
            }
            Some(last) => {
                last.step = step;
                last.operations.clear();
                last.operations.push(operation);
            }
            None => {
                let master = ticket.step.master;
                of_task.push_back(Last {
                    master,
                    training,
                    step,
                    operations: smallvec![operation],
                });
                if of_task.len() > REMEMBERED {
                    of_task.pop_front();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::messages::{Origin, StepId};

    fn ticket(master: u64, node: u32) -> Ticket {
        Ticket {
            step: StepId { master, number: 99, trains: true },
            device: LocalDevice::cpu(0),
            node,
        }
    }

    fn taken(training: u64, number: u64) -> Taken {
        Taken { task: PeerId(1), origin: Origin { training, number, is_again: false } }
    }

    #[test]
    fn a_step_that_is_taken_again_has_been_done_and_the_next_one_has_not() {
        let mut done = Done::default();
        assert_eq!(done.done(ticket(7, 0), taken(3, 0)), None);
        done.note(ticket(7, 0), taken(3, 0), 'a');
        assert_eq!(done.done(ticket(7, 0), taken(3, 0)), Some('a'));
        assert_eq!(done.done(ticket(7, 0), taken(3, 1)), None);
        done.note(ticket(7, 0), taken(3, 1), 'b');
        assert_eq!(done.done(ticket(7, 0), taken(3, 1)), Some('b'));
        assert_eq!(done.done(ticket(8, 0), taken(3, 1)), None, "another life");
        assert_eq!(done.done(ticket(7, 0), taken(4, 0)), None, "another training");
    }

    #[test]
    fn two_operations_of_one_step_are_done_each_by_itself() {
        let mut done = Done::default();
        done.note(ticket(7, 0), taken(3, 0), ());
        assert_eq!(done.done(ticket(7, 1), taken(3, 0)), None);
        done.note(ticket(7, 1), taken(3, 0), ());
        assert_eq!(done.done(ticket(7, 0), taken(3, 0)), Some(()));
        assert!(done.has_other(ticket(7, 0), taken(3, 0)), "of the same step");
        done.note(ticket(7, 0), taken(3, 1), ());
        done.note(ticket(7, 0), taken(3, 1), ());
        assert!(!done.has_other(ticket(7, 0), taken(3, 1)), "it is taken again");
    }

    #[test]
    fn lives_and_trainings_of_a_task_take_the_places_of_earlier_ones() {
        let mut done = Done::default();
        for life in 0..1000 {
            done.note(ticket(life, 0), taken(life / 2, 0), ());
        }
        assert_eq!((done.0.len(), done.0[&PeerId(1)].len()), (1, REMEMBERED));
    }
}
