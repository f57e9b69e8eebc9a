//! Free links: a change of their level affects no other link, so that a filling gives them one
//! without a look at their flows.
//!
//! A link that holds back all of its flows is free below the level at which a flow could overload
//! another link that it crosses. That bound is lowered at once where one of those links comes
//! nearer to its capacity, and found anew when the flows are looked at for another reason; so it is
//! sometimes too low, and never too high. Links that hold flows back are full, and affected by
//! every change: of these, each link knows its own.

use super::super::flows::Flows;
use super::super::route::LinkId;
use super::{FlowId, Rates, Scratch, differ};

impl Scratch {
    /// While the flows that share `link` with others are slower than this, it is not overloaded,
    /// whatever these others are; 0 if it may be.
    pub(super) fn free_below(&self, link: LinkId) -> f64 {
        let Rates { fastest, easy } = self.rates[link as usize];
        if fastest <= easy { easy } else { 0.0 }
    }
}

impl Flows {
    /// Whether link `id` needs no look at its flows to have this level.
    pub(super) fn is_free(&self, id: LinkId, level: f64) -> bool {
        self.fill.links[id as usize].is_whole && level < self.links[id as usize].free_below
    }

    /// Does what [`Flows::pour_into`] does for a free link: the flows that cross no other link of
    /// `region` just stay where they are.
    pub(super) fn pour_freely_into(&mut self, id: LinkId, level: f64, region: &[LinkId]) {
        self.set_level(id, level);
        self.fill.links[id as usize].free = self.fill.round;
        for place in 0..self.new.len() {
            self.pour_if_crossing(self.new[place], id, level);
        }
        for other in region.iter().filter(|other| **other != id) {
            for place in 0..self.links[*other as usize].flows.len() {
                self.pour_if_crossing(self.links[*other as usize].flows[place].flow, id, level);
            }
        }
    }

    /// Whether link `id` was, in this filling.
    pub(super) fn is_poured_freely(&self, id: LinkId) -> bool {
        self.fill.links[id as usize].free == self.fill.round
    }

    fn pour_if_crossing(&mut self, flow: FlowId, id: LinkId, level: f64) {
        let route = self.flows[flow as usize].route;
        if route.contains(&id) && self.pour_flow(flow, id) {
            route.iter().for_each(|crossed| self.take_from(*crossed, id, level));
        }
    }

    /// Does what [`Flows::spread`] does for a link that was poured into freely.
    pub(super) fn spread_freely(&mut self, id: LinkId, region: &mut Vec<LinkId>) {
        if !differ(self.links[id as usize].level, self.fill.links[id as usize].level) {
            return;
        }
        let mut holding = std::mem::take(&mut self.links[id as usize].holding);
        holding.sort_unstable();
        holding.dedup();
        holding.retain(|link| self.held[*link as usize] > 0 && self.are_neighbours(*link, id));
        holding.iter().for_each(|link| self.include(*link, region));
        self.links[id as usize].holding = holding;
    }

    /// Finds out below which level link `id` is free, by a look at all of its flows.
    pub(super) fn look_for_freedom(&mut self, id: LinkId) {
        let mut holding = std::mem::take(&mut self.links[id as usize].holding);
        holding.clear();
        let mut free_below = f64::INFINITY;
        self.for_neighbours(id, |flows, other| match flows.held[other as usize] {
            0 => free_below = free_below.min(flows.fill.free_below(other)),
            _ => holding.push(other),
        });
        let link = &mut self.links[id as usize];
        (link.free_below, link.holding) = (free_below, holding);
    }

    /// Tells the links of `route`, which now share a flow, which of them hold flows back.
    pub(in super::super) fn note_holding(&mut self, route: &[LinkId]) {
        for link in route {
            for other in route.iter().filter(|other| *other != link) {
                if self.held[*link as usize] > 0 {
                    self.note(*other, *link);
                }
            }
        }
    }

    /// Tells the links that share flows with `link` that it holds flows back from now on.
    pub(in super::super) fn note_first_held(&mut self, link: LinkId) {
        self.for_neighbours(link, |flows, other| flows.note(other, link));
    }

    /// Notes that `link`, which shares flows with `other`, holds flows back.
    fn note(&mut self, other: LinkId, link: LinkId) {
        let state = &mut self.links[other as usize];
        state.holding.push(link);
        if state.holding.len() > 4 * state.flows.len() + 8 {
            self.look_for_freedom(other);
        }
    }

    /// Lowers the bound of each link that shares flows with `link`, which holds none back, to what
    /// overloads `link`.
    pub(in super::super) fn bound_neighbours(&mut self, link: LinkId) {
        let free_below = self.fill.free_below(link);
        self.for_neighbours(link, |flows, other| {
            let state = &mut flows.links[other as usize];
            state.free_below = state.free_below.min(free_below);
        });
    }

    /// Calls `act` with each other link of each flow on `link`.
    fn for_neighbours(&mut self, link: LinkId, mut act: impl FnMut(&mut Self, LinkId)) {
        for place in 0..self.links[link as usize].flows.len() {
            let crossing = self.links[link as usize].flows[place];
            for at in 0..crossing.others(&self.flows).len() {
                let other = crossing.others(&self.flows)[at];
                if other != link {
                    act(self, other);
                }
            }
        }
    }

    /// Whether a flow crosses both links.
    fn are_neighbours(&self, a: LinkId, b: LinkId) -> bool {
        let crossings = |link: LinkId| &self.links[link as usize].flows;
        let (few, other) = if crossings(a).len() < crossings(b).len() { (a, b) } else { (b, a) };
        crossings(few).iter().any(|crossing| crossing.others(&self.flows).contains(&other))
    }
}
