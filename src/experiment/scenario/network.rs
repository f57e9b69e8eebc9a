//! `[network]`: the links between the tasks, when a silent task is lost, and the default
//! compression.

use std::time::Duration;

use serde::Deserialize;

use super::Compression;
use super::mistakes::Mistakes;
use crate::simulation::{Loopback, NetworkSpec, Racks};
use crate::units::{BytesPerSecond, Span};

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkFile {
    latency: Option<Span>,
    bandwidth: Option<BytesPerSecond>,
    message_cost: Option<Span>,
    racks: Option<RacksFile>,
    pub(super) silence: Option<Span>,
    pub(super) compression: Compression,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RacksFile {
    hosts_per_rack: Option<u32>,
    uplink: Option<BytesPerSecond>,
}

/// The links between the tasks.
pub(super) fn network(file: NetworkFile, found: &mut Mistakes) -> NetworkSpec {
    file.compression.check("network.compression", found);
    let bandwidth = file.bandwidth.unwrap_or(BytesPerSecond(1.25e9));
    found.above_0(bandwidth.0, "network.bandwidth");
    let mut racks = None;
    if let Some(file) = file.racks {
        match (file.hosts_per_rack, file.uplink) {
            (Some(hosts_per_rack), Some(uplink)) => {
                found.at_least_1(hosts_per_rack.into(), "network.racks.hosts_per_rack");
                found.above_0(uplink.0, "network.racks.uplink");
                racks = Some(Racks { hosts_per_rack: hosts_per_rack as usize, uplink });
            }
            _ => found.note("network.racks", "racks need both `hosts_per_rack` and `uplink`"),
        }
    }
    NetworkSpec {
        latency: file.latency.map_or(Duration::from_micros(50), Duration::from),
        bandwidth,
        message_cost: file.message_cost.map_or(Duration::from_micros(5), Duration::from),
        racks,
        loopback: Loopback::default(),
    }
}
