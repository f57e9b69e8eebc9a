//! The flows that share links, the link that holds each of them back, and when each ends (`ends`).
//!
//! Under max-min fairness each flow has a *bottleneck*: a full link on which no other flow is
//! faster. All flows that one link holds back have the same rate, the link's *level*, so the link
//! keeps a single count of the bytes that it has *served* each of them. A flow ends when that count
//! reaches its *finish*; a new level moves no finish. [`super::fill`] finds the bottlenecks and
//! levels.

mod ends;
mod stretches;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::connections::ConnectionId;
use super::route::{LinkId, LinkKind, MAX_LINKS, Route};
use crate::units::Time;
use ends::Ending;
use stretches::Stretch;

/// A flow, by its place among those under way. Few of a large cluster's connections have one at a
/// time, so a filling, which goes through them, stays within little memory.
pub(super) type FlowId = u32;

/// Stands for the flow of a connection that shares no links.
const NO_FLOW: FlowId = FlowId::MAX;
/// The bottleneck of a flow that has none yet.
pub(super) const NOWHERE: LinkId = LinkId::MAX;
/// The next end of a link that holds back no flow.
const NEVER: Time = Time(u64::MAX);
/// The latest end of a flow.
const LAST: Time = Time(u64::MAX - 1);

/// All flows on all links.
pub(super) struct Flows {
    pub(super) links: Vec<Link>,
    /// By link: the number of flows that it holds back.
    pub(super) held: Vec<u32>,
    /// By connection: its flow; [`NO_FLOW`] while it has none.
    of_connection: Vec<FlowId>,
    pub(super) flows: Vec<Flow>,
    /// The places in `flows` that no flow has.
    vacant: Vec<FlowId>,
    /// By flow: the link that holds it back; [`NOWHERE`] before one does. Apart from the flows,
    /// because a filling looks at this of each, and at little else.
    pub(super) bottlenecks: Vec<LinkId>,
    /// By flow.
    stretches: Vec<Stretch>,
    /// The links on which flows have begun or ended since the rates were last computed.
    pub(super) unsettled: Vec<LinkId>,
    /// The flows that no link holds back yet.
    pub(super) new: Vec<FlowId>,
    /// The number of flows that have ever joined.
    joined: u64,
    pub(super) fill: super::fill::Scratch,
}

/// One direction of a NIC or of an uplink.
pub(super) struct Link {
    kind: LinkKind,
    /// The capacity for one flow [bytes/ns].
    rate: f64,
    /// The share of the rate that each further flow costs: of a receiving NIC with an incast law.
    incast: f64,
    /// All flows that cross it.
    pub(super) flows: Vec<Crossing>,
    /// The number of flows that cross it and that no link holds back yet.
    pub(super) new: u32,
    /// While its level is less than this, no link that shares flows with it is overloaded, but
    /// perhaps one of `holding`: a change of its level affects no others \[bytes/ns\].
    pub(super) free_below: f64,
    /// The links that share flows with it and hold flows back, each at least once. Some in it no
    /// longer do.
    pub(super) holding: Vec<LinkId>,
    /// The rate of each flow that it holds back [bytes/ns].
    pub(super) level: f64,
    /// The bytes that it has served each flow that it holds back, up to `served_at`.
    pub(super) served: f64,
    served_at: Time,
    /// The flows that it holds back, the next to end first, mixed with flows that it no longer
    /// holds back.
    queue: BinaryHeap<Reverse<Ending>>,
    next_end: Time,
    /// The integral over time of the number of its flows by its capacity, up to `crowded_at`.
    crowding: f64,
    crowded_at: Time,
    is_unsettled: bool,
}

/// A flow on a link that it crosses.
#[derive(Clone, Copy)]
pub(super) struct Crossing {
    pub(super) flow: FlowId,
    /// The other link of its route, if that has two.
    other: Option<LinkId>,
}

/// One flow.
#[derive(Clone)]
pub(super) struct Flow {
    connection: ConnectionId,
    pub(super) route: Route,
    /// Its positions in the lists of flows of the links of its route.
    places: [u32; MAX_LINKS],
    /// It ends when its bottleneck has served this many bytes; without a bottleneck, its size.
    finish: f64,
    /// Its number among all flows that ever joined, which breaks ties.
    number: u64,
}

impl Flows {
    /// No flows on links of the given kinds and capacities \[bytes/ns\].
    pub(super) fn new(links: impl Iterator<Item = (LinkKind, f64)>) -> Self {
        let link = |(kind, rate)| Link {
            kind,
            rate,
            incast: 0.0,
            flows: Vec::new(),
            new: 0,
            free_below: f64::INFINITY,
            holding: Vec::new(),
            level: 0.0,
            served: 0.0,
            served_at: Time::ZERO,
            queue: BinaryHeap::new(),
            next_end: NEVER,
            crowding: 0.0,
            crowded_at: Time::ZERO,
            is_unsettled: false,
        };
        let links: Vec<Link> = links.map(link).collect();
        Self {
            held: vec![0; links.len()],
            of_connection: Vec::new(),
            flows: Vec::new(),
            vacant: Vec::new(),
            bottlenecks: Vec::new(),
            stretches: Vec::new(),
            unsettled: Vec::new(),
            new: Vec::new(),
            joined: 0,
            fill: super::fill::Scratch::new(links.len()),
            links,
        }
    }

