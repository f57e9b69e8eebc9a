//! The role of a task, by its job: the one rule by which jobs train, hold variables or evaluate.

use std::cmp::Ordering;

use super::{ClusterSpec, TaskName};

/// What a task does in a training (TensorFlow: `TaskType`). It is the same in a simulation, in a
/// deployment and in a scenario's `[cluster]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes gradients: the jobs `chief`, `master` (its name before TensorFlow 1.4) and
    /// `worker`. The first of them all, in this order, is the chief.
    Worker,
    /// Holds variables: the job `ps`.
    ParameterServer,
    /// Measures the training's checkpoints: the job `evaluator`.
    Evaluator,
    /// Hosts what a program places on it: any other job, and all tasks of a replica but the first.
    Helper,
}

/// The role of tasks of `job`.
fn role_of(job: &str) -> Role {
    match job {
        "chief" | "master" | "worker" => Role::Worker,
        "ps" => Role::ParameterServer,
        "evaluator" => Role::Evaluator,
        _ => Role::Helper,
    }
}

impl TaskName {
    /// The role of tasks of its job; [`ClusterSpec::role`] knows that of the task.
    pub fn role(&self) -> Role {
        role_of(self.job())
    }

    /// Whether tasks of its job compute gradients; [`ClusterSpec::role`] knows whether this one
    /// does.
    pub fn is_of_workers(&self) -> bool {
        self.role() == Role::Worker
    }

    /// Whether the task holds variables.
    pub fn is_parameter_server(&self) -> bool {
        self.role() == Role::ParameterServer
    }
}

impl ClusterSpec {
    /// The tasks that compute gradients; a replica's index is its position here.
    pub fn workers(&self) -> impl Iterator<Item = TaskName> {
        self.tasks_of_jobs(|job| role_of(job) == Role::Worker)
            .filter(|task| self.role(task) == Role::Worker)
    }

    /// The tasks that hold variables: the parameter servers or, if there are none, those that
    /// train.
    pub(crate) fn holders(&self) -> Vec<TaskName> {
        let holding = self.role_of_holders();
        let tasks = self.tasks_of_jobs(|job| role_of(job) == holding);
        tasks.filter(|task| self.role(task) == holding).collect()
    }

    /// Whether `task` is one of [`Self::holders`].
    pub(crate) fn holds_variables(&self, task: &TaskName) -> bool {
        self.contains(task) && self.role(task) == self.role_of_holders()
    }

    fn role_of_holders(&self) -> Role {
        match self.has_parameter_servers() {
            true => Role::ParameterServer,
            false => Role::Worker,
        }
    }

