//! `[network]`: the links between the tasks, when a silent task is lost, how long a lost one is
//! waited for, and the default compression.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Compression;
use super::mistakes::Mistakes;
use super::presets::Network;
use super::tasks::{Tasks, tasks_of};
use crate::cluster::TaskName;
use crate::simulation::{ConnectionSpec, Hosts, LEAST_MTU, LinkSpeed, NetworkSpec, Racks};
use crate::units::{Bytes, BytesPerSecond, Span};

/// The most pairs of tasks that links are given for: each is kept, both ways.
const MOST_PAIRS: u64 = 4_000_000;

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkFile {
    preset: Option<&'static Network>,
    latency: Option<Span>,
    bandwidth: Option<BytesPerSecond>,
    mtu: Option<u32>,
    message_cost: Option<Span>,
    racks: Option<RacksFile>,
    connection: ConnectionFile,
    incast: Option<f64>,
    tasks: BTreeMap<String, LinkSpeedFile>,
    link: Vec<LinkFile>,
    pub(super) silence: Option<Span>,
    pub(super) recovery: Option<Span>,
    pub(super) compression: Compression,
    /// Whether a worker's next step is sent its variables with the answer to the last one. Default:
    /// it is, where nobody changes them in between.
    pub(super) read_ahead: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RacksFile {
    hosts_per_rack: Option<u32>,
    uplink: Option<BytesPerSecond>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConnectionFile {
    large: Option<Bytes>,
    start: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkSpeedFile {
    preset: Option<&'static Network>,
    latency: Option<Span>,
    bandwidth: Option<BytesPerSecond>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    between: [String; 2],
    latency: Option<Span>,
    bandwidth: Option<BytesPerSecond>,
}

/// The links between the tasks of `cluster`.
pub(super) fn network(
    file: NetworkFile,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> NetworkSpec {
    file.compression.check("network.compression", found);
    let standard = NetworkSpec::default();
    let own = own_bandwidth((file.bandwidth, file.preset), "network", found);
    let bandwidth = own.unwrap_or(standard.bandwidth);
    found.above_0(bandwidth.0, "network.bandwidth");
    let incast = file.incast.unwrap_or(standard.incast);
    found.unless(incast.is_finite() && incast >= 0.0, "network.incast", || {
        format!("{incast} must be finite and at least 0")
    });
    if let Some(mtu) = file.mtu.filter(|mtu| *mtu < LEAST_MTU) {
        found.note("network.mtu", format!("{mtu} must be at least {LEAST_MTU}"));
    }
    let spec = NetworkSpec {
        latency: file.latency.map_or(standard.latency, Duration::from),
        bandwidth,
        mtu: file.mtu,
        message_cost: file.message_cost.map_or(standard.message_cost, Duration::from),
        racks: file.racks.and_then(|racks| racks.read(found)),
        connection: file.connection.read(),
        incast,
        ..standard
    };
    let mut named = Named { cluster, found };
    NetworkSpec { cards: named.cards(file.tasks), links: named.links(file.link), ..spec }
}

/// The rate that is given, or that of the preset, in the section at `path`.
fn own_bandwidth(
    (given, preset): (Option<BytesPerSecond>, Option<&Network>),
    path: &str,
    found: &mut Mistakes,
) -> Option<BytesPerSecond> {
    found.unless(given.is_none() || preset.is_none(), format!("{path}.preset"), || {
        format!(
            "it gives nothing here, since `bandwidth` has a value of its own; remove that \
             (`--unset {path}.bandwidth`), or the preset"
        )
    });
    given.or(preset.map(|preset| preset.bandwidth))
}

impl RacksFile {
    fn read(self, found: &mut Mistakes) -> Option<Racks> {
        let (Some(hosts_per_rack), Some(uplink)) = (self.hosts_per_rack, self.uplink) else {
            found.note("network.racks", "racks need both `hosts_per_rack` and `uplink`");
            return None;
        };
        found.at_least_1(hosts_per_rack.into(), "network.racks.hosts_per_rack");
        found.above_0(uplink.0, "network.racks.uplink");
        Some(Racks { hosts_per_rack: hosts_per_rack as usize, uplink })
    }
}

impl ConnectionFile {
    fn read(self) -> ConnectionSpec {
        let standard = ConnectionSpec::default();
        ConnectionSpec {
            large: self.large.unwrap_or(standard.large),
            start: self.start.map_or(standard.start, Duration::from),
        }
    }
}

/// The tasks of the cluster, by name.
struct Named<'a> {
    cluster: &'a BTreeMap<String, Tasks>,
    found: &'a mut Mistakes,
}

impl Named<'_> {
    /// The cards of the tasks that have their own. What is given of a job is of all its tasks; what
    /// is given of a task comes before that.
    fn cards(&mut self, file: BTreeMap<String, LinkSpeedFile>) -> BTreeMap<usize, LinkSpeed> {
        let mut cards: BTreeMap<usize, LinkSpeed> = BTreeMap::new();
        // A job's name comes before those of its tasks.
        for (name, own) in file {
            let path = format!("network.tasks.\"{name}\"");
            let own = self.speed(&own, &path);
            for task in self.numbers(&name, &path) {
                let card = cards.entry(task).or_default();
                card.latency = own.latency.or(card.latency);
                card.bandwidth = own.bandwidth.or(card.bandwidth);
            }
        }
        cards
    }

    /// The links of pairs of tasks, in both directions. A later one replaces an earlier one.
    fn links(&mut self, file: Vec<LinkFile>) -> BTreeMap<(usize, usize), LinkSpeed> {
        let mut links = BTreeMap::new();
        let mut pairs = 0;
        for (index, LinkFile { between: [one, other], latency, bandwidth }) in
            file.into_iter().enumerate()
        {
            let path = format!("network.link[{index}]");
            let own = self.speed(&LinkSpeedFile { preset: None, latency, bandwidth }, &path);
            let between = format!("{path}.between");
            let (ones, others) = (self.numbers(&one, &between), self.numbers(&other, &between));
            pairs += ones.len() as u64 * others.len() as u64;
            if pairs > MOST_PAIRS {
                let why = format!(
                    "with the links before it, these are {pairs} pairs of tasks, and at most \
                     {MOST_PAIRS} can have their own; give `network.tasks`, or `[network]`"
                );
                self.found.note(between, why);
                break;
            }
            for (one, other) in
                ones.iter().flat_map(|one| others.iter().map(|other| (*one, *other)))
            {
                links.insert((one, other), own);
                links.insert((other, one), own);
            }
        }
        links
    }

    fn speed(&mut self, file: &LinkSpeedFile, path: &str) -> LinkSpeed {
        if let Some(bandwidth) = file.bandwidth {
            self.found.above_0(bandwidth.0, &format!("{path}.bandwidth"));
        }
        LinkSpeed {
            latency: file.latency.map(Duration::from),
            bandwidth: own_bandwidth((file.bandwidth, file.preset), path, self.found),
        }
    }

    /// The numbers of the tasks that `name` means, in the order of the cluster.
    fn numbers(&mut self, name: &str, path: &str) -> Vec<usize> {
        let tasks = tasks_of(name, self.cluster).unwrap_or_else(|why| {
            self.found.note(path, why);
            Vec::new()
        });
        tasks.iter().map(|task| number(task, self.cluster)).collect()
    }
}

/// The number of `task`, in the order of the cluster.
pub(super) fn number(task: &TaskName, cluster: &BTreeMap<String, Tasks>) -> usize {
    let before = cluster.iter().take_while(|(job, _)| job.as_str() != task.job());
    before.map(|(_, tasks)| tasks.count() as usize).sum::<usize>() + task.index() as usize
}

/// Notes a mistake if tasks of one host were given different cards: they share one.
pub(super) fn check_cards(
    network: &NetworkSpec,
    hosts: &Hosts,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) {
    let card = |task: &TaskName| network.cards.get(&number(task, cluster));
    for tasks in &hosts.tasks {
        let differs = tasks.windows(2).find(|pair| card(&pair[0]) != card(&pair[1]));
        if let Some([one, other]) = differs.and_then(|pair| pair.first_chunk()) {
            let why = format!("{one} and {other} share a host and its card; give both the same");
            found.note("network.tasks", why);
        }
    }
}
