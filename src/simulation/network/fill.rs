//! Max-min fair rates by progressive filling, limited to the links that a change can affect.
//!
//! Filling: the link with the least share per flow holds its flows back at that share. Their rates
//! are subtracted from the other links, and the next link follows (Bertsekas and Gallager, *Data
//! Networks*, 6.5.2).
//!
//! A change affects the links on which flows began or ended; its spread from there shows only in
//! the result. So the filling starts with those links, the *region*, and the flows that they hold
//! back, with all other rates fixed. If a neighbouring link then contradicts the result
//! ([`Flows::spread`]), it joins the region and the filling is repeated.
//!
//! Three shortcuts: a link without fixed flows has all its capacity to give; only flows that change
//! bottleneck move; a load is summed only if the link could be full (all its flows at the fastest
//! one's rate). Where the level of a link affects no other, none of its flows is looked at
//! ([`free`]).

mod free;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flows::{Crossing, FlowId, Flows, NOWHERE};
use super::route::LinkId;
use crate::units::Time;

/// Rates and loads closer than this, relative to their size, count as equal: rounding.
const ROUNDING: f64 = 1e-11;

/// A link that is at most as full as this needs no exact sum to be known as not overloaded.
const NOT_FULL: f64 = 0.999;

/// The working memory of a filling.
pub(super) struct Scratch {
    /// Counts the fillings; marks of earlier ones are void.
    round: u64,
    links: Vec<LinkScratch>,
    in_region: Vec<bool>,
    rates: Vec<Rates>,
    flows: Vec<FlowScratch>,
    order: BinaryHeap<Reverse<(Share, LinkId)>>,
    /// The flows that this filling gives another bottleneck, with that.
    moved: Vec<(FlowId, LinkId)>,
}

#[derive(Clone, Default)]
struct LinkScratch {
    /// The capacity that fixed and held flows leave \[bytes/ns\].
    residual: f64,
    /// The number of flows that are neither fixed nor held yet.
    open: u32,
    /// The new level; infinite while it holds back nothing [bytes/ns].
    level: f64,
    /// The round in which its load was summed.
    summed: u64,
    /// Whether it holds back all of its flows but the new ones.
    is_whole: bool,
    /// The round in which it was poured into freely.
    free: u64,
}

/// The rates that show, without a sum over its flows, that a link is not overloaded. They lie apart
/// from its scratch: a filling reads them of every link that its flows cross, and that of few.
#[derive(Clone, Copy, Default)]
struct Rates {
    /// No flow that crosses it is faster than this or `easy`; kept from one filling to the next
    /// \[bytes/ns\].
    fastest: f64,
    /// While no flow is faster than this, the link is not overloaded \[bytes/ns\].
    easy: f64,
}

#[derive(Clone, Default)]
struct FlowScratch {
    /// The round in which it was held back at `bottleneck`.
    round: u64,
    bottleneck: LinkId,
}

/// A rate that is ordered and never NaN [bytes/ns].
#[derive(Clone, Copy, PartialEq)]
struct Share(f64);

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Scratch {
    pub(super) fn new(links: usize) -> Self {
        Self {
            round: 0,
            links: vec![LinkScratch::default(); links],
            in_region: vec![false; links],
            rates: vec![Rates::default(); links],
            flows: Vec::new(),
            order: BinaryHeap::new(),
            moved: Vec::new(),
        }
    }
}

impl Flows {
    /// Computes the rates on the links of `region` and on all links that they affect, which it
    /// appends to `region`.
    pub(super) fn refill(&mut self, now: Time, region: &mut Vec<LinkId>) {
        if self.fill.flows.len() < self.flows.len() {
            self.fill.flows.resize(self.flows.len(), FlowScratch::default());
        }
        for link in &*region {
            self.fill.in_region[*link as usize] = true;
        }
        loop {
            self.fill.round += 1;
            self.fill.moved.clear();
            self.open(region);
            self.pour(region);
            let before = region.len();
            self.spread(region);
            if region.len() == before {
                break;
            }
        }
        self.commit(now, region);
    }

