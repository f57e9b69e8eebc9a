//! Work done for a training's steps, remembered so that a step that is taken again does nothing
//! twice.
//!
//! A step is taken again if its answer was lost with the way to a task: any of its operations, on
//! that task or another, may have been done by then. A task takes its steps one after the other, so
//! remembering the last step of each training is enough.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::TRAININGS;
use crate::cluster::LocalDevice;
use crate::runtime::state::{Taken, Ticket};
use crate::transport::PeerId;

/// The most owners that are remembered for each task whose master orders their steps: the programs
/// that share a master, those that have gone and the task's earlier lives included. The one that
/// was noted longest ago is forgotten first. With one training each, they take some 150 KB for a
/// variable.
const OWNERS: usize = 1 << 10;

/// The results of the last step of each training, by the task that takes its steps.
#[derive(Debug)]
pub(super) struct Done<T> {
    tasks: BTreeMap<PeerId, Owners<T>>,
    /// Counts the notes.
    notes: u64,
}

/// The program that takes the steps: the master, and its client if it is one.
type Owner = (u64, Option<u64>);

/// The owners of one task's steps, in their order. Mostly there is one: a map for it would take
/// eight times the memory, and there is one of these for each variable and worker.
type Owners<T> = Vec<(Owner, LastSteps<T>)>;

/// The last steps of one owner, one for each of its trainings.
#[derive(Debug)]
struct LastSteps<T> {
    /// The number of its last note.
    noted: u64,
    /// The training that was noted last is at the end. Of more than [`TRAININGS`], a step of one
    /// that is forgotten is done twice if it is taken again.
    last: SmallVec<[Last<T>; 1]>,
}

/// The results of a training's last step.
#[derive(Debug)]
struct Last<T> {
    training: u64,
    step: u64,
    /// By operation, identified by its device and its number there.
    operations: SmallVec<[((LocalDevice, u32), T); 1]>,
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { tasks: BTreeMap::new(), notes: 0 }
    }
}

impl<T> LastSteps<T> {
    /// The last step of `training`, put at the end; one of which nothing has been done if the
    /// training is not known.
    fn latest(&mut self, training: u64) -> &mut Last<T> {
        match self.last.iter().rposition(|last| last.training == training) {
            Some(at) => self.last[at..].rotate_left(1),
            None => {
                if self.last.len() == TRAININGS {
                    self.last.remove(0);
                }
                self.last.push(Last { training, step: 0, operations: SmallVec::new() });
            }
        }
        self.last.last_mut().expect("the training was just put there")
    }
}

fn owner(ticket: Ticket, taken: Taken) -> Owner {
    (ticket.step.master, taken.origin.owner)
}

/// The place of `owner` among `owners`, or the one where it is to be.
fn place<T>(owners: &Owners<T>, owner: Owner) -> Result<usize, usize> {
    owners.binary_search_by_key(&owner, |(one, _)| *one)
}

impl<T: Copy> Done<T> {
    fn last(&self, ticket: Ticket, taken: Taken) -> Option<&Last<T>> {
        let owners = self.tasks.get(&taken.task)?;
        let at = place(owners, owner(ticket, taken)).ok()?;
        owners[at].1.last.iter().rfind(|last| last.training == taken.origin.training)
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
        self.tasks.remove(&task);
    }

    /// Notes the operation's result.
    pub(super) fn note(&mut self, ticket: Ticket, taken: Taken, came: T) {
        let last = self.of_owner(taken.task, owner(ticket, taken)).latest(taken.origin.training);
        if last.step != taken.origin.number {
            last.step = taken.origin.number;
            last.operations.clear();
        }
        let operation = (ticket.device, ticket.node);
        last.operations.retain(|(done, _)| *done != operation);
        last.operations.push((operation, came));
    }

    /// The last steps of `owner`, which are noted now.
    fn of_owner(&mut self, task: PeerId, owner: Owner) -> &mut LastSteps<T> {
        self.notes += 1;
        let owners = self.tasks.entry(task).or_insert_with(|| Vec::with_capacity(1));
        if owners.len() == OWNERS && place(owners, owner).is_err() {
            let all = owners.iter().enumerate();
            let oldest = all.min_by_key(|(_, (_, steps))| steps.noted);
            owners.remove(oldest.expect("there are owners").0);
        }
        let at = place(owners, owner).unwrap_or_else(|at| {
            owners.insert(at, (owner, LastSteps { noted: 0, last: SmallVec::new() }));
            at
        });
        let own = &mut owners[at].1;
        own.noted = self.notes;
        own
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
        of_owner(None, training, number)
    }

    fn of_owner(owner: Option<u64>, training: u64, number: u64) -> Taken {
        Taken { task: PeerId(1), origin: Origin { owner, training, number, is_again: false } }
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
    fn lives_clients_and_trainings_of_a_task_take_the_places_of_earlier_ones() {
        let mut done = Done::default();
        for life in 0..2 * OWNERS as u64 {
            done.note(ticket(life, 0), taken(0, 0), ());
            done.note(ticket(7, 0), of_owner(Some(life), 0, 0), ());
            done.note(ticket(7, 0), taken(life, 0), ());
        }
        let owners = &done.tasks[&PeerId(1)];
        assert_eq!((done.tasks.len(), owners.len()), (1, OWNERS));
        let own = place(owners, (7, None)).unwrap();
        assert_eq!(owners[own].1.last.len(), TRAININGS);
    }

    #[test]
    fn programs_that_take_turns_through_one_master_are_all_remembered() {
        let (mut done, programs) = (Done::default(), 4 * TRAININGS as u64);
        for step in 0..3 {
            for client in 0..programs {
                let taken = of_owner(Some(client), 5, step);
                assert_eq!(done.done(ticket(7, 0), taken), None);
                done.note(ticket(7, 0), taken, (client, step));
            }
        }
        for client in 0..programs {
            let taken = of_owner(Some(client), 5, 2);
            assert_eq!(done.done(ticket(7, 0), taken), Some((client, 2)));
        }
    }

    #[test]
    fn a_program_that_begins_many_trainings_pushes_out_none_of_another() {
        let mut done = Done::default();
        done.note(ticket(7, 0), of_owner(Some(1), 5, 9), 'a');
        (0..1000).for_each(|training| done.note(ticket(7, 0), taken(training, 0), 'b'));
        assert_eq!(done.done(ticket(7, 0), of_owner(Some(1), 5, 9)), Some('a'));
    }

    #[test]
    fn trainings_that_take_turns_through_one_master_are_all_remembered() {
        let (mut done, trainings) = (Done::default(), TRAININGS as u64);
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
