//! The description of a network, and its check.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::transport::LARGE_ENVELOPE;
use crate::units::{Bytes, BytesPerSecond};

/// The speed of a network, and how its hosts are connected. Tasks are numbered in the order of the
/// cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSpec {
    /// The time from a message's last byte sent to its arrival.
    pub latency: Duration,
    /// The rate of each host's NIC, in each direction \[bytes/s\].
    pub bandwidth: BytesPerSecond,
    /// The largest IP packet \[bytes\]; the headers of packets then cross the NICs, too. Without
    /// it, a message is its own bytes alone.
    pub mtu: Option<u32>,
    /// The time that each message takes its sender before its first byte is sent. A sender handles
    /// one message at a time.
    pub message_cost: Duration,
    /// The racks; `None` connects all hosts to one switch that is never the bottleneck.
    pub racks: Option<Racks>,
    /// The way between tasks on one host.
    pub loopback: Loopback,
    /// How what one task sends another shares their connection.
    pub connection: ConnectionSpec,
    /// The incast law: with `n` connections that it receives from, a NIC has the rate `bandwidth /
    /// (1 + incast (n - 1))`; 0 for no loss.
    pub incast: f64,
    /// By task: the NICs that are not like the others. Of two NICs' latencies, the longer counts.
    pub cards: BTreeMap<usize, LinkSpeed>,
    /// By sender and receiver: the links that two tasks have to themselves. Their latency holds
    /// whatever the NICs have; the NICs' rates hold besides.
    pub links: BTreeMap<(usize, usize), LinkSpeed>,
}

/// The headers of a packet \[bytes\]: Ethernet's, IPv4's and UDP's; QUIC's short header with a
/// connection id of 8 and a packet number of 2, its seal, and the frame of a stream.
const ETHERNET: u64 = 14;
const HEADERS: u64 = (20 + 8) + (1 + 8 + 2 + 16) + 8;
/// The smallest MTU: QUIC's packets have room for 1200 bytes, and IPv6 has no smaller ones.
pub(crate) const LEAST_MTU: u32 = 1280;

/// The speed of one NIC or link; without a value, the network's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSpeed {
    /// The time from a message's last byte sent to its arrival.
    pub latency: Option<Duration>,
    /// The rate in each direction \[bytes/s\].
    pub bandwidth: Option<BytesPerSecond>,
}

/// How what one task sends another shares their connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionSpec {
    /// The size above which a message is large \[bytes\]. Small ones are sent before large ones,
    /// and each kind in order.
    pub large: Bytes,
    /// The time that a large message takes to start, beside its bytes.
    pub start: Duration,
}

impl Default for ConnectionSpec {
    /// Those of [`Quic`](crate::transport::Quic), whose large messages start at once.
    fn default() -> Self {
        let large = Bytes(LARGE_ENVELOPE as u64);
        Self { large, start: Duration::ZERO }
    }
}

/// The way between tasks on one host, which all of them share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loopback {
    /// The time from a message's last byte sent to its arrival.
    pub latency: Duration,
    /// Its rate \[bytes/s\].
    pub bandwidth: BytesPerSecond,
}

impl Default for Loopback {
    /// 15 µs, 20 Gbit/s.
    fn default() -> Self {
        Self { latency: Duration::from_micros(15), bandwidth: BytesPerSecond(2.5e9) }
    }
}

/// Racks of hosts in the order of their numbers, each with an uplink that messages to other racks
/// share.
#[derive(Clone, Debug, PartialEq)]
pub struct Racks {
    /// The number of hosts in a rack.
    pub hosts_per_rack: usize,
    /// The rate of each rack's uplink, in each direction \[bytes/s\].
    pub uplink: BytesPerSecond,
}

/// Errors of [`NetworkSpec::validate`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A rate is zero, negative or not finite, so that messages would never arrive.
    #[error("the network's {what} is {rate}; give a finite rate above zero")]
    Rate {
        /// The key of the rate.
        what: &'static str,
        /// The rate.
        rate: BytesPerSecond,
    },
    /// Packets are smaller than those of the Internet.
    #[error("the network's mtu is {0}; give at least {LEAST_MTU}")]
    Mtu(u32),
    /// The incast law is negative or not finite.
    #[error("the network's incast is {0}; give a finite share of at least 0")]
    Incast(f64),
    /// The racks have no hosts.
    #[error("racks.hosts_per_rack is 0; give at least 1, or leave out the racks")]
    EmptyRacks,
}

impl Default for NetworkSpec {
    /// 50 µs of latency, 10 Gbit/s, 5 µs a message, and nothing else.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(50),
            bandwidth: BytesPerSecond(1.25e9),
            mtu: None,
            message_cost: Duration::from_micros(5),
            racks: None,
            loopback: Loopback::default(),
            connection: ConnectionSpec::default(),
            incast: 0.0,
            cards: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }
}

impl NetworkSpec {
    /// The latency of the NIC of a task.
    pub(super) fn latency_of(&self, task: usize) -> Duration {
        self.cards.get(&task).and_then(|own| own.latency).unwrap_or(self.latency)
    }

    /// The rate of the NIC of a task.
    pub(super) fn bandwidth_of(&self, task: usize) -> BytesPerSecond {
        self.cards.get(&task).and_then(|own| own.bandwidth).unwrap_or(self.bandwidth)
    }

    /// What a NIC sends of a message of `size`: its packets, with their headers.
    pub(super) fn on_the_wire(&self, Bytes(size): Bytes) -> Bytes {
        let Some(mtu) = self.mtu else { return Bytes(size) };
        let packets = size.div_ceil(u64::from(mtu) - HEADERS);
        Bytes(size + packets * (HEADERS + ETHERNET))
    }

    /// Checks that every message between two hosts will arrive.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), NetworkError> {
        let rates =
            [("bandwidth", self.bandwidth), ("loopback.bandwidth", self.loopback.bandwidth)];
        let rates = rates
            .into_iter()
            .chain(self.racks.iter().map(|racks| ("racks.uplink", racks.uplink)))
            .chain(self.cards.values().filter_map(|own| Some(("tasks.bandwidth", own.bandwidth?))))
            .chain(self.links.values().filter_map(|own| Some(("link.bandwidth", own.bandwidth?))));
        for (what, rate) in rates {
            if !(rate.0.is_finite() && rate.0 > 0.0) {
                return Err(NetworkError::Rate { what, rate });
            }
        }
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu < LEAST_MTU) {
            return Err(NetworkError::Mtu(mtu));
        }
        if !(self.incast.is_finite() && self.incast >= 0.0) {
            return Err(NetworkError::Incast(self.incast));
        }
        if self.racks.as_ref().is_some_and(|racks| racks.hosts_per_rack == 0) {
            return Err(NetworkError::EmptyRacks);
        }
        Ok(())
    }
}
