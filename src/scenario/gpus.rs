//! `[gpus]`: the accelerators of jobs and of single tasks.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::compute::{MAX_DEVICES, SpeedFile, of_job};
use super::mistakes::Mistakes;
use super::presets::{Accelerator, LINK_LATENCY, Processor};
use super::tasks::{Tasks, tasks_of};
use crate::cluster::TaskName;
use crate::simulation::{ComputeSpec, Gpus, MemoryLink};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Span};

/// The accelerators of a job or of a task, as they are typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpusFile {
    preset: Option<&'static Processor>,
    count: Option<u32>,
    #[serde(default)]
    compute: SpeedFile,
    capacity: Option<Bytes>,
    host: Option<LinkFile>,
    peers: Option<LinkFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    latency: Option<Span>,
    bandwidth: Option<BytesPerSecond>,
}

/// The link of an accelerator to its host where none is given: 16 lanes of PCI Express 3.
const HOST: MemoryLink =
    MemoryLink { latency: Duration::from_micros(10), bandwidth: BytesPerSecond(12e9) };

/// The speed of an accelerator where none is given, that of a Tesla P100. The laws are those of the
/// task's steps, `of_task`.
fn standard(of_task: &ComputeSpec) -> Gpus {
    let compute = ComputeSpec {
        rate: FlopsPerSecond(10e12),
        memory: BytesPerSecond(700e9),
        efficiency: BTreeMap::new(),
        ..of_task.clone()
    };
    Gpus { count: NonZeroU32::MIN, compute, capacity: None, host: HOST, peers: None }
}

/// The accelerators of the tasks that have any. What is given of a job is of all its tasks; what is
/// given of a task comes before that. `compute` and `own_compute` are the speeds of the tasks'
/// processors, whose laws are those of the accelerators.
pub(super) fn gpus(
    file: BTreeMap<String, GpusFile>,
    (compute, own_compute): (&ComputeSpec, &BTreeMap<TaskName, ComputeSpec>),
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<TaskName, Gpus> {
    let of_task =
        |task: &TaskName| own_compute.get(task).cloned().unwrap_or_else(|| of_job(task, compute));
    let mut own: BTreeMap<TaskName, Gpus> = BTreeMap::new();
    // A job's name comes before those of its tasks.
    for (name, file) in file {
        let path = format!("gpus.\"{name}\"");
        let tasks = tasks_of(&name, cluster).unwrap_or_else(|why| {
            found.note(&path, why);
            Vec::new()
        });
        let change = file.read(&path, found);
        for task in tasks {
            let before = own.remove(&task).unwrap_or_else(|| standard(&of_task(&task)));
            own.insert(task, change(before));
        }
    }
    own
}

impl GpusFile {
    /// What it changes of accelerators that are described already.
    fn read(self, path: &str, found: &mut Mistakes) -> impl Fn(Gpus) -> Gpus {
        if let Some(count) = self.count {
            found.unless((1..=MAX_DEVICES).contains(&count), format!("{path}.count"), || {
                format!("{count} must be at least 1 and at most {MAX_DEVICES}")
            });
        }
        found.unless(self.capacity != Some(Bytes(0)), format!("{path}.capacity"), || {
            "0B hold nothing; give more, or remove the key".to_owned()
        });
        let preset = self.preset.and_then(|preset| {
            found.unless(preset.accelerator.is_some(), format!("{path}.preset"), || {
                format!("`{}` is no accelerator; name one, such as `a100-80gb`", preset.name)
            });
            preset.accelerator.as_ref()
        });
        let mut compute = self.compute;
        compute.preset = compute.preset.or(self.preset.filter(|_| !compute.has_rates()));
        let speed = compute.read(&format!("{path}.compute"), found);
        let (own_host, own_peers) = links(preset);
        let mut link = |link: Option<LinkFile>, key: &str, own: Option<MemoryLink>| match link {
            Some(link) => Some(link.read(&format!("{path}.{key}"), own.unwrap_or(HOST), found)),
            None => own,
        };
        let host = link(self.host, "host", own_host);
        let peers = link(self.peers, "peers", own_peers);
        let capacity = self.capacity.or(preset.map(|preset| preset.capacity));
        let count = self.count.and_then(NonZeroU32::new);
        move |before| Gpus {
            count: count.unwrap_or(before.count),
            compute: speed(&before.compute),
            capacity: capacity.or(before.capacity),
            host: host.unwrap_or(before.host),
            peers: peers.or(before.peers),
        }
    }
}

/// The links of `preset`, to its host and to its peers.
fn links(preset: Option<&Accelerator>) -> (Option<MemoryLink>, Option<MemoryLink>) {
    let link = |bandwidth| MemoryLink { latency: LINK_LATENCY, bandwidth };
    (preset.map(|preset| link(preset.host)), preset.and_then(|preset| preset.peers).map(link))
}

impl LinkFile {
    /// The link; what is not given is that of `own`.
    fn read(self, path: &str, own: MemoryLink, found: &mut Mistakes) -> MemoryLink {
        let bandwidth = self.bandwidth.unwrap_or(own.bandwidth);
        found.above_0(bandwidth.0, &format!("{path}.bandwidth"));
        MemoryLink { latency: self.latency.map_or(own.latency, Duration::from), bandwidth }
    }
}
