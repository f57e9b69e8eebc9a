//! Routes: the links that a message between two hosts crosses, and their capacities.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use super::{NetworkSpec, Racks};
use crate::units::Bytes;

/// One direction of a NIC or of a rack's uplink, as an index into the network's links.
pub(super) type LinkId = u32;

/// A kind of link that holds a message back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LinkKind {
    /// The card of the sender's host.
    SendingCard,
    /// The card of the receiver's host.
    ReceivingCard,
    /// Another one.
    Between,
}

/// The greatest number of links that a message crosses.
pub(super) const MAX_LINKS: usize = 5;

/// The rate of a link that must not hold back the cards at its ends, as a multiple of theirs.
const NO_LIMIT: f64 = 1024.0;

/// The links that a message crosses, in order: none within a task, one within a host, up to four
/// between racks, and one that the two tasks have to themselves.
#[derive(Clone, Copy, Default)]
pub(super) struct Route {
    links: [LinkId; MAX_LINKS],
    len: u8,
}

impl Route {
    /// The route over `links`, at most [`MAX_LINKS`] of them.
    pub(super) fn over(links: &[LinkId]) -> Self {
        let mut route = Self::default();
        links.iter().for_each(|link| route.push(*link));
        route
    }

    fn push(&mut self, link: LinkId) {
        self.links[usize::from(self.len)] = link;
        self.len += 1;
    }
}

impl Deref for Route {
    type Target = [LinkId];

    fn deref(&self) -> &[LinkId] {
        &self.links[..usize::from(self.len)]
    }
}

/// Numbers the links: each host's NIC out and in, then each rack's uplink out and in, then each
/// host's loopback, then those that two tasks have to themselves.
pub(super) struct Wiring {
    /// By task: its host.
    host_of: Vec<usize>,
    hosts: usize,
    racks: usize,
    /// By sender and receiver: the link that the two have to themselves.
    own_links: BTreeMap<(usize, usize), LinkId>,
    spec: NetworkSpec,
}

impl Wiring {
    /// The wiring of tasks on the hosts `host_of`, and the capacity of each link [bytes/ns]. The
    /// senders and receivers that `may_slow` have links to themselves, too.
    pub(super) fn new(
        spec: &NetworkSpec,
        host_of: Vec<usize>,
        may_slow: &BTreeSet<(usize, usize)>,
    ) -> (Self, Vec<f64>) {
        let hosts = host_of.iter().map(|host| host + 1).max().unwrap_or(0);
        let mut capacities = vec![spec.bandwidth.0 / 1e9; 2 * hosts];
        for task in spec.cards.keys().filter(|task| **task < host_of.len()) {
            let out = 2 * host_of[*task];
            capacities[out..out + 2].fill(spec.bandwidth_of(*task).0 / 1e9);
        }
        let mut racks = 0;
        if let Some(Racks { hosts_per_rack, uplink }) = &spec.racks {
            racks = hosts.div_ceil(*hosts_per_rack);
            capacities.resize(2 * (hosts + racks), uplink.0 / 1e9);
        }
        capacities.resize(2 * (hosts + racks) + hosts, spec.loopback.bandwidth.0 / 1e9);
        let mut own_links = BTreeMap::new();
        for (pair, own) in &spec.links {
            if let Some(bandwidth) = own.bandwidth {
                own_links.insert(*pair, capacities.len() as LinkId);
                capacities.push(bandwidth.0 / 1e9);
            }
        }
        for pair in may_slow {
            own_links.entry(*pair).or_insert_with(|| {
                capacities.push(f64::INFINITY);
                capacities.len() as LinkId - 1
            });
        }
        let wiring = Self { host_of, hosts, racks, own_links, spec: spec.clone() };
        for (pair, link) in &wiring.own_links {
            capacities[*link as usize] = wiring.rate_of_own_link(*pair, 1.0);
        }
        (wiring, capacities)
    }

    /// The link that two tasks have to themselves, if they have one.
    pub(super) fn own_link(&self, pair: (usize, usize)) -> Option<LinkId> {
        self.own_links.get(&pair).copied()
    }

