//! The devices of a task, and what it knows of those of the other tasks.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::cluster::{ClusterSpec, DeviceName, LocalDevice, TaskName};
use crate::kernels::Numerics;

use crate::runtime::compute::ComputeModel;

/// The devices of a task: at least one processor, and perhaps accelerators. Each does its own work,
/// at the same time as the others. Every task of a cluster has as many processors as each other.
#[derive(Clone)]
pub struct Devices {
    cpus: Rc<[Rc<dyn ComputeModel>]>,
    gpus: Rc<[Rc<dyn ComputeModel>]>,
    of_cluster: ClusterDevices,
}

shown!(Devices, of_cluster);

/// The devices of all tasks of a cluster, listed once for those tasks that share it.
#[derive(Clone, Default)]
pub struct ClusterDevices {
    /// The number of accelerators of each task that has any.
    gpus: Rc<BTreeMap<TaskName, u32>>,
    all: Rc<OnceCell<Rc<[DeviceName]>>>,
}

shown!(ClusterDevices, gpus);

impl ClusterDevices {
    /// Those of a cluster whose tasks have so many accelerators, where they have any.
    pub fn with_gpus(gpus: BTreeMap<TaskName, u32>) -> Self {
        Self { gpus: Rc::new(gpus), ..Self::default() }
    }
}

impl Devices {
    /// The same processors, with the accelerators `gpus`, among those `of_cluster`.
    #[must_use]
    pub fn with_gpus(
        self,
        gpus: impl IntoIterator<Item = Rc<dyn ComputeModel>>,
        of_cluster: ClusterDevices,
    ) -> Self {
        let gpus = gpus.into_iter().collect();
        Self { gpus, of_cluster, ..self }
    }

    /// The task's own devices, in order.
    pub fn own(&self) -> impl Iterator<Item = LocalDevice> + use<> {
        let (cpus, gpus) = (self.cpus.len() as u32, self.gpus.len() as u32);
        (0..cpus).map(LocalDevice::cpu).chain((0..gpus).map(LocalDevice::gpu))
    }

    /// The devices of all tasks of `cluster`, in their order.
    pub(crate) fn of_cluster(&self, cluster: &ClusterSpec) -> Rc<[DeviceName]> {
        let of_task = |task: TaskName| {
            let (cpus, gpus) = (self.cpus.len() as u32, self.of_cluster.gpus.get(&task));
            let gpus = (0..gpus.copied().unwrap_or(0)).map(LocalDevice::gpu);
            let all = (0..cpus).map(LocalDevice::cpu).chain(gpus);
            all.map(move |device| DeviceName::new(task.clone(), device))
        };
        let all = || cluster.tasks().flat_map(of_task).collect();
        Rc::clone(self.of_cluster.all.get_or_init(all))
    }

    /// Whether the task has accelerators.
    pub(crate) fn has_gpus(&self) -> bool {
        !self.gpus.is_empty()
    }

    /// Whether the task has `device`.
    pub(crate) fn has(&self, device: LocalDevice) -> bool {
        self.of_kind(device).get(device.index as usize).is_some()
    }

    /// A device that the task has.
    pub(crate) fn get(&self, device: LocalDevice) -> &dyn ComputeModel {
        &*self.of_kind(device)[device.index as usize]
    }

    /// Whether the devices compute numbers at all.
    pub(crate) fn numerics(&self) -> Numerics {
        self.cpus[0].numerics()
    }

    /// Has the task's processors spread kernels over so many cores.
    pub(crate) fn use_cores(&self, cores: Option<NonZeroU32>) {
        self.cpus.iter().for_each(|cpu| cpu.use_cores(cores));
    }

    fn of_kind(&self, device: LocalDevice) -> &[Rc<dyn ComputeModel>] {
        if device.is_gpu() { &self.gpus } else { &self.cpus }
    }
}

impl FromIterator<Rc<dyn ComputeModel>> for Devices {
    /// The processors of a task without accelerators.
    fn from_iter<I: IntoIterator<Item = Rc<dyn ComputeModel>>>(cpus: I) -> Self {
        let cpus: Rc<[_]> = cpus.into_iter().collect();
        assert!(!cpus.is_empty(), "a task has at least one processor");
        Self { cpus, gpus: Rc::new([]), of_cluster: ClusterDevices::default() }
    }
}

impl<const N: usize> From<[Rc<dyn ComputeModel>; N]> for Devices {
    fn from(cpus: [Rc<dyn ComputeModel>; N]) -> Self {
        cpus.into_iter().collect()
    }
}
