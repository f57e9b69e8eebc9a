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
///
/// | argument in TensorFlow | here |
/// |---|---|
/// | `cluster` | [`ReplicaDeviceSetter::new`] |
/// | `ps_tasks` | [`ReplicaDeviceSetter::of_tasks`] |
/// | `ps_device`, `worker_device`, `merge_devices` | methods of these names |
/// | `ps_ops` | [`ReplicaDeviceSetter::ps_ops`] |
/// | `ps_strategy` | [`ReplicaDeviceSetter::strategy`] |
pub struct ReplicaDeviceSetter {
    servers: Servers,
    ps_device: DeviceSpec,
    worker_device: DeviceSpec,
    merges: bool,
    /// The kinds of operations that go to parameter servers; none for the shared variables.
    ps_ops: Option<Vec<String>>,
    strategy: Mutex<Box<dyn PsStrategy>>,
}

shown!(ReplicaDeviceSetter, ps_device, worker_device, merges, ps_ops);

/// How many parameter servers there are.
enum Servers {
    /// As many as the cluster has tasks of the job of `ps_device`; one if that names no job.
    Of(ClusterSpec),
    Number(u32),
}

impl ReplicaDeviceSetter {
    /// Places variables on the tasks of the job `ps` of `cluster` in turn, all else on the job
    /// `worker`.
    pub fn new(cluster: &ClusterSpec) -> Self {
        Self::of(Servers::Of(cluster.clone()))
    }

    /// The same for `ps_tasks` parameter servers, of no known cluster.
    pub fn of_tasks(ps_tasks: u32) -> Self {
        Self::of(Servers::Number(ps_tasks))
    }

    fn of(servers: Servers) -> Self {
        Self {
            servers,
            ps_device: DeviceSpec::of_job("ps"),
            worker_device: DeviceSpec::of_job("worker"),
            merges: true,
            ps_ops: None,
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

    /// Whether a device that an inner scope requests is merged with the setter's, as it is by
    /// default. If not, it is left as it is.
    #[must_use]
    pub fn merge_devices(mut self, merges: bool) -> Self {
        self.merges = merges;
        self
    }

    /// Sends the operations of these kinds to the parameter servers, instead of the variables that
    /// workers share. The kind of those is `Variable`. A worker's own variable stays with it.
    #[must_use]
    pub fn ps_ops<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.ps_ops = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Chooses among the parameter servers by `strategy` instead of in turn.
    #[must_use]
    pub fn strategy(mut self, strategy: impl PsStrategy + 'static) -> Self {
        self.strategy = Mutex::new(Box::new(strategy));
        self
    }

    fn num_servers(&self) -> u32 {
        match (&self.servers, self.ps_device.job()) {
            (Servers::Number(number), _) => *number,
            (Servers::Of(cluster), Some(job)) => cluster.num_tasks(job).unwrap_or(0) as u32,
            (Servers::Of(_), None) => 1,
        }
    }

    fn goes_to_a_server(&self, request: &OperationRequest<'_>) -> bool {
        let is_own = request.variable().is_some_and(|spec| spec.is_local);
        match &self.ps_ops {
            Some(kinds) => !is_own && kinds.iter().any(|kind| kind == request.op.kind()),
            None => request.shared_variable().is_some(),
        }
    }
}

impl DeviceFunction for ReplicaDeviceSetter {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        let (asked, servers) = (request.device, self.num_servers());
        if servers == 0 || (!self.merges && *asked != DeviceSpec::default()) {
            return asked.clone();
        }
        if !self.goes_to_a_server(request) {
            return self.worker_device.merged(asked);
        }
        let merged = self.ps_device.merged(asked);
        let is_ours = merged.job().is_some() && merged.job() == self.ps_device.job();
        if !is_ours || merged.task().is_some() {
            return merged;
        }
        let mut strategy = self.strategy.lock().unwrap_or_else(PoisonError::into_inner);
        merged.with_task(strategy.next(request, servers))
    }
}
