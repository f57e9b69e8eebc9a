//! What the tasks of a cluster run on: their network, their devices and their machines.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::cluster::{LocalDevice, TaskName};

use super::device::ComputeSpec;
use super::gpus::Gpus;
use super::hosts::{Hosts, MessageThread};
use super::network::NetworkSpec;
use super::noise::Noise;

/// The hardware of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The network between the tasks.
    pub network: NetworkSpec,
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
}

impl Hardware {
    /// The devices of `task`, in order.
    pub(super) fn devices_of(&self, task: &TaskName) -> impl Iterator<Item = LocalDevice> {
        let gpus = self.gpus_of(task);
        (0..self.devices.get()).map(LocalDevice::cpu).chain((0..gpus).map(LocalDevice::gpu))
    }

    /// The number of accelerators of `task`.
    pub(super) fn gpus_of(&self, task: &TaskName) -> u32 {
        self.gpus.get(task).map_or(0, |gpus| gpus.count.get())
    }

    /// The speed of every device: of single tasks, of accelerators, then of all others.
    pub(crate) fn all_compute(&self) -> impl Iterator<Item = &ComputeSpec> {
        let of_gpus = self.gpus.values().map(|gpus| &gpus.compute);
        self.own_compute.values().chain(of_gpus).chain([&self.compute])
    }

    /// Whether what its message threads cost was measured: others gather no envelopes.
    pub(crate) fn is_calibrated(&self) -> bool {
        self.message_thread.as_ref().is_some_and(|thread| thread.gathers)
    }

    /// The number of devices that the kernels of `task` run on unless they ask for others: its
    /// accelerators, or its processors if it has none.
    pub(crate) fn main_devices(&self, task: &TaskName) -> NonZeroU32 {
        self.gpus.get(task).map_or(self.devices, |gpus| gpus.count)
    }
}