    /// Opens the flows that the region, or no link yet, holds back, and computes the capacity that
    /// the other flows leave them.
    fn open(&mut self, region: &[LinkId]) {
        for id in region {
            let link = &self.links[*id as usize];
            let (capacity, crossing) = (link.capacity(), link.flows.len() as u32);
            let (mut residual, mut open, mut fastest) = (capacity, crossing, link.level);
            let held = self.held[*id as usize];
            let is_whole = held + link.new == crossing;
            for Crossing { flow, .. } in link.flows.iter().filter(|_| !is_whole) {
                let rate = self.rate(*flow);
                fastest = fastest.max(rate);
                if !self.is_open(*flow) {
                    residual -= rate;
                    open -= 1;
                }
            }
            let scratch = &mut self.fill.links[*id as usize];
            (scratch.residual, scratch.open, scratch.level) = (residual, open, f64::INFINITY);
            scratch.is_whole = is_whole;
            if open > 0 {
                self.fill.order.push(Reverse((scratch.share(), *id)));
            }
            let easy = capacity * NOT_FULL / f64::from(crossing.max(1));
            self.fill.rates[*id as usize] = Rates { fastest, easy };
            if held == 0 {
                self.bound_neighbours(*id);
            }
        }
    }

    fn is_open(&self, flow: FlowId) -> bool {
        let bottleneck = self.bottlenecks[flow as usize];
        bottleneck == NOWHERE || self.fill.in_region[bottleneck as usize]
    }

    /// Holds all open flows back, from the link of the least share to that of the greatest.
    fn pour(&mut self, region: &[LinkId]) {
        let flows = |id: &LinkId| self.links[*id as usize].flows.len();
        let looked_at = self.new.len() + region.iter().map(flows).sum::<usize>();
        while let Some(Reverse((key, id))) = self.fill.order.pop() {
            let link = &self.fill.links[id as usize];
            if link.open == 0 {
                continue;
            }
            // Flows held at other links have left more to each that is open here.
            let share = link.share();
            if share > key {
                self.fill.order.push(Reverse((share, id)));
                continue;
            }
            if self.is_free(id, share.0) && looked_at < 2 * self.links[id as usize].flows.len() {
                self.pour_freely_into(id, share.0, region);
            } else {
                self.pour_into(id, share.0);
            }
        }
    }

    /// Holds all flows on link `id` that are still open back, at `level`.
    fn pour_into(&mut self, id: LinkId, level: f64) {
        self.set_level(id, level);
        for place in 0..self.links[id as usize].flows.len() {
            let crossing = self.links[id as usize].flows[place];
            if self.pour_flow(crossing.flow, id) {
                for at in 0..crossing.others(&self.flows).len() {
                    self.take_from(crossing.others(&self.flows)[at], id, level);
                }
            }
        }
    }

    fn set_level(&mut self, id: LinkId, level: f64) {
        let scratch = &mut self.fill.links[id as usize];
        (scratch.level, scratch.open) = (level, 0);
        self.fill.rates[id as usize].rise_to(level);
    }

    /// Holds `flow` back at link `id`, if it is still open.
    fn pour_flow(&mut self, flow: FlowId, id: LinkId) -> bool {
        let round = self.fill.round;
        let is_open = self.fill.flows[flow as usize].round != round && self.is_open(flow);
        if is_open {
            self.fill.flows[flow as usize] = FlowScratch { round, bottleneck: id };
            if self.bottlenecks[flow as usize] != id {
                self.fill.moved.push((flow, id));
            }
        }
        is_open
    }

    /// Takes the rate of a flow that link `id` holds back at `level` from another link, `crossed`.
    fn take_from(&mut self, crossed: LinkId, id: LinkId, level: f64) {
        if crossed == id {
            return;
        }
        let was_easy = self.fill.free_below(crossed) > 0.0;
        self.fill.rates[crossed as usize].rise_to(level);
        let is_easy = self.fill.free_below(crossed) > 0.0;
        if was_easy && !is_easy && self.held[crossed as usize] == 0 {
            self.bound_neighbours(crossed);
        }
        if self.fill.in_region[crossed as usize] {
            let link = &mut self.fill.links[crossed as usize];
            link.residual -= level;
            link.open -= 1;
        }
    }