    /// The tasks that host what a program places on them.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = TaskName> {
        let has_helpers = |job: &str| match role_of(job) {
            Role::Worker => self.tasks_of_replica(job) > 1,
            role => role == Role::Helper,
        };
        self.tasks_of_jobs(has_helpers).filter(|task| self.role(task) == Role::Helper)
    }

    /// The number of tasks that compute gradients.
    pub(crate) fn num_workers(&self) -> u32 {
        let of_job = |job: &str| self.first_tasks_before(job, u32::MAX);
        self.jobs().filter(|job| role_of(job) == Role::Worker).map(of_job).sum()
    }

    /// The position of `task` among those that compute gradients, if it is one.
    pub(crate) fn worker_index(&self, task: &TaskName) -> Option<u32> {
        let is_worker = self.contains(task) && self.role(task) == Role::Worker;
        let own = (task.job(), task.index());
        is_worker.then(|| self.workers_before(own))
    }

    /// The task at position `index` among those that compute gradients. As
    /// [`Self::worker_index`], it does not name the others.
    pub(crate) fn worker(&self, index: u32) -> Option<TaskName> {
        let mut left = index;
        for job in self.jobs().filter(|job| role_of(job) == Role::Worker) {
            let count = self.first_tasks_before(job, u32::MAX);
            if left < count {
                return Some(TaskName::new(job, self.first_task(job, left)?));
            }
            left -= count;
        }
        None
    }

    /// The index of the first task of replica `replica` of `job`.
    fn first_task(&self, job: &str, replica: u32) -> Option<u32> {
        let tasks = self.tasks_of_replica(job);
        match self.dense_tasks(job) {
            Some(_) => Some(replica * tasks),
            None => {
                let mut first = self.indices(job).filter(|index| index.is_multiple_of(tasks));
                first.nth(replica as usize)
            }
        }
    }

    /// The number of tasks that compute gradients before `(job, index)` in the order of tasks.
    /// It makes no names: each task of a large cluster asks for it, for each of its peers.
    fn workers_before(&self, (job, index): (&str, u32)) -> u32 {
        let of_job = |other: &str| match other.cmp(job) {
            _ if role_of(other) != Role::Worker => 0,
            Ordering::Less => self.first_tasks_before(other, u32::MAX),
            Ordering::Equal => self.first_tasks_before(other, index),
            Ordering::Greater => 0,
        };
        self.jobs().map(of_job).sum()
    }

    /// The number of replicas of `job` whose first task has an index below `end`.
    fn first_tasks_before(&self, job: &str, end: u32) -> u32 {
        let tasks = self.tasks_of_replica(job);
        match self.dense_tasks(job) {
            Some(count) => count.min(end).div_ceil(tasks),
            None => {
                let indices = self.indices(job).take_while(|index| *index < end);
                indices.filter(|index| index.is_multiple_of(tasks)).count() as u32
            }
        }
    }

    /// What `task` does: by its job, and by its place in its replica.
    pub fn role(&self, task: &TaskName) -> Role {
        let is_first = task.index().is_multiple_of(self.tasks_of_replica(task.job()));
        match task.role() {
            Role::Worker if !is_first => Role::Helper,
            role => role,
        }
    }

    /// The tasks of the replica that `task` is the first of: itself, then its helpers.
    pub fn replica_of(&self, task: &TaskName) -> Vec<TaskName> {
        let tasks = self.tasks_of_replica(task.job());
        let all = (0..tasks).map(|at| TaskName::new(task.shared_job(), task.index() + at));
        all.collect()
    }

    /// The tasks of each replica that has several.
    pub fn replicas(&self) -> impl Iterator<Item = Vec<TaskName>> {
        self.workers().map(|first| self.replica_of(&first)).filter(|replica| replica.len() > 1)
    }

    /// The task that initializes, saves and reports: the first that computes gradients. The jobs'
    /// names sort as TensorFlow ranks them: `chief`, `master`, `worker`.
    pub fn chief(&self) -> Option<TaskName> {
        self.workers().next()
    }

    /// The task that measures the training's checkpoints, if there is one.
    pub fn evaluator(&self) -> Option<TaskName> {
        self.tasks_of_jobs(|job| role_of(job) == Role::Evaluator).next()
    }

    /// Whether a task holds variables.
    pub fn has_parameter_servers(&self) -> bool {
        self.tasks_of_jobs(|job| role_of(job) == Role::ParameterServer).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tasks_of_each_role_and_the_workers_positions_are_found_without_asking_every_task(
            tasks in proptest::collection::btree_set((0..6_usize, 0..5_u32), 0..20),
            per_replica in 1..3_u32,
        ) {
            let jobs = ["aux", "chief", "evaluator", "master", "ps", "worker"];
            let of_job = |job: usize| {
                let own = tasks.iter().filter(move |(of, _)| *of == job);
                own.map(move |(_, index)| (*index, format!("h{job}-{index}:1"))).collect::<Vec<_>>()
            };
            let cluster = ClusterSpec::sparse((0..6).map(|job| (jobs[job], of_job(job)))).unwrap();
            let cluster = cluster.with_replicas([("worker".to_owned(), per_replica)].into());
            let of_role = |role| -> Vec<TaskName> {
                cluster.tasks().filter(|task| cluster.role(task) == role).collect()
            };
            prop_assert_eq!(cluster.helpers().collect::<Vec<_>>(), of_role(Role::Helper));
            let holding = match cluster.has_parameter_servers() {
                true => Role::ParameterServer,
                false => Role::Worker,
            };
            let holders = cluster.holders();
            prop_assert_eq!(&holders, &of_role(holding));
            let workers: Vec<TaskName> = cluster.workers().collect();
            prop_assert_eq!(&workers, &of_role(Role::Worker));
            prop_assert_eq!(cluster.num_workers() as usize, workers.len());
            for task in cluster.tasks().chain([TaskName::new("worker", 99)]) {
                prop_assert_eq!(cluster.holds_variables(&task), holders.contains(&task));
                let place = workers.iter().position(|worker| *worker == task);
                prop_assert_eq!(cluster.worker_index(&task), place.map(|place| place as u32));
            }
            for index in 0..workers.len() + 2 {
                prop_assert_eq!(cluster.worker(index as u32), workers.get(index).cloned());
            }
        }
    }

    #[test]
    fn the_chief_is_the_first_that_trains_and_only_three_jobs_train() {
        let chief = |jobs: &[(&str, u32)]| {
            ClusterSpec::simulated(jobs.iter().copied()).unwrap().chief().map(|it| it.to_string())
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(chief(&[("aux", 1), ("worker", 2), ("ps", 1)]), named("worker:0"));
        assert_eq!(chief(&[("worker", 2), ("chief", 1)]), named("chief:0"));
        assert_eq!(chief(&[("worker", 2), ("master", 1)]), named("master:0"));
        assert_eq!(chief(&[("aux", 1), ("evaluator", 1), ("ps", 2)]), None);
    }

    #[test]
    fn the_first_task_of_a_replica_trains_and_the_others_help_it() {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 4)]).unwrap();
        let cluster = cluster.with_replicas([("worker".to_owned(), 2)].into());
        let worker = |index| TaskName::new("worker", index);
        assert_eq!(cluster.workers().collect::<Vec<_>>(), [worker(0), worker(2)]);
        assert_eq!(cluster.role(&worker(3)), Role::Helper);
        assert_eq!(cluster.role(&TaskName::new("ps", 0)), Role::ParameterServer);
        let both = [[worker(0), worker(1)], [worker(2), worker(3)]];
        assert!(cluster.replicas().eq(both), "{:?}", cluster.replicas().collect::<Vec<_>>());
    }

    #[test]
    fn a_cluster_knows_its_evaluator_and_its_parameter_servers() {
        let cluster = ClusterSpec::simulated([("evaluator", 1), ("worker", 1)]).unwrap();
        assert_eq!(cluster.evaluator(), Some(TaskName::new("evaluator", 0)));
        assert!(!cluster.has_parameter_servers());
        assert_eq!(TaskName::new("data", 3).role(), Role::Helper);
    }
}
