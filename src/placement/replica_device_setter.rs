//! `ReplicaDeviceSetter`: variables to parameter servers, everything else to the worker
//! (TensorFlow: `tf.train.replica_device_setter`).

use std::sync::{Mutex, PoisonError};

use super::strategy::{PsStrategy, RoundRobin};
use crate::cluster::{ClusterSpec, DeviceSpec};
use crate::graph::{DeviceFunction, OperationRequest};

/// A device function for between-graph replication.
///
/// Without tasks of the parameter servers' job it changes nothing, so that the same program runs on
/// one machine. Parts that an inner device scope sets win: a variable built for `/job:ps/task:1`
/// stays there, and one built for `/job:worker` gets no task.
pub struct ReplicaDeviceSetter {
    cluster: ClusterSpec,
    ps_device: DeviceSpec,
    worker_device: DeviceSpec,
    strategy: Mutex<Box<dyn PsStrategy>>,
}

impl ReplicaDeviceSetter {
    /// Places variables on the tasks of the job `ps` of `cluster` in turn, all else on the job
    /// `worker`.
    pub fn new(cluster: &ClusterSpec) -> Self {
        Self {
            cluster: cluster.clone(),
            ps_device: DeviceSpec::of_job("ps"),
            worker_device: DeviceSpec::of_job("worker"),
            strategy: Mutex::new(Box::new(RoundRobin::default())),
        }
    }

    /// Sets the device of all but variables, usually that of one worker.
    #[must_use]
    pub fn worker_device(mut self, device: DeviceSpec) -> Self {
        self.worker_device = device;
        self
    }

    /// Sets the device of variables, usually another job than `ps`; the strategy chooses the task.
    #[must_use]
    pub fn ps_device(mut self, device: DeviceSpec) -> Self {
        self.ps_device = device;
        self
    }

    /// Chooses among the parameter servers by `strategy` instead of in turn.
    #[must_use]
    pub fn strategy(mut self, strategy: impl PsStrategy + 'static) -> Self {
        self.strategy = Mutex::new(Box::new(strategy));
        self
    }
}

impl DeviceFunction for ReplicaDeviceSetter {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        let asked = request.device;
        let servers =
            self.ps_device.job().map_or(1, |job| self.cluster.num_tasks(job).unwrap_or(0) as u32);
        if servers == 0 {
            return asked.clone();
        }
        let Some(variable) = request.shared_variable() else {
            return self.worker_device.merged(asked);
        };
        let merged = self.ps_device.merged(asked);
        let is_ours = merged.job().is_some() && merged.job() == self.ps_device.job();
        if !is_ours || merged.task().is_some() {
            return merged;
        }
        let mut strategy = self.strategy.lock().unwrap_or_else(PoisonError::into_inner);
        merged.with_task(strategy.next(variable, servers))
    }
}