    /// The rate of a link that a sender and a receiver have to themselves, at a `speed` of up to 1
    /// \[bytes/ns\]. Without a bandwidth of its own it has that of the lesser of the two cards, or
    /// of the loopback; at full speed it is then no limit beside these.
    pub(super) fn rate_of_own_link(&self, (from, to): (usize, usize), speed: f64) -> f64 {
        let own = self.spec.links.get(&(from, to)).and_then(|own| own.bandwidth);
        let shared = || match self.host_of[from] == self.host_of[to] {
            true => self.spec.loopback.bandwidth.0 / 1e9,
            false => self.card_rate(from).min(self.card_rate(to)),
        };
        match own {
            Some(own) => own.0 / 1e9 * speed,
            None if speed < 1.0 => shared() * speed,
            None => shared() * NO_LIMIT,
        }
    }

    /// The links from one task to another.
    pub(super) fn route(&self, from: usize, to: usize) -> Route {
        let tasks = self.host_of.len();
        assert!(from < tasks && to < tasks, "{from} and {to} are among the {tasks} tasks");
        if from == to {
            return Route::default();
        }
        let mut route = self.between_hosts(self.host_of[from], self.host_of[to]);
        if let Some(own) = self.own_links.get(&(from, to)) {
            route.push(*own);
        }
        route
    }

    fn between_hosts(&self, from: usize, to: usize) -> Route {
        if from == to {
            return Route::over(&[(2 * (self.hosts + self.racks) + from) as LinkId]);
        }
        let (out, into) = ((2 * from) as LinkId, (2 * to + 1) as LinkId);
        let per_rack = self.spec.racks.as_ref().map(|racks| racks.hosts_per_rack);
        let rack = |host: usize| per_rack.map(|hosts| host / hosts);
        match (rack(from), rack(to)) {
            (Some(near), Some(far)) if near != far => {
                let (up, down) = (2 * (self.hosts + near), 2 * (self.hosts + far) + 1);
                Route::over(&[out, up as LinkId, down as LinkId, into])
            }
            _ => Route::over(&[out, into]),
        }
    }

    /// The time from a message's last byte sent to its arrival.
    pub(super) fn latency(&self, from: usize, to: usize) -> Duration {
        let own = self.spec.links.get(&(from, to)).and_then(|own| own.latency);
        if from == to {
            Duration::ZERO
        } else if let Some(own) = own {
            own
        } else if self.host_of[from] == self.host_of[to] {
            self.spec.loopback.latency
        } else {
            self.spec.latency_of(from).max(self.spec.latency_of(to))
        }
    }

    /// The bytes that cross the links from one task to another for a message of `size`.
    pub(super) fn on_the_wire(&self, from: usize, to: usize, size: Bytes) -> Bytes {
        let is_between_hosts = self.host_of[from] != self.host_of[to];
        if is_between_hosts { self.spec.on_the_wire(size) } else { size }
    }

    /// Both directions of the NIC of the host of `task`.
    pub(super) fn card(&self, task: usize) -> [LinkId; 2] {
        let out = 2 * self.host_of[task] as LinkId;
        [out, out + 1]
    }

    /// The rate of each direction of the NIC of the host of `task` \[bytes/ns\].
    pub(super) fn card_rate(&self, task: usize) -> f64 {
        self.spec.bandwidth_of(task).0 / 1e9
    }

    /// What kind of link `link` is.
    pub(super) fn kind(&self, link: LinkId) -> LinkKind {
        match link as usize {
            link if link >= 2 * self.hosts => LinkKind::Between,
            link if link.is_multiple_of(2) => LinkKind::SendingCard,
            _ => LinkKind::ReceivingCard,
        }
    }

    /// The direction inwards of each NIC.
    pub(super) fn inwards(&self) -> impl Iterator<Item = LinkId> {
        (0..self.hosts).map(|host| (2 * host + 1) as LinkId)
    }
}