    /// Gives `link` an incast law: with `n` flows, its capacity is its rate / (1 + incast (n - 1)).
    pub(super) fn set_incast(&mut self, link: LinkId, incast: f64) {
        self.links[link as usize].incast = incast;
    }

    /// Whether no flow crosses `link`.
    pub(super) fn is_idle(&self, link: LinkId) -> bool {
        self.links[link as usize].flows.is_empty()
    }

    /// Whether flows have begun or ended since [`Flows::settle`].
    pub(super) fn are_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// The time at which the next of the flows that `link` holds back ends.
    pub(super) fn next_end(&self, link: LinkId) -> Time {
        self.links[link as usize].next_end
    }

    /// The rate of a flow that is alone on all links of `route` [bytes/ns].
    pub(super) fn capacity(&self, route: &Route) -> f64 {
        route.iter().map(|link| self.links[*link as usize].capacity()).fold(f64::INFINITY, f64::min)
    }

    /// The link of `route` with the least capacity, the first of several. The route is not empty.
    pub(super) fn narrowest(&self, route: &Route) -> LinkId {
        let capacity = |link: &LinkId| self.links[*link as usize].capacity();
        let by_capacity = |a: &&LinkId, b: &&LinkId| capacity(a).total_cmp(&capacity(b));
        *route.iter().min_by(by_capacity).expect("a route with links")
    }

    /// The rate of a flow [bytes/ns]; zero before it is first settled.
    pub(super) fn rate(&self, flow: FlowId) -> f64 {
        match self.bottlenecks[flow as usize] {
            NOWHERE => 0.0,
            bottleneck => self.links[bottleneck as usize].level,
        }
    }

    /// Adds the flow of `connection`, of `size` bytes. It has no rate until [`Flows::settle`].
    pub(super) fn join(&mut self, now: Time, connection: ConnectionId, route: Route, size: f64) {
        let id = self.vacant.pop().unwrap_or(self.flows.len() as FlowId);
        let places = [0; MAX_LINKS];
        let mut flow = Flow { connection, route, places, finish: size, number: self.joined };
        self.joined += 1;
        for (link, place) in route.iter().zip(&mut flow.places) {
            let state = &mut self.links[*link as usize];
            state.note_crowding(now);
            *place = state.flows.len() as u32;
            let other = match *route {
                [first, second] => Some(if first == *link { second } else { first }),
                _ => None,
            };
            state.flows.push(Crossing { flow: id, other });
            state.new += 1;
            self.unsettle(*link);
        }
        self.new.push(id);
        match self.flows.get_mut(id as usize) {
            Some(vacant) => *vacant = flow,
            None => {
                self.flows.push(flow);
                self.bottlenecks.push(NOWHERE);
                self.stretches.push(Stretch::default());
            }
        }
        self.stretches[id as usize] = Stretch::default();
        self.note_holding(&route);
        let known = self.of_connection.len().max(connection as usize + 1);
        self.of_connection.resize(known, NO_FLOW);
        self.of_connection[connection as usize] = id;
    }

    /// The flow of `connection`, which shares links.
    pub(super) fn of(&self, connection: ConnectionId) -> FlowId {
        self.of_connection[connection as usize]
    }

    /// The bytes that a flow has not sent.
    pub(super) fn left(&mut self, now: Time, connection: ConnectionId) -> f64 {
        let id = self.of(connection);
        let (finish, bottleneck) = (self.flows[id as usize].finish, self.bottlenecks[id as usize]);
        if bottleneck == NOWHERE {
            return finish;
        }
        let link = &mut self.links[bottleneck as usize];
        link.serve(now);
        (finish - link.served).max(0.0)
    }

    /// Changes the bytes that a flow has not sent; its rate stays. Returns the link whose next end
    /// has changed with it.
    pub(super) fn set_left(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bytes: f64,
    ) -> Option<LinkId> {
        let id = self.of(connection);
        let flow = &mut self.flows[id as usize];
        let (number, bottleneck) = (flow.number, self.bottlenecks[id as usize]);
        if bottleneck == NOWHERE {
            flow.finish = bytes;
            return None;
        }
        let link = &mut self.links[bottleneck as usize];
        link.serve(now);
        flow.finish = link.served + bytes;
        link.queue.push(Reverse(Ending { finish: flow.finish, number, flow: id }));
        self.begin_stretch(now, id, bytes);
        self.reschedule(bottleneck).then_some(bottleneck)
    }

