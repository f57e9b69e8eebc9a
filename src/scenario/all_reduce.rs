//! `program.all_reduce`: mirrored towers on the workers' tasks, all of which are one replica.

use std::collections::BTreeMap;

use super::Tasks;
use super::mistakes::Mistakes;
use super::network::number;
use super::replicas::{ReplicaFile, check_replicas};
use crate::cluster::TaskName;
use crate::models::Model;
use crate::simulation::Hardware;
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

/// How the tasks of `replicas` sum their gradients, if they train by all-reduce.
pub(super) fn settings(
    algorithm: Option<AllReduceKind>,
    replicas: &BTreeMap<String, u32>,
    hardware: &Hardware,
    cluster: &BTreeMap<String, Tasks>,
) -> Option<AllReduceSettings> {
    let algorithm = algorithm?;
    let on_hosts: Option<BTreeMap<&TaskName, usize>> = hardware.hosts.as_ref().map(|hosts| {
        let numbered = hosts.tasks.iter().enumerate();
        numbered.flat_map(|(host, tasks)| tasks.iter().map(move |task| (task, host))).collect()
    });
    let host = |task: &TaskName| match &on_hosts {
        Some(on_hosts) => on_hosts.get(task).copied().unwrap_or(0),
        None => number(task, cluster),
    };
    let of_job = |(job, tasks): (&String, &u32)| {
        let job = job.clone();
        (0..*tasks).map(move |index| TaskName::new(&*job, index))
    };
    let tasks = replicas.iter().flat_map(of_job);
    let racks = match &hardware.network.racks {
        Some(racks) => tasks.map(|task| host(&task) / racks.hosts_per_rack.max(1)).collect(),
        None => Vec::new(),
    };
    Some(AllReduceSettings { algorithm, racks })
}

/// The number of batches that a step of a replica has: one for each task that trains by all-reduce,
/// else one.
pub(super) fn batches(algorithm: Option<AllReduceKind>, replicas: &BTreeMap<String, u32>) -> usize {
    match algorithm {
        Some(_) => replicas.values().map(|tasks| *tasks as usize).sum::<usize>().max(1),
        None => 1,
    }
}

/// Checks that `program` can be trained by all-reduce, or has something for all tasks of
/// `replicas` to compute.
pub(super) fn check(
    algorithm: Option<AllReduceKind>,
    replicas: &BTreeMap<String, u32>,
    program: &Settings,
    found: &mut Mistakes,
) {
    if algorithm.is_none() {
        return check_replicas(replicas, program, found);
    }
    let has_layers = program.model.has_data() && !matches!(program.model, Model::GraphDef(_));
    found.unless(has_layers && program.sync_replicas.is_none(), PATH, || {
        "the models `null` and `count`, a table of layers, an imported graph and training by \
         tokens have no towers; remove the key"
            .to_owned()
    });
    found.unless(program.optimizer.top_k.is_none(), PATH, || {
        "whole gradients are summed; remove `top_k`".to_owned()
    });
}