    /// Adds to the region the links that its new levels affect: those that hold back flows and are
    /// crossed by a flow of the region whose rate has changed, those that are now overloaded, and
    /// the bottlenecks of flows that are faster than a full link of the region allows.
    fn spread(&mut self, region: &mut Vec<LinkId>) {
        for at in 0..region.len() {
            let id = region[at];
            if self.is_poured_freely(id) {
                self.spread_freely(id, region);
                continue;
            }
            for place in 0..self.links[id as usize].flows.len() {
                self.spread_over(id, self.links[id as usize].flows[place], region);
            }
            self.look_for_freedom(id);
        }
    }

    /// Does so for one flow on link `id`.
    fn spread_over(&mut self, id: LinkId, crossing: Crossing, region: &mut Vec<LinkId>) {
        let (flow, level) = (crossing.flow, self.fill.links[id as usize].level);
        let (old, new) = (self.rate(flow), self.new_rate(flow));
        if !self.is_held(flow) {
            if old > level * (1.0 + ROUNDING) {
                self.include(self.bottlenecks[flow as usize], region);
            }
        } else if differ(old, new) {
            for at in 0..crossing.others(&self.flows).len() {
                let neighbour = crossing.others(&self.flows)[at];
                if self.held[neighbour as usize] > 0 || (new > old && self.is_overloaded(neighbour))
                {
                    self.include(neighbour, region);
                }
            }
        }
    }

    fn include(&mut self, link: LinkId, region: &mut Vec<LinkId>) {
        let in_region = &mut self.fill.in_region[link as usize];
        if !*in_region {
            *in_region = true;
            region.push(link);
        }
    }

    /// Whether this filling has held `flow` back; otherwise its rate is fixed.
    fn is_held(&self, flow: FlowId) -> bool {
        self.fill.flows[flow as usize].round == self.fill.round
    }

    fn new_rate(&self, flow: FlowId) -> f64 {
        let bottleneck = self.bottlenecks[flow as usize];
        if self.is_held(flow) {
            self.fill.links[self.fill.flows[flow as usize].bottleneck as usize].level
        } else if bottleneck != NOWHERE && self.is_poured_freely(bottleneck) {
            self.fill.links[bottleneck as usize].level
        } else {
            self.rate(flow)
        }
    }

    /// Whether a link outside of the region is overloaded. Answers once for each link and filling.
    fn is_overloaded(&mut self, id: LinkId) -> bool {
        let Rates { fastest, easy } = self.fill.rates[id as usize];
        let is_summed = || self.fill.links[id as usize].summed == self.fill.round;
        if fastest <= easy || self.fill.in_region[id as usize] || is_summed() {
            return false;
        }
        let link = &self.links[id as usize];
        let rates = || link.flows.iter().map(|crossing| self.new_rate(crossing.flow));
        let (load, fastest): (f64, f64) = (rates().sum(), rates().fold(0.0, f64::max));
        self.fill.links[id as usize].summed = self.fill.round;
        self.fill.rates[id as usize].fastest = fastest;
        load > link.capacity() * (1.0 + ROUNDING)
    }

    /// Writes the result of the filling to the links and flows of the region.
    fn commit(&mut self, now: Time, region: &[LinkId]) {
        for link in region {
            self.links[*link as usize].serve(now);
        }
        let mut moved = std::mem::take(&mut self.fill.moved);
        moved.drain(..).for_each(|(flow, link)| self.hold_back(now, flow, link));
        self.fill.moved = moved;
        for id in region {
            self.fill.in_region[*id as usize] = false;
            let scratch = &self.fill.links[*id as usize];
            if scratch.level.is_finite() {
                self.links[*id as usize].level = scratch.level;
            }
        }
    }
}

/// Whether a rate has changed by more than rounding.
fn differ(old: f64, new: f64) -> bool {
    (old - new).abs() > old * ROUNDING
}

impl Rates {
    fn rise_to(&mut self, rate: f64) {
        self.fastest = self.fastest.max(rate);
    }
}

impl LinkScratch {
    /// The greatest rate that each open flow can have \[bytes/ns\].
    fn share(&self) -> Share {
        Share(self.residual.max(0.0) / f64::from(self.open))
    }
}
