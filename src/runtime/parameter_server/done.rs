//! Work done for a training's steps, remembered so that a step that is taken again does nothing
//! twice.
//!
//! A step is taken again if its answer was lost with the way to a task: any of its operations, on
//! that task or another, may have been done by then. A task takes its steps one after the other, so
//! remembering the last step of each training is enough.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::runtime::state::{Taken, Ticket};
use crate::transport::PeerId;

/// The most trainings remembered for each task whose master orders their steps: one or two where
/// each program has its own master, and one for each program that shares a master. If more of them
/// take turns, the one that was noted longest ago is forgotten, and a step of it that is then taken
/// again is done twice.
const REMEMBERED: usize = 64;

/// The results of the last step of each training, by the task that takes its steps; the training
/// that was noted last is the last in its list. A task's later lives and trainings take the places
/// of its earlier ones.
#[derive(Debug)]
pub(super) struct Done<T>(BTreeMap<PeerId, Vec<Last<T>>>);

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
    /// A step of which nothing has been done.
    fn new(ticket: Ticket, taken: Taken) -> Self {
        let (training, step) = (taken.origin.training, taken.origin.number);
        Self { master: ticket.step.master, training, step, operations: SmallVec::new() }
    }

    fn is_of(&self, ticket: Ticket, taken: Taken) -> bool {
        (self.master, self.training) == (ticket.step.master, taken.origin.training)
    }
}

impl<T: Copy> Done<T> {
    fn last(&self, ticket: Ticket, taken: Taken) -> Option<&Last<T>> {
        self.0.get(&taken.task)?.iter().rfind(|last| last.is_of(ticket, taken))
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
        let of_task = self.0.entry(taken.task).or_default();
        match of_task.iter().rposition(|last| last.is_of(ticket, taken)) {
            Some(at) => of_task[at..].rotate_left(1),
            None => {
                if of_task.len() == REMEMBERED {
                    of_task.remove(0);
                }
                of_task.push(Last::new(ticket, taken));
            }
        }
        let last = of_task.last_mut().expect("the training was just put there");
        if last.step != taken.origin.number {
            last.step = taken.origin.number;
            last.operations.clear();
        }
        let operation = (ticket.device, ticket.node);
        last.operations.retain(|(done, _)| *done != operation);
        last.operations.push((operation, came));
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

    #[test]
    fn trainings_that_take_turns_through_one_master_are_all_remembered() {
        let (mut done, trainings) = (Done::default(), REMEMBERED as u64);
        for step in 0..3 {
            for training in 0..trainings {
                assert_eq!(done.done(ticket(7, 0), taken(training, step)), None);
                done.note(ticket(7, 0), taken(training, step), (training, step));
            }
        }
        for training in 0..trainings {
            assert_eq!(done.done(ticket(7, 0), taken(training, 2)), Some((training, 2)));
        }
    }

    #[test]
    fn the_training_that_was_noted_longest_ago_is_forgotten_first() {
        let mut done = Done::default();
        for training in 1..1000 {
            done.note(ticket(7, 0), taken(0, training), 'a');
            done.note(ticket(7, 0), taken(training, 0), 'b');
        }
        assert_eq!(done.done(ticket(7, 0), taken(0, 999)), Some('a'), "it goes on");
        assert_eq!(done.done(ticket(7, 0), taken(999, 0)), Some('b'));
        assert_eq!(done.done(ticket(7, 0), taken(1, 0)), None, "it ended long ago");
    }
}
