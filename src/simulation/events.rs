//! The event queue of a simulation, ordered by time and then by when an event was scheduled.
//!
//! The network keeps its own events (`network`); this queue keeps all others.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use crate::runtime::PeerMessage;
use crate::transport::Messages;
use crate::units::{Bytes, Time};

use super::connections::Stamp;
use super::critical_path::CauseId;
use super::fault_injector::FaultEvent;
use super::network::Delivery;

/// Something that happens at a point in virtual time.
pub(super) enum Event {
    /// A sleep of a task ends, which `cause` began. `frozen` is how long the task had been frozen
    /// in all when the event was scheduled.
    Wake { task: usize, alarm: Rc<Alarm>, frozen: Duration, cause: CauseId },
    /// A fault begins, ends or is noticed.
    Fault(FaultEvent),
    /// A peer has been silent for too long, by a timer of `observer`: as that of a sleep, it stands
    /// still while the task is frozen.
    Silence { observer: usize, frozen: Duration, event: FaultEvent },
    /// An envelope arrives late, over a slow link.
    SlowArrival(Box<Delivery<Envelope>>),
    /// The first bytes of an envelope reach their receiver, whose message thread decodes them. It
    /// has arrived when the last ones have.
    FirstBytes { from: usize, to: usize, size: Bytes, cause: CauseId },
}

/// An event that came up while its task was frozen, and its time.
pub(super) type Missed = (Time, Event);

/// Messages under way, with the connection that they travel on.
pub(super) struct Envelope {
    pub(super) stamp: Stamp,
    /// The cause of its sending, and later the cause of its arrival where it is.
    pub(super) cause: CauseId,
    pub(super) messages: Messages<PeerMessage>,
}

/// The state of a sleep, shared by its future and its event.
#[derive(Default)]
pub(super) struct Alarm {
    pub(super) waker: Cell<Option<Waker>>,
    pub(super) has_rung: Cell<bool>,
    /// Whether the future was dropped: the event must not move the clock then.
    pub(super) is_cancelled: Cell<bool>,
}

struct Scheduled {
    time: Time,
    seq: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.seq).cmp(&(other.time, other.seq))
    }
}

/// The events to come.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Scheduled>>,
    next_seq: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse(Scheduled { time, seq: self.next_seq, event }));
        self.next_seq += 1;
    }

    /// The time of the next event. Drops cancelled sleeps on the way.
    pub(super) fn next_time(&mut self) -> Option<Time> {
        while let Some(Reverse(next)) = self.heap.peek() {
            match &next.event {
                Event::Wake { alarm, .. } if alarm.is_cancelled.get() => drop(self.heap.pop()),
                _ => return Some(next.time),
            }
        }
        None
    }

    /// The bytes of the envelopes that arrive late.
    pub(super) fn late_bytes(&self) -> u64 {
        let late = self.heap.iter().map(|Reverse(scheduled)| match &scheduled.event {
            Event::SlowArrival(delivery) => delivery.size.0,
            _ => 0,
        });
        late.sum()
    }

    /// Takes out the next event, with its number in the order of scheduling.
    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        self.next_time()?;
        self.heap.pop().map(|Reverse(next)| (next.seq, next.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(alarm: &Rc<Alarm>) -> Event {
        Event::Wake { task: 0, alarm: Rc::clone(alarm), frozen: Duration::ZERO, cause: 0 }
    }

    /// The time and the number of the next event.
    fn pop(queue: &mut EventQueue) -> Option<(Time, u64)> {
        let time = queue.next_time()?;
        queue.pop().map(|(seq, _)| (time, seq))
    }

    #[test]
    fn events_happen_in_the_order_of_time_and_at_one_instant_in_that_of_scheduling() {
        let mut queue = EventQueue::default();
        for time in [5, 3, 5, 3, 4] {
            queue.push(Time(time), wake(&Rc::default()));
        }
        let order: Vec<(u64, u64)> =
            std::iter::from_fn(|| pop(&mut queue)).map(|(time, seq)| (time.0, seq)).collect();
        assert_eq!(order, [(3, 1), (3, 3), (4, 4), (5, 0), (5, 2)]);
    }

    #[test]
    fn a_sleep_that_was_dropped_is_no_event_and_does_not_move_the_clock() {
        let mut queue = EventQueue::default();
        let alarm = Rc::new(Alarm::default());
        queue.push(Time(1), wake(&alarm));
        queue.push(Time(2), wake(&Rc::default()));
        alarm.is_cancelled.set(true);
        assert_eq!(pop(&mut queue), Some((Time(2), 1)));
        assert_eq!(queue.next_time(), None);
    }
}
