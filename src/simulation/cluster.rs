//! A simulated cluster, and the outcome of its run.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::cluster::{ClusterSpec, LocalDevice, TaskName};
use crate::kernels::Numerics;
pub use crate::runtime::Host;
use crate::runtime::{Encoding, Error, Traffic};
use crate::tape::Tapes;
use crate::units::Time;

use super::audit::Digest;
use super::critical_path::CriticalPath;
use super::device::ComputeSpec;
use super::faults::{Faults, SkippedFault};
use super::gauges::Gauges;
use super::gpus::Gpus;
use super::hosts::{Hosts, MessageThread};
use super::network::{CardTraffic, NetworkSpec};
use super::noise::Noise;
use super::processor::Usage;
use super::timeline::TimelineSpec;

/// A simulated cluster: its tasks, its hardware, its faults and the seed of all that is random.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The tasks.
    pub spec: ClusterSpec,
    /// The network between them.
    pub network: NetworkSpec,
    /// How the values of steps are encoded between tasks.
    pub encoding: Encoding,
    /// The speed of each device, with the laws of worker steps.
    pub compute: ComputeSpec,
    /// The speed of the devices of single tasks, instead of `compute`. The laws of a parameter
    /// server are of each piece of its work.
    pub own_compute: BTreeMap<TaskName, ComputeSpec>,
    /// The number of processor devices of each task. Values go between these in no time, since
    /// they share the task's memory.
    pub devices: NonZeroU32,
    /// The accelerators of the tasks that have any.
    pub gpus: BTreeMap<TaskName, Gpus>,
    /// The factor on the compute times of single tasks; 1 for a task that is not in it.
    pub slow: BTreeMap<TaskName, f64>,
    /// The machines that tasks share; `None` gives each task one of its own, whose cores are never
    /// scarce.
    pub hosts: Option<Hosts>,
    /// What message threads cost. `None` leaves them out: all kernels run on the devices, and a
    /// message costs only its sender, as the network says.
    pub message_thread: Option<MessageThread>,
    /// What takes the cores of each host away from its tasks now and then.
    pub noise: Vec<Noise>,
    /// Whether the kernels compute numbers, or only shapes.
    pub numerics: Numerics,
    /// The seed of all random draws.
    pub seed: u64,
    /// The faults to inject.
    pub faults: Faults,
    /// The stretch of its timeline that is written, if one is.
    pub timeline: Option<TimelineSpec>,
    /// What an observer sees while it goes on, if there may be one.
    pub gauges: Option<Arc<Gauges>>,
    /// The tapes to replay, if any. What they have stands instead of the network, the compute times
    /// and the faults.
    pub replay: Option<Arc<Tapes>>,
}

impl Cluster {
    /// The devices of `task`, in order.
    pub(super) fn devices_of(&self, task: &TaskName) -> impl Iterator<Item = LocalDevice> {
        let gpus = self.gpus_of(task);
        (0..self.devices.get()).map(LocalDevice::cpu).chain((0..gpus).map(LocalDevice::gpu))
    }

    /// The number of accelerators of `task`.
    pub(super) fn gpus_of(&self, task: &TaskName) -> u32 {
        self.gpus.get(task).map_or(0, |gpus| gpus.count.get())
    }

    /// The number of devices that the kernels of `task` run on unless they ask for others: its
    /// accelerators, or its processors if it has none.
    pub(crate) fn main_devices(&self, task: &TaskName) -> NonZeroU32 {
        self.gpus.get(task).map_or(self.devices, |gpus| gpus.count)
    }
}

/// How a run ended, and what was counted during it.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The value that each task's program returned, without the tasks that died for good; or the
    /// error of the first program that failed.
    pub result: Result<BTreeMap<TaskName, T>, Error>,
    /// The virtual time at the end.
    pub ended: Time,
    /// The number of events.
    pub events: u64,
    /// The number of envelopes that arrived.
    pub deliveries: u64,
    /// The hash of all events.
    pub digest: Digest,
    /// What each task sent to others.
    pub sent: BTreeMap<TaskName, Traffic>,
    /// What each task's processor did.
    pub usage: BTreeMap<TaskName, Usage>,
    /// What has crossed the network card of each task's host.
    pub cards: BTreeMap<TaskName, CardTraffic>,
    /// Where the time of training steps went.
    pub path: CriticalPath,
    /// The faults that did not happen, in the order in which they were skipped.
    pub skipped_faults: Vec<SkippedFault>,
}
