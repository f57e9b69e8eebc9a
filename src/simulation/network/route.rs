//! Routes: the links that a message between two hosts crosses, and their capacities.

use std::ops::Deref;

use super::NetworkSpec;

/// One direction of a NIC or of a rack's uplink, as an index into the network's links.
pub(super) type LinkId = u32;

/// The links that a message crosses, in order: none within a host, up to four between racks.
#[derive(Clone, Copy, Default)]
pub(super) struct Route {
    links: [LinkId; 4],
    len: u8,
}

impl Route {
    /// The route over `links`, at most four of them.
    pub(super) fn over(links: &[LinkId]) -> Self {
        let mut route = Self { links: [0; 4], len: links.len() as u8 };
        route.links[..links.len()].copy_from_slice(links);
        route
    }
}

impl Deref for Route {
    type Target = [LinkId];

    fn deref(&self) -> &[LinkId] {
        &self.links[..usize::from(self.len)]
    }
}

/// Numbers the links: each host's NIC out and in, then each rack's uplink out and in.
pub(super) struct Wiring {
    hosts: usize,
    hosts_per_rack: Option<usize>,
}

impl Wiring {
    /// The wiring of `hosts` hosts, and the capacity of each link [bytes/ns].
    pub(super) fn new(spec: &NetworkSpec, hosts: usize) -> (Self, Vec<f64>) {
        let mut capacities = vec![spec.bandwidth.0 / 1e9; 2 * hosts];
        if let Some(racks) = &spec.racks {
            let count = hosts.div_ceil(racks.hosts_per_rack);
            capacities.resize(2 * (hosts + count), racks.uplink.0 / 1e9);
        }
        (
            Self { hosts, hosts_per_rack: spec.racks.as_ref().map(|racks| racks.hosts_per_rack) },
            capacities,
        )
    }

    /// The links from one host to another.
    pub(super) fn route(&self, from: usize, to: usize) -> Route {
        assert!(
            from < self.hosts && to < self.hosts,
            "{from} and {to} are among the {} hosts",
            self.hosts
        );
        if from == to {
            return Route::default();
        }
        let (out, into) = ((2 * from) as LinkId, (2 * to + 1) as LinkId);
        let rack = |host: usize| self.hosts_per_rack.map(|hosts| host / hosts);
        match (rack(from), rack(to)) {
            (Some(near), Some(far)) if near != far => {
                let (up, down) = (2 * (self.hosts + near), 2 * (self.hosts + far) + 1);
                Route::over(&[out, up as LinkId, down as LinkId, into])
            }
            _ => Route::over(&[out, into]),
        }
    }
}
