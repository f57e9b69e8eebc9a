//! The tasks that a task was told its training has, as it tells others in its introduction.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RunId;
use crate::cluster::{ClusterSpec, Role};

/// The most ranges of a job that are told: an introduction is short. Those after them are not
/// compared.
const MOST_RANGES: usize = 16;
/// The most jobs that are told.
const MOST_JOBS: usize = 16;
/// The most letters of a job's name that an error has.
const LONGEST_JOB: usize = 64;

/// By job: the ranges of its tasks' indices, each with its first and its last. Empty for a task
/// that has none to compare, such as a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Roster(BTreeMap<String, Vec<(u32, u32)>>);

impl Roster {
    /// The tasks of `cluster`, by which a task of `run` compares itself with others, if it has
    /// settings to compare.
    pub(super) fn to_compare(run: &RunId, cluster: &ClusterSpec) -> Arc<Self> {
        Arc::new(if run.settings.is_empty() { Self::default() } else { Self::of(cluster) })
    }

    /// The tasks of `cluster`. Without an evaluator, which only some of the others need to know.
    fn of(cluster: &ClusterSpec) -> Self {
        let mut jobs: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new();
        for task in cluster.tasks().filter(|task| task.role() != Role::Evaluator) {
            if jobs.len() == MOST_JOBS && !jobs.contains_key(task.job()) {
                break;
            }
            let ranges = jobs.entry(task.job().to_owned()).or_default();
            let (index, count) = (task.index(), ranges.len());
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
                _ if count < MOST_RANGES => ranges.push((index, index)),
                _ => {}
            }
        }
        Self(jobs)
    }

    /// The tasks of the first job of which this has others than `own`, in words, each. None if they
    /// agree, or if one of the two has none to compare.
    pub(super) fn difference(&self, own: &Self) -> Option<[String; 2]> {
        if self.0.is_empty() || own.0.is_empty() {
            return None;
        }
        let differs = |job: &&String| self.0.get(*job) != own.0.get(*job);
        let job = self.0.keys().chain(own.0.keys()).filter(differs).min()?;
        Some([self.told(job), own.told(job)])
    }

    /// The tasks of `job`, in words.
    fn told(&self, job: &str) -> String {
        // It comes from the network.
        let job_told = job.chars().take(LONGEST_JOB).collect::<String>();
        let job_told = job_told.escape_debug();
        let task = |index: &u32| format!("{job_told}:{index}");
        let range = |range: &(u32, u32)| match range {
            (first, last) if first == last => task(first),
            (first, last) if first.checked_add(1) == Some(*last) => {
                format!("{} and {}", task(first), task(last))
            }
            (first, last) => format!("{} to {}", task(first), task(last)),
        };
        match self.0.get(job).map(Vec::as_slice) {
            None | Some([]) => format!("no `{job_told}`"),
            Some([(first, last)]) if first == last => format!("{} alone", task(first)),
            Some(ranges) => {
                ranges.iter().take(MOST_RANGES).map(range).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lists_of_tasks_differ_in_a_job_and_an_evaluator_is_none_of_them() {
        let of = |ps: u32, workers: u32, evaluators: u32| {
            let jobs = [("ps", ps), ("worker", workers), ("evaluator", evaluators)];
            Roster::of(&ClusterSpec::simulated(jobs.into_iter().filter(|job| job.1 > 0)).unwrap())
        };
        let told = |its: Roster, own: Roster| its.difference(&own);
        let told_of = |its: &str, own: &str| Some([its.to_owned(), own.to_owned()]);
        assert_eq!(told(of(1, 2, 0), of(2, 2, 0)), told_of("ps:0 alone", "ps:0 and ps:1"));
        assert_eq!(
            told(of(2, 8, 0), of(2, 1, 0)),
            told_of("worker:0 to worker:7", "worker:0 alone")
        );
        assert_eq!(told(of(0, 2, 0), of(1, 2, 0)), told_of("no `ps`", "ps:0 alone"));
        assert_eq!(told(of(1, 2, 1), of(1, 2, 0)), None);
        assert_eq!(told(of(1, 2, 0), Roster::default()), None, "a client has none");
    }

    #[test]
    fn what_a_task_tells_of_a_large_cluster_is_short() {
        let holes = |job: usize| {
            (
                format!("job{job}"),
                (0..1000).map(move |index| (index * 2, format!("h{job}:{}", index + 1))),
            )
        };
        let sparse = ClusterSpec::sparse((0..40).map(holes)).unwrap();
        let encoded =
            bincode::serde::encode_to_vec(Roster::of(&sparse), bincode::config::standard());
        assert!(encoded.unwrap().len() < 1000);
    }
}
