//! The room that masters have at a worker: how much each may have registered here at a time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::{Array, SmallVec};

use crate::partition::Partition;
use crate::runtime::error::{Code, Error, Result};

/// The most operations, values and edges that a master may have registered here at a time: some
/// 1.5 GB of tables.
const MAX_REGISTERED: usize = 1 << 24;
/// What a partition counts for besides what is in it: its tables take some 2 kB if they are empty,
/// and 128 leaves a master 131,072 partitions.
const PER_PARTITION: usize = 128;
/// As much of names as counts for one operation \[bytes\].
const NAME: usize = 64;

/// By master: what it has registered here.
#[derive(Default)]
pub(super) struct Rooms {
    taken: BTreeMap<u64, Rc<Cell<usize>>>,
}

/// What a partition takes of its master's room, until this is dropped.
pub(super) struct Room {
    weight: usize,
    taken: Rc<Cell<usize>>,
}

impl Rooms {
    /// Takes room of `master` for `partition`.
    ///
    /// # Errors
    /// If it has too little left.
    pub(super) fn take(&mut self, master: u64, partition: &Partition) -> Result<Room> {
        if !self.taken.contains_key(&master) {
            self.taken.retain(|_, taken| taken.get() > 0);
        }
        let taken = Rc::clone(self.taken.entry(master).or_default());
        let (weight, registered) = (weight(partition), taken.get());
        if registered.saturating_add(weight) > MAX_REGISTERED {
            let message = format!(
                "the sessions of the master have {registered} operations and values here, of \
                 which at most {MAX_REGISTERED} are taken, and a partition counts for \
                 {PER_PARTITION}; close those that are not needed"
            );
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        taken.set(registered + weight);
        Ok(Room { weight, taken })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.set(self.taken.get() - self.weight);
    }
}

/// What `partition` counts for: one for each thing in it that is kept.
fn weight(partition: &Partition) -> usize {
    let Partition { nodes, slots, variables, feeds, fetches, sends, receives, .. } = partition;
    let nodes = nodes.iter().map(|node| {
        let lists = more(&node.inputs) + more(&node.after) + more(&node.variables);
        1 + lists + node.name.len() / NAME
    });
    let sends = sends.iter().map(|send| 1 + more(&send.devices) + send.name.len() / NAME);
    let receives = receives.iter().map(|one| 1 + more(&one.before) + one.name.len() / NAME);
    let variables = variables
        .iter()
        .map(|variable| 1 + (variable.shared_name.len() + variable.container.len()) / NAME);
    let edges = *slots as usize + feeds.len() + fetches.len();
    let things = nodes.chain(sends).chain(receives).chain(variables);
    PER_PARTITION + edges + things.sum::<usize>()
}

/// What a list takes besides the thing that has it: nothing while it is short.
fn more<A: Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::cluster::{LocalDevice, TaskName};
    use crate::partition::{CrossingId, Send, Sent};

    fn empty() -> Partition {
        Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0))
    }

    /// A partition that sends to others, so often, that its first operation has run.
    fn sends(count: u32) -> Partition {
        let send = |crossing| Send {
            crossing: CrossingId(crossing),
            what: Sent::Done(0),
            to: TaskName::new("ps", 1),
            devices: smallvec![LocalDevice::cpu(0)],
            name: "^update".into(),
        };
        Partition { sends: (0..count).map(send).collect(), ..empty() }
    }

    #[test]
    fn a_master_has_room_for_so_many_empty_partitions_and_no_more() {
        let mut rooms = Rooms::default();
        let taken: Vec<Room> = std::iter::from_fn(|| rooms.take(7, &empty()).ok()).collect();
        assert_eq!(taken.len(), MAX_REGISTERED / PER_PARTITION);
        assert!(rooms.take(8, &empty()).is_ok(), "another master has room of its own");
    }

    #[test]
    fn what_a_partition_sends_takes_room_until_the_partition_is_gone() {
        let mut rooms = Rooms::default();
        let much = sends(MAX_REGISTERED as u32 / 200);
        let mut taken: Vec<Room> = std::iter::from_fn(|| rooms.take(7, &much).ok()).collect();
        assert!((100..200).contains(&taken.len()), "{}", taken.len());
        taken.pop();
        assert!(rooms.take(7, &much).is_ok());
    }

    #[test]
    fn masters_without_partitions_are_forgotten() {
        let mut rooms = Rooms::default();
        for master in 0..1000 {
            drop(rooms.take(master, &empty()).unwrap());
        }
        assert!(rooms.taken.len() < 3);
    }

    #[test]
    fn long_lists_and_names_count() {
        let mut long = sends(1);
        long.sends[0].devices = (0..100).map(LocalDevice::cpu).collect();
        long.sends[0].name = "n".repeat(100 * NAME).into();
        assert_eq!(weight(&long), weight(&sends(1)) + 200);
    }
}