    /// Sets the capacity of a link for one flow \[bytes/ns\].
    pub(super) fn set_rate(&mut self, now: Time, link: LinkId, rate: f64) {
        self.links[link as usize].note_crowding(now);
        self.links[link as usize].rate = rate;
        self.unsettle(link);
        // Flows that others held back may now be too fast for this link.
        for place in 0..self.links[link as usize].flows.len() {
            let Crossing { flow, .. } = self.links[link as usize].flows[place];
            let bottleneck = self.bottlenecks[flow as usize];
            if bottleneck != NOWHERE {
                self.unsettle(bottleneck);
            }
        }
    }

    /// Removes a flow.
    pub(super) fn leave(&mut self, now: Time, connection: ConnectionId) {
        let id = std::mem::replace(&mut self.of_connection[connection as usize], NO_FLOW);
        self.vacant.push(id);
        let flow = self.flows[id as usize].clone();
        match self.bottlenecks[id as usize] {
            NOWHERE => {
                self.settle_down(&flow.route);
                self.new.retain(|new| *new != id);
            }
            bottleneck => self.held[bottleneck as usize] -= 1,
        }
        self.bottlenecks[id as usize] = NOWHERE;
        for (link, place) in flow.route.iter().zip(flow.places) {
            let state = &mut self.links[*link as usize];
            state.note_crowding(now);
            state.flows.swap_remove(place as usize);
            if state.flows.is_empty() {
                state.free_below = f64::INFINITY;
                state.holding.clear();
            }
            if let Some(moved) = state.flows.get(place as usize) {
                let moved = &mut self.flows[moved.flow as usize];
                let at = moved.route.iter().position(|other| other == link);
                moved.places[at.expect("a flow on a link's list has the link on its route")] =
                    place;
            }
            self.unsettle(*link);
        }
    }

    /// Notes that a flow over `route` is no longer new.
    fn settle_down(&mut self, route: &Route) {
        route.iter().for_each(|link| self.links[*link as usize].new -= 1);
    }

    fn unsettle(&mut self, link: LinkId) {
        let state = &mut self.links[link as usize];
        if !state.is_unsettled {
            state.is_unsettled = true;
            self.unsettled.push(link);
        }
    }

    /// Computes new rates if flows have begun or ended since the last time. Appends the links whose
    /// next end has changed to `rescheduled`.
    pub(super) fn settle(&mut self, now: Time, rescheduled: &mut Vec<LinkId>) {
        let mut changed = std::mem::take(&mut self.unsettled);
        for link in &changed {
            self.links[*link as usize].is_unsettled = false;
        }
        self.refill(now, &mut changed);
        self.new.clear();
        for link in &changed {
            if self.reschedule(*link) {
                rescheduled.push(*link);
            }
        }
        changed.clear();
        self.unsettled = changed;
    }

    /// Moves `flow` to the bottleneck `link`. Both links must have served their flows up to `now`.
    pub(super) fn hold_back(&mut self, now: Time, id: FlowId, link: LinkId) {
        let Flow { route, finish, .. } = self.flows[id as usize];
        let bottleneck = self.bottlenecks[id as usize];
        let left = if bottleneck == NOWHERE {
            self.settle_down(&route);
            finish
        } else {
            self.held[bottleneck as usize] -= 1;
            if self.held[bottleneck as usize] == 0 {
                self.bound_neighbours(bottleneck);
            }
            (finish - self.links[bottleneck as usize].served).max(0.0)
        };
        self.end_stretch(now, id, left);
        self.begin_stretch(now, id, left);
        self.bottlenecks[id as usize] = link;
        self.held[link as usize] += 1;
        if self.held[link as usize] == 1 {
            self.note_first_held(link);
        }
        let flow = &mut self.flows[id as usize];
        let new = &mut self.links[link as usize];
        flow.finish = new.served + left;
        new.queue.push(Reverse(Ending { finish: flow.finish, number: flow.number, flow: id }));
    }
}

impl Crossing {
    /// The other links of its route; all of them and the link itself, if they are not one.
    pub(super) fn others<'a>(&'a self, flows: &'a [Flow]) -> &'a [LinkId] {
        match &self.other {
            Some(other) => std::slice::from_ref(other),
            None => &flows[self.flow as usize].route,
        }
    }
}

impl Link {
    /// The capacity for all flows that cross it [bytes/ns].
    pub(super) fn capacity(&self) -> f64 {
        self.rate / (1.0 + self.incast * self.flows.len().saturating_sub(1) as f64)
    }

    /// Serves the flows that it holds back up to `now`.
    pub(super) fn serve(&mut self, now: Time) {
        (self.served, self.served_at) = (self.served_by(now), now);
    }

    /// The bytes that it will have served each flow that it holds back, by `now`.
    fn served_by(&self, now: Time) -> f64 {
        self.served + self.level * now.since(self.served_at).as_nanos() as f64
    }
}
