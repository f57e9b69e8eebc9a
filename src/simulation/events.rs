//! The event queue of a simulation: what happens next, in one order for ever.
//!
//! Events are keyed `(time, seq)`: of two at one instant the one that was scheduled first happens
//! first. The network keeps its own events; this queue keeps the rest, wake-ups and work that is
//! done.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;

use crate::runtime::Asker;
use crate::units::Time;

use super::misfortune::Consequence;
use super::pool::Job;

/// Something that happens at a point in virtual time.
pub(super) enum Happening {
    /// A sleep of a task is over, unless it was dropped before.
    Wake(usize, Rc<Alarm>),
    /// A device has done a piece of work: its result is waited for, then handed on.
    WorkDone {
        /// The arithmetic.
        job: Job,
        /// Who is told.
        asker: Asker,
        /// The task that it is of.
        task: usize,
    },
    /// Something goes wrong, or right again.
    Fault(Consequence),
}

impl Happening {
    /// The task that it happens to; none where it happens to the world.
    pub(super) fn task(&self) -> Option<usize> {
        match self {
            Self::Wake(task, _) | Self::WorkDone { task, .. } => Some(*task),
            Self::Fault(_) => None,
        }
    }
}

/// The state of a sleep that its future and its event share.
#[derive(Default)]
pub(super) struct Alarm {
    pub(super) waker: Cell<Option<Waker>>,
    pub(super) has_rung: Cell<bool>,
    /// The future was dropped: nobody waits any more, and the event must not move the clock.
    pub(super) is_cancelled: Cell<bool>,
}

struct Event {
    time: Time,
    seq: u64,
    happening: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.seq).cmp(&(other.time, other.seq))
    }
}

/// What will happen.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Event>>,
    next_seq: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Time, happening: Happening) {
        self.heap.push(Reverse(Event { time, seq: self.next_seq, happening }));
        self.next_seq += 1;
    }

    /// When the next event happens; sleeps that nobody waits for are none.
    pub(super) fn next_time(&mut self) -> Option<Time> {
        while let Some(Reverse(event)) = self.heap.peek() {
            match &event.happening {
                Happening::Wake(_, alarm) if alarm.is_cancelled.get() => drop(self.heap.pop()),
                _ => return Some(event.time),
            }
        }
        None
    }

    /// The next event, which happens now, and its number in the order of scheduling.
    pub(super) fn pop(&mut self) -> Option<(u64, Happening)> {
        self.next_time()?;
        self.heap.pop().map(|Reverse(event)| (event.seq, event.happening))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pops next, by its number.
    fn pop(queue: &mut EventQueue) -> Option<(Time, u64)> {
        let time = queue.next_time()?;
        queue.pop().map(|(seq, _)| (time, seq))
    }

    #[test]
    fn events_happen_in_the_order_of_time_and_at_one_instant_in_that_of_scheduling() {
        let mut queue = EventQueue::default();
        for time in [5, 3, 5, 3, 4] {
            queue.push(Time(time), Happening::Wake(0, Rc::default()));
        }
        let order: Vec<(u64, u64)> =
            std::iter::from_fn(|| pop(&mut queue)).map(|(time, seq)| (time.0, seq)).collect();
        assert_eq!(order, [(3, 1), (3, 3), (4, 4), (5, 0), (5, 2)]);
    }

    #[test]
    fn a_sleep_that_was_dropped_is_no_event_and_does_not_move_the_clock() {
        let mut queue = EventQueue::default();
        let alarm = Rc::new(Alarm::default());
        queue.push(Time(1), Happening::Wake(0, Rc::clone(&alarm)));
        queue.push(Time(2), Happening::Wake(0, Rc::default()));
        alarm.is_cancelled.set(true);
        assert_eq!(pop(&mut queue), Some((Time(2), 1)));
        assert_eq!(queue.next_time(), None);
    }
}
