//! Stretches: how long which kind of link holds a flow back. A stretch ends with the flow's
//! bottleneck or its turn; while neither changes, nothing is done for the flow.
//!
//! What the other links of the route would have allowed meanwhile is known from the links alone.
//! Each keeps the integral over time of its *crowding*, the inverse of an equal share of it.

use super::super::connections::ConnectionId;
use super::super::held_back::{HeldBack, NextLink};
use super::super::route::{MAX_LINKS, Route};
use super::{FlowId, Flows, Link, NOWHERE};
use crate::units::Time;

/// What held a flow back, up to a stretch that is under way.
#[derive(Clone, Copy, Default)]
pub(super) struct Stretch {
    held: HeldBack,
    since: Time,
    /// What the flow had left to send then \[bytes\].
    left: f64,
    /// By link of its route: the crowding until then.
    crowding: [f64; MAX_LINKS],
}

impl Flows {
    /// What has held the flow of `connection` back until `now`.
    pub(in super::super) fn held_back(&mut self, now: Time, connection: ConnectionId) -> HeldBack {
        let id = self.of(connection);
        let left = self.left_unserved(now, id);
        self.end_stretch(now, id, left);
        self.begin_stretch(now, id, left);
        self.stretches[id as usize].held
    }

    /// The bytes that flow `id` has not sent. Its bottleneck is left as it is: to serve in more
    /// parts would round otherwise, and end flows a nanosecond earlier or later.
    fn left_unserved(&self, now: Time, id: FlowId) -> f64 {
        let finish = self.flows[id as usize].finish;
        match self.bottlenecks[id as usize] {
            NOWHERE => finish,
            bottleneck => (finish - self.links[bottleneck as usize].served_by(now)).max(0.0),
        }
    }

    /// What has held the flow of `connection` back until its turn ended.
    pub(in super::super) fn held_back_by_turn(&self, connection: ConnectionId) -> HeldBack {
        self.stretches[self.of(connection) as usize].held
    }

    /// What holds a message back for `span` \[ns\] that has all links of `route` for itself.
    pub(in super::super) fn held_back_alone(&self, route: &Route, span: u64) -> HeldBack {
        let narrowest = &self.links[self.narrowest(route) as usize];
        let rate = narrowest.capacity();
        let others = route.iter().map(|link| &self.links[*link as usize]);
        let others = others.filter(|link| link.kind != narrowest.kind);
        let next =
            others.map(|link| NextLink { kind: link.kind, fullness: rate / link.capacity() });
        let mut held = HeldBack::default();
        held.add(narrowest.kind, fullest(next), span);
        held
    }

    /// A stretch of flow `id` begins, which has `left` bytes to send.
    pub(super) fn begin_stretch(&mut self, now: Time, id: FlowId, left: f64) {
        let stretch = &mut self.stretches[id as usize];
        (stretch.since, stretch.left) = (now, left);
        for (link, crowding) in self.flows[id as usize].route.iter().zip(&mut stretch.crowding) {
            *crowding = self.links[*link as usize].crowding(now);
        }
    }

    /// The stretch of flow `id` ends, which has `left` bytes to send.
    pub(super) fn end_stretch(&mut self, now: Time, id: FlowId, left: f64) {
        let stretch = self.stretches[id as usize];
        let (bottleneck, span) = (self.bottlenecks[id as usize], now.since(stretch.since));
        if bottleneck == NOWHERE || span.is_zero() {
            return;
        }
        let kind = self.links[bottleneck as usize].kind;
        let span = span.as_nanos() as f64;
        let rate = (stretch.left - left) / span;
        let crowding = self.flows[id as usize].route.iter().zip(stretch.crowding);
        let others = crowding.map(|(link, before)| (&self.links[*link as usize], before));
        let next = others.filter(|(link, _)| link.kind != kind).map(|(link, before)| {
            let fullness = rate * (link.crowding(now) - before) / span;
            NextLink { kind: link.kind, fullness }
        });
        let next = fullest(next);
        self.stretches[id as usize].held.add(kind, next, span as u64);
    }
}

/// The fullest of some links.
fn fullest(links: impl Iterator<Item = NextLink>) -> Option<NextLink> {
    links.max_by(|a, b| a.fullness.total_cmp(&b.fullness))
}

impl Link {
    /// The integral of its crowding until `now` \[ns² / byte\].
    fn crowding(&self, now: Time) -> f64 {
        let crowding = self.flows.len() as f64 / self.capacity();
        self.crowding + crowding * now.since(self.crowded_at).as_nanos() as f64
    }

    /// Its flows or its rate change after `now`.
    pub(super) fn note_crowding(&mut self, now: Time) {
        (self.crowding, self.crowded_at) = (self.crowding(now), now);
    }
}
