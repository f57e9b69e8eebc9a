//! `[replicas]`: the tasks of a replica of the training.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Tasks;
use super::mistakes::Mistakes;
use crate::cluster::TaskName;
use crate::models::Model;
use crate::training::Settings;

/// The replicas of a job, as they are typed.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplicaFile {
    tasks: u32,
}

/// By job: the number of tasks of a replica, of the jobs of `cluster`.
pub(super) fn replicas(
    file: &BTreeMap<String, ReplicaFile>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<String, u32> {
    let mut replicas = BTreeMap::new();
    for (job, ReplicaFile { tasks }) in file {
        let path = format!("replicas.{job}");
        let trains = TaskName::new(job.as_str(), 0).is_of_workers();
        found.unless(trains, path.as_str(), || {
            "only the jobs `worker`, `chief` and `master` have replicas".to_owned()
        });
        let count = cluster.get(job).map_or(0, Tasks::count);
        found.unless(count > 0, path.as_str(), || format!("the cluster has no job `{job}`"));
        found.at_least_1((*tasks).into(), &format!("{path}.tasks"));
        found.unless(count.is_multiple_of((*tasks).max(1)), format!("{path}.tasks"), || {
            format!("{count} tasks of `{job}` can't be shared out to replicas of {tasks} tasks")
        });
        replicas.insert(job.clone(), (*tasks).max(1));
    }
    replicas
}

/// The number of replicas that train.
pub(super) fn workers(cluster: &BTreeMap<String, Tasks>, replicas: &BTreeMap<String, u32>) -> u32 {
    let trains = |(job, _): &(&String, &Tasks)| TaskName::new(job.as_str(), 0).is_of_workers();
    let count =
        |(job, tasks): (&String, &Tasks)| tasks.count() / replicas.get(job).copied().unwrap_or(1);
    cluster.iter().filter(trains).map(count).sum()
}

/// Checks that there is something for the helpers of a replica to compute.
pub(super) fn check_replicas(
    replicas: &BTreeMap<String, u32>,
    program: &Settings,
    found: &mut Mistakes,
) {
    if replicas.values().all(|tasks| *tasks == 1) {
        return;
    }
    let has_layers = program.model.has_data() && !matches!(program.model, Model::GraphDef(_));
    found.unless(has_layers, "replicas", || {
        "the layers of a model are dealt to a replica's tasks, and this one's are not known; use \
         another model, or remove the section"
            .to_owned()
    });
    found.unless(program.towers <= 1, "program.towers", || {
        "towers are on a worker's own devices; remove the key, or the section `[replicas]`"
            .to_owned()
    });
}
