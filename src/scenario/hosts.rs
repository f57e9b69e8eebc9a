//! `[hosts]`: the machines that tasks share.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::Deserialize;

use super::mistakes::Mistakes;
use super::tasks::{Tasks, all_tasks, task_of};
use crate::cluster::TaskName;
use crate::simulation::Hosts;

/// The section as it is typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostsFile {
    tasks_per_host: Option<u32>,
    tasks: Option<Vec<Vec<String>>>,
    cores: Option<u32>,
}

/// The hosts of the tasks of `cluster`.
pub(super) fn hosts(
    file: &HostsFile,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> Hosts {
    let cores = file.cores.unwrap_or(0);
    found.unless(cores >= 1, "hosts.cores", || {
        "say how many cores each host has, at least 1; for example `cores = 2`".to_owned()
    });
    let tasks = match (file.tasks_per_host, &file.tasks) {
        (Some(count), None) => in_order(count, cluster, found),
        (None, Some(listed)) => as_listed(listed, cluster, found),
        _ => {
            found.note(
                "hosts",
                "give either `tasks_per_host`, for tasks in the cluster's order, or `tasks`, a \
                 list of tasks for each host",
            );
            Vec::new()
        }
    };
    Hosts { tasks, cores: NonZeroU32::new(cores).unwrap_or(NonZeroU32::MIN) }
}

/// Hosts of `count` consecutive tasks.
fn in_order(
    count: u32,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> Vec<Vec<TaskName>> {
    found.at_least_1(count.into(), "hosts.tasks_per_host");
    let all: Vec<TaskName> = all_tasks(cluster).collect();
    all.chunks(count.max(1) as usize).map(<[TaskName]>::to_vec).collect()
}

/// Hosts of the tasks that are listed for each.
fn as_listed(
    listed: &[Vec<String>],
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> Vec<Vec<TaskName>> {
    let mut seen = BTreeSet::new();
    let mut hosts = Vec::new();
    for (host, names) in listed.iter().enumerate() {
        let mut members = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let path = format!("hosts.tasks[{host}][{at}]");
            match task_of(name, cluster) {
                Err(why) => found.note(path, why),
                Ok(task) if seen.insert(task.clone()) => members.push(task),
                Ok(_) => found.note(path, format!("`{name}` is on a host already; remove one")),
            }
        }
        hosts.push(members);
    }
    hosts
}
