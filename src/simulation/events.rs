//! The event queue of a simulation: what happens next, in one order for ever.
//!
//! Events are keyed `(time, seq)`: of two at one instant the one that was scheduled first happens
//! first. The network keeps its own events; this queue keeps the rest, wake-ups and work that is done.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;

use crate::units::VirtualTime;

use super::pool::Job;

/// Something that happens at a point in virtual time.
pub(super) enum Happening {
    /// A sleep is over, unless it was dropped before.
    Wake(Rc<Alarm>),
    /// A device has done a piece of work: its result is waited for, then handed on.
    WorkDone {
        /// The arithmetic.
        job: Job,
        /// What is called with the result in place.
        done: Box<dyn FnOnce()>,
    },
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
    time: VirtualTime,
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
    pub(super) fn push(&mut self, time: VirtualTime, happening: Happening) {
        self.heap.push(Reverse(Event { time, seq: self.next_seq, happening }));
        self.next_seq += 1;
    }

    /// When the next event happens; sleeps that nobody waits for are none.
    pub(super) fn next_time(&mut self) -> Option<VirtualTime> {
        while let Some(Reverse(event)) = self.heap.peek() {
            match &event.happening {
                Happening::Wake(alarm) if alarm.is_cancelled.get() => drop(self.heap.pop()),
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
