//! `ReplicaDeviceSetter`: variables to parameter servers, everything else to the worker
//! (TensorFlow: `tf.train.replica_device_setter`).

use std::sync::{Mutex, PoisonError};

use super::strategy::{PsStrategy, RoundRobin};
use crate::cluster::{ClusterSpec, DeviceSpec};
use crate::graph::{DeviceFunction, OperationRequest};

/// A device function for between-graph replication.
pub struct ReplicaDeviceSetter {
    /// None where the cluster has no parameter servers: then no operation is moved.
    ps: Option<Mutex<Box<dyn PsStrategy>>>,
    ps_device: DeviceSpec,
    worker_device: DeviceSpec,
}

impl ReplicaDeviceSetter {
    /// Variables go to the job `ps` of `cluster` in turn, all else to the job `worker`.
    pub fn new(cluster: &ClusterSpec) -> Self {
        let servers = cluster.num_tasks("ps").unwrap_or(0) as u32;
        Self {
            ps: (servers > 0).then(|| Mutex::new(Box::new(RoundRobin::new(servers)) as Box<dyn PsStrategy>)),
            ps_device: DeviceSpec::of_job("ps"),
            worker_device: DeviceSpec::of_job("worker"),
        }
    }

    /// Sends all that is no variable to `device`, usually that of one worker.
    #[must_use]
    pub fn worker_device(mut self, device: DeviceSpec) -> Self {
        self.worker_device = device;
        self
    }

    /// Sends variables to `device`; which of its tasks, the strategy says.
    #[must_use]
    pub fn ps_device(mut self, device: DeviceSpec) -> Self {
        self.ps_device = device;
        self
    }

    /// Chooses among the parameter servers by `strategy` instead of in turn.
    #[must_use]
    pub fn strategy(mut self, strategy: impl PsStrategy + 'static) -> Self {
        self.ps = self.ps.map(|_| Mutex::new(Box::new(strategy) as Box<dyn PsStrategy>));
        self
    }
}

impl DeviceFunction for ReplicaDeviceSetter {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        let Some(ps) = &self.ps else { return request.device.clone() };
        let Some(variable) = request.variable() else { return self.worker_device.merged(request.device) };
        let asked = request.device;
        let is_ours = asked.job().is_none() || asked.job() == self.ps_device.job();
        let merged = self.ps_device.merged(asked);
        if self.ps_device.job().is_none() || !is_ours || asked.task().is_some() {
            return merged;
        }
        let index = ps.lock().unwrap_or_else(PoisonError::into_inner).next(variable);
        merged.with_task(index)
    }
}
