//! The description of a network, and its check.

use std::time::Duration;

use crate::units::BytesPerSecond;

/// The speed of a network, and how its hosts are connected.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSpec {
    /// The time from a message's last byte sent to its arrival.
    pub latency: Duration,
    /// The rate of each host's NIC, in each direction \[bytes/s\].
    pub bandwidth: BytesPerSecond,
    /// The time that each message takes its sender before its first byte is sent. A sender handles
    /// one message at a time.
    pub message_cost: Duration,
    /// The racks; `None` connects all hosts to one switch that is never the bottleneck.
    pub racks: Option<Racks>,
    /// The way between tasks on one host.
    pub loopback: Loopback,
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
pub enum NetworkError {
    /// A rate is zero, negative or not finite, so that messages would never arrive.
    #[error("the network's {what} is {rate}; give a finite rate above zero")]
    Rate {
        /// `bandwidth`, `racks.uplink` or `loopback.bandwidth`.
        what: &'static str,
        /// The rate.
        rate: BytesPerSecond,
    },
    /// The racks have no hosts.
    #[error("racks.hosts_per_rack is 0; give at least 1, or leave out the racks")]
    EmptyRacks,
}

impl NetworkSpec {
    /// Checks that every message between two hosts will arrive.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), NetworkError> {
        let uplink = self.racks.as_ref().map_or(self.bandwidth, |racks| racks.uplink);
        let loopback = self.loopback.bandwidth;
        let rates = [
            ("bandwidth", self.bandwidth),
            ("racks.uplink", uplink),
            ("loopback.bandwidth", loopback),
        ];
        for (what, rate) in rates {
            if !(rate.0.is_finite() && rate.0 > 0.0) {
                return Err(NetworkError::Rate { what, rate });
            }
        }
        if self.racks.as_ref().is_some_and(|racks| racks.hosts_per_rack == 0) {
            return Err(NetworkError::EmptyRacks);
        }
        Ok(())
    }
}
