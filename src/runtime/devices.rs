//! The devices of a task, and what it knows of those of the other tasks.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::cluster::{DeviceName, LocalDevice, TaskName};
use crate::kernels::Numerics;

use crate::runtime::compute::ComputeModel;

/// The devices of a task: at least one processor, and perhaps accelerators. Each does its own work,
/// at the same time as the others. Every task of a cluster has as many processors as each other.
#[derive(Clone)]
pub struct Devices {
    cpus: Rc<[Rc<dyn ComputeModel>]>,
    gpus: Rc<[Rc<dyn ComputeModel>]>,
    gpus_of_cluster: Rc<BTreeMap<TaskName, u32>>,
}

impl Devices {
    /// The same processors, with the accelerators `gpus`. `of_cluster` is the number of those of
    /// each task that has any.
    #[must_use]
    pub fn with_gpus(
        self,
        gpus: impl IntoIterator<Item = Rc<dyn ComputeModel>>,
        of_cluster: BTreeMap<TaskName, u32>,
    ) -> Self {
        let gpus = gpus.into_iter().collect();
        Self { gpus, gpus_of_cluster: Rc::new(of_cluster), ..self }
    }

    /// The task's own devices, in order.
    pub fn own(&self) -> impl Iterator<Item = LocalDevice> + use<> {
        let (cpus, gpus) = (self.cpus.len() as u32, self.gpus.len() as u32);
        (0..cpus).map(LocalDevice::cpu).chain((0..gpus).map(LocalDevice::gpu))
    }

    /// The devices of `task`, in order: of this one or of another.
    pub(crate) fn of(&self, task: &TaskName) -> impl Iterator<Item = DeviceName> + use<> {
        let (cpus, task) = (self.cpus.len() as u32, task.clone());
        let gpus = self.gpus_of_cluster.get(&task).copied().unwrap_or(0);
        let all = (0..cpus).map(LocalDevice::cpu).chain((0..gpus).map(LocalDevice::gpu));
        all.map(move |device| DeviceName::new(task.clone(), device))
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
        Self { cpus, gpus: Rc::new([]), gpus_of_cluster: Rc::default() }
    }
}

impl<const N: usize> From<[Rc<dyn ComputeModel>; N]> for Devices {
    fn from(cpus: [Rc<dyn ComputeModel>; N]) -> Self {
        cpus.into_iter().collect()
    }
}
