//! `program.all_reduce`: mirrored towers on the workers' tasks, all of which are one replica.

use std::collections::BTreeMap;

use super::Tasks;
use super::mistakes::Mistakes;
use super::network::number;
use super::replicas::{ReplicaFile, check_replicas};
use crate::cluster::TaskName;
use crate::models::Model;
use crate::simulation::{Hosts, NetworkSpec};
use crate::training::{AllReduceKind, AllReduceSettings, Settings};

const PATH: &str = "program.all_reduce";

/// By job: the number of tasks of a replica. All tasks that train by all-reduce are one.
pub(super) fn replicas(
    algorithm: Option<AllReduceKind>,
    typed: &BTreeMap<String, ReplicaFile>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<String, u32> {
    if algorithm.is_none() {
        return super::replicas::replicas(typed, cluster, found);
    }
    found.unless(typed.is_empty(), "replicas", || {
        "with `program.all_reduce` the workers' tasks are one replica; remove the section"
            .to_owned()
    });
    let trains = |job: &&String| TaskName::new(job.as_str(), 0).is_of_workers();
    let jobs: Vec<&String> = cluster.keys().filter(trains).collect();
    found.unless(jobs.len() <= 1, PATH, || {
        "its replica is the tasks of one job; make all that train tasks of the job `worker`"
            .to_owned()
    });
    jobs.into_iter().map(|job| (job.clone(), cluster[job].count().max(1))).collect()
}

/// Has `settings` train by all-reduce, if they are to, on the tasks of `replicas`; their batch is
/// then that of all tasks together.
pub(super) fn apply(
    algorithm: Option<AllReduceKind>,
    settings: &mut Settings,
    replicas: &BTreeMap<String, u32>,
    (network, hosts): (&NetworkSpec, Option<&Hosts>),
    cluster: &BTreeMap<String, Tasks>,
) {
    let Some(algorithm) = algorithm else { return };
    let of_job = |(job, tasks): (&String, &u32)| {
        let job = job.clone();
        (0..*tasks).map(move |index| TaskName::new(&*job, index))
    };
    let tasks: Vec<TaskName> = replicas.iter().flat_map(of_job).collect();
    let on_hosts: Option<BTreeMap<&TaskName, usize>> = hosts.map(|hosts| {
        let numbered = hosts.tasks.iter().enumerate();
        numbered.flat_map(|(host, tasks)| tasks.iter().map(move |task| (task, host))).collect()
    });
    let host = |task: &TaskName| match &on_hosts {
        Some(on_hosts) => on_hosts.get(task).copied().unwrap_or(0),
        None => number(task, cluster),
    };
    let racks = match &network.racks {
        Some(racks) => tasks.iter().map(|task| host(task) / racks.hosts_per_rack.max(1)).collect(),
        None => Vec::new(),
    };
    settings.batch = settings.batch.saturating_mul(tasks.len().max(1));
    settings.all_reduce = Some(AllReduceSettings { algorithm, racks });
}

/// Checks that `settings` can be trained by all-reduce, or have something for all tasks of
/// `replicas` to compute.
pub(super) fn check(
    algorithm: Option<AllReduceKind>,
    replicas: &BTreeMap<String, u32>,
    settings: &Settings,
    found: &mut Mistakes,
) {
    if algorithm.is_none() {
        return check_replicas(replicas, settings, found);
    }
    let has_layers = settings.model.has_data() && !matches!(settings.model, Model::GraphDef(_));
    found.unless(has_layers && settings.sync_replicas.is_none(), PATH, || {
        "the models `null` and `count`, a table of layers, an imported graph and training by \
         tokens have no towers; remove the key"
            .to_owned()
    });
    found.unless(settings.optimizer.top_k.is_none(), PATH, || {
        "whole gradients are summed; remove `top_k`".to_owned()
    });
}
