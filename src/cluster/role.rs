//! The role of a task, by its job: the one rule by which jobs train, hold variables or evaluate.

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
        self.tasks().filter(|task| self.role(task) == Role::Worker)
    }

    /// The number of tasks that compute gradients.
    pub(crate) fn num_workers(&self) -> u32 {
        self.workers_before(|_, _| true)
    }

    /// The position of `task` among those that compute gradients, if it is one.
    pub(crate) fn worker_index(&self, task: &TaskName) -> Option<u32> {
        let is_worker = self.contains(task) && self.role(task) == Role::Worker;
        let own = (task.job(), task.index());
        is_worker.then(|| self.workers_before(|job, index| (job, index) < own))
    }

    /// The number of tasks that compute gradients, of the first ones in order that are `before`.
    /// It makes no names: each task of a large cluster asks for it, for each of its peers.
    fn workers_before(&self, before: impl Fn(&str, u32) -> bool) -> u32 {
        let of_job = |(job, indices): (&str, _)| -> u32 {
            if role_of(job) != Role::Worker {
                return 0;
            }
            let tasks = self.tasks_of_replica(job);
            let firsts = Iterator::filter(indices, |index: &u32| index.is_multiple_of(tasks));
            firsts.take_while(|index| before(job, *index)).count() as u32
        };
        self.indices().map(of_job).sum()
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
        self.tasks().find(|task| task.role() == Role::Evaluator)
    }

    /// Whether a task holds variables.
    pub fn has_parameter_servers(&self) -> bool {
        self.tasks().any(|task| task.is_parameter_server())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_workers_index_is_its_position_among_the_workers(
            counts in proptest::collection::vec(0..5_u32, 5),
            tasks in 1..3_u32,
        ) {
            let jobs = ["chief", "evaluator", "master", "ps", "worker"];
            let cluster = ClusterSpec::simulated(jobs.into_iter().zip(counts)).unwrap();
            let cluster = cluster.with_replicas([("worker".to_owned(), tasks)].into());
            let workers: Vec<TaskName> = cluster.workers().collect();
            prop_assert_eq!(cluster.num_workers() as usize, workers.len());
            for task in cluster.tasks().chain([TaskName::new("worker", 99)]) {
                let place = workers.iter().position(|worker| *worker == task);
                prop_assert_eq!(cluster.worker_index(&task), place.map(|place| place as u32));
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
