//! The ends of flows: each link's queue of those that it holds back, by the time each ends.

use std::cmp::{Ordering, Reverse};

use super::super::connections::ConnectionId;
use super::super::route::LinkId;
use super::{FlowId, Flows, LAST, NEVER};
use crate::units::Time;

/// The end of a flow at its bottleneck; the first to end is the least.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ending {
    pub(super) finish: f64,
    pub(super) number: u64,
    pub(super) flow: FlowId,
}

impl Eq for Ending {}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> Ordering {
        self.finish.total_cmp(&other.finish).then(self.number.cmp(&other.number))
    }
}

impl Flows {
    /// Appends the connections whose flows `link` holds back and that end at `now`, the link's next
    /// end, to `ended`, in the order in which they end. Each flow then leaves, or is given more to
    /// send.
    pub(in super::super) fn end(&mut self, now: Time, link: LinkId, ended: &mut Vec<ConnectionId>) {
        let state = &mut self.links[link as usize];
        assert_eq!(state.next_end, now, "flows end when their link has its next end");
        state.next_end = NEVER;
        state.serve(now);
        let (level, served) = (state.level, state.served);
        let before = ended.len();
        while let Some(next) = self.next_ending(link) {
            let is_through = span(next.finish - served, level) == 0;
            // The first ends by the choice of `now`, whatever the rounding says.
            if !is_through && ended.len() > before {
                break;
            }
            self.links[link as usize].queue.pop();
            self.end_stretch(now, next.flow, 0.0);
            // The queue may have it twice.
            let flow = &mut self.flows[next.flow as usize];
            flow.finish = f64::INFINITY;
            ended.push(flow.connection);
        }
    }

    /// Finds the next end of the flows that `link` holds back. Returns whether there is one and it
    /// has changed.
    pub(super) fn reschedule(&mut self, link: LinkId) -> bool {
        let next = self.next_ending(link);
        let state = &mut self.links[link as usize];
        let Some(next) = next else {
            (state.served, state.level, state.next_end) = (0.0, 0.0, NEVER);
            return false;
        };
        let left = span(next.finish - state.served, state.level);
        // However slow, it ends: else a run that has no other event would be taken for a stall.
        let at = Time(state.served_at.0.saturating_add(left)).min(LAST);
        std::mem::replace(&mut state.next_end, at) != at
    }

    /// The first of the flows that `link` holds back to end.
    fn next_ending(&mut self, link: LinkId) -> Option<Ending> {
        let (state, flows) = (&mut self.links[link as usize], &self.flows);
        let bottlenecks = &self.bottlenecks;
        let is_held = |ending: &Ending| {
            let flow = &flows[ending.flow as usize];
            bottlenecks[ending.flow as usize] == link
                && flow.number == ending.number
                && flow.finish == ending.finish
        };
        if state.queue.len() > 2 * self.held[link as usize] as usize + 64 {
            state.queue.retain(|Reverse(ending)| is_held(ending));
        }
        while let Some(Reverse(ending)) = state.queue.peek() {
            if is_held(ending) {
                return Some(*ending);
            }
            state.queue.pop();
        }
        None
    }
}

/// The time that `bytes` take at `rate` \[bytes/ns\], to the nearest nanosecond.
fn span(bytes: f64, rate: f64) -> u64 {
    (bytes.max(0.0) / rate).round() as u64
}
