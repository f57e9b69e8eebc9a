//! The tasks of one job: a number of tasks, or one at each address.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Unexpected, Visitor};

use crate::cluster::TaskName;

/// The tasks of one job: at least one. Written `2`, or `["host:port", ...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// A number of tasks, at any address.
    Count(u32),
    /// One task at each `host:port`.
    Addresses(Vec<String>),
}

impl Tasks {
    /// The number of tasks.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::Addresses(addresses) => u32::try_from(addresses.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The task `name` of `cluster`; the error says why there is none.
pub(super) fn task_of(name: &str, cluster: &BTreeMap<String, Tasks>) -> Result<TaskName, String> {
    let parts =
        name.split_once(':').and_then(|(job, index)| Some((job, index.parse::<u32>().ok()?)));
    // Refuses "worker:03".
    let spelt_alike = |(job, index): &(&str, u32)| format!("{job}:{index}") == name;
    let (job, index) =
        parts.filter(spelt_alike).ok_or("no task's name; write, for example, `worker:0`")?;
    let jobs = || cluster.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let tasks = cluster
        .get(job)
        .ok_or_else(|| format!("the cluster has no job `{job}`; it has {}", jobs()))?;
    match tasks.count() {
        count if index < count => Ok(TaskName::new(job, index)),
        count => Err(format!(
            "the job `{job}` has {count} tasks, counted from 0; `--unset` removes a key"
        )),
    }
}

/// The tasks that `name` means: one, or all of a job. The error says why there are none.
pub(super) fn tasks_of(
    name: &str,
    cluster: &BTreeMap<String, Tasks>,
) -> Result<Vec<TaskName>, String> {
    match cluster.get(name) {
        Some(tasks) => Ok((0..tasks.count()).map(|index| TaskName::new(name, index)).collect()),
        None => task_of(name, cluster).map(|task| vec![task]),
    }
}

/// All tasks of `cluster`, job by job.
pub(super) fn all_tasks(cluster: &BTreeMap<String, Tasks>) -> impl Iterator<Item = TaskName> {
    cluster.iter().flat_map(|(job, tasks)| {
        (0..tasks.count()).map(move |index| TaskName::new(job.as_str(), index))
    })
}

struct TasksVisitor;

impl<'de> Visitor<'de> for TasksVisitor {
    type Value = Tasks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tasks or a list of \"host:port\"")
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Tasks, E> {
        let count =
            u32::try_from(count).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))?;
        Ok(Tasks::Count(count))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tasks, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = seq.next_element()? {
            addresses.push(address);
        }
        Ok(Tasks::Addresses(addresses))
    }
}

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TasksVisitor)
    }
}
