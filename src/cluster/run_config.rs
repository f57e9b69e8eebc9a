//! Which task this process is, and what follows from that: who leads, how many others there are,
//! whom it sees.

#[cfg(test)]
mod tests;

use super::config_error::Problems;
use super::spec::listed;
use super::task_config::{Paths, TaskConfig};
use super::tf_config::VARIABLE;
use super::{
    ClusterSpec, ConfigErrors, ConfigProblem, ConfigWarning, DeviceSpec, Flags, Slurm, TaskName,
};

const CHIEF: &str = "chief";
/// What `chief` was called before TensorFlow 1.4.
const MASTER: &str = "master";
const WORKER: &str = "worker";
const PS: &str = "ps";
const EVALUATOR: &str = "evaluator";

/// The role of one process in a training, valid once built.
///
/// TensorFlow: `tf.estimator.RunConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    task: TaskName,
    cluster: ClusterSpec,
    dynamic: bool,
    master: String,
    evaluation_master: String,
    model_dir: Option<String>,
    warnings: Vec<ConfigWarning>,
}

impl RunConfig {
    /// From the text of the variable `TF_CONFIG`; without one this is a training in one process.
    ///
    /// # Errors
    /// Every mistake in it, of form and of roles.
    pub fn from_tf_config(text: Option<&str>) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let config = TaskConfig::read_tf_config(text, &mut problems);
        Self::resolve(config, problems)
    }

    /// From the flags of TensorFlow's example trainer; without any host this is a training in one
    /// process.
    ///
    /// # Errors
    /// Every mistake in them, of form and of roles, with the flag's name.
    pub fn from_flags(flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let config = TaskConfig::read_flags(flags, &mut problems);
        Self::resolve(config, problems)
    }

    /// From SLURM's variables; see [`TaskConfig::from_slurm`].
    ///
    /// # Errors
    /// Every variable that is missing or wrong, and ranks that don't fit the hosts.
    pub fn from_slurm(
        slurm: &Slurm,
        ps: u32,
        port_base: Option<u16>,
    ) -> Result<Self, ConfigErrors> {
        let (config, problems) = TaskConfig::read_slurm(slurm, ps, port_base)?;
        Self::resolve(config, problems)
    }

    /// Of `task` in `cluster`.
    ///
    /// # Errors
    /// Every mistake in the roles, such as two chiefs, or a task that the cluster hasn't.
    pub fn of_task(cluster: ClusterSpec, task: &TaskName) -> Result<Self, ConfigErrors> {
        let config = TaskConfig {
            cluster,
            task_type: Some(task.job().to_owned()),
            task_index: Some(task.index()),
            paths: Paths { cluster: "cluster", task_type: "task", task_index: "task" },
            ..TaskConfig::default()
        };
        Self::resolve(config, Problems::default())
    }

    /// Applies the rules on roles to what was given.
    fn resolve(config: TaskConfig, mut problems: Problems) -> Result<Self, ConfigErrors> {
        let unreadable = problems.has(VARIABLE) || problems.has(config.paths.cluster);
        if !unreadable && config.cluster.is_empty() && !config.dynamic {
            check_local(&config, &mut problems);
        } else if !unreadable {
            check_chief(&config, &mut problems);
            check_evaluator(&config, &mut problems);
            check_task(&config, &mut problems);
        }
        problems.finish().map(|()| Self::of_valid(config))
    }

    fn of_valid(mut config: TaskConfig) -> Self {
        let task = config.own_task().unwrap_or_else(|| TaskName::new(WORKER, 0));
        let evaluates = task.job() == EVALUATOR;
        config.cluster =
            if evaluates { ClusterSpec::default() } else { config.cluster.without(EVALUATOR) };
        config.rpc_layer.get_or_insert_with(|| "grpc".to_owned());
        let master = if evaluates { Ok(String::new()) } else { config.master(Some(&task)) };
        Self {
            task,
            // Only the chief of a dynamic cluster has no address: it is told of nobody, not even
            // itself.
            master: master.unwrap_or_default(),
            evaluation_master: config
                .eval_session_master
                .filter(|_| evaluates || config.cluster.is_empty())
                .unwrap_or_default(),
            cluster: config.cluster,
            dynamic: config.dynamic,
            model_dir: config.model_dir,
            warnings: config.warnings,
        }
    }

    /// This task; `worker:0` when there is no cluster.
    pub fn task(&self) -> &TaskName {
        &self.task
    }

    /// The cluster that trains: without an evaluator, and empty for one and when there is none.
    pub fn cluster_spec(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Whether tasks come and go, so that [`Self::cluster_spec`] has those alone that this one is
    /// told of.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// The task that initializes and saves: the `chief`, else the legacy `master`, else `worker:0`,
    /// else the first task that is no `ps`.
    ///
    /// In a dynamic cluster no task is told of a chief, and `worker:0` takes itself for it.
    pub fn chief(&self) -> Option<TaskName> {
        let is_there = |job: &&str| {
            self.task.job() == *job
                || self.cluster.num_tasks(job).is_ok_and(|count| count > 0 || self.dynamic)
        };
        let job = [CHIEF, MASTER, WORKER].into_iter().find(is_there);
        job.map(|job| TaskName::new(job, 0))
            .or_else(|| self.cluster.tasks().find(|task| task.job() != PS))
    }

    /// Whether this is the task that initializes and saves.
    pub fn is_chief(&self) -> bool {
        self.chief().is_some_and(|chief| chief == self.task)
    }

    /// How many parameter servers there are; `None` where this task isn't told.
    pub fn num_ps_replicas(&self) -> Option<usize> {
        let told = !self.dynamic || matches!(self.task.job(), WORKER | EVALUATOR);
        told.then(|| self.cluster.num_tasks(PS).unwrap_or(0))
    }

    /// How many tasks compute gradients, the chief among them; `None` where this task isn't told.
    pub fn num_worker_replicas(&self) -> Option<usize> {
        if self.task.job() == EVALUATOR {
            return Some(0);
        }
        if self.dynamic {
            return None;
        }
        let count =
            [CHIEF, MASTER, WORKER].iter().filter_map(|job| self.cluster.num_tasks(job).ok()).sum();
        Some(if self.cluster.is_empty() { 1 } else { count })
    }

    /// The target of this task's sessions: empty for the master within the process, else
    /// `grpc://host:port` or what the configuration set in its place.
    ///
    /// The scheme is TensorFlow's, so that targets written for it stay valid; it picks no protocol.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// The target of the sessions that evaluate.
    pub fn evaluation_master(&self) -> &str {
        &self.evaluation_master
    }

    /// Where checkpoints go, if the configuration says.
    pub fn model_dir(&self) -> Option<&str> {
        self.model_dir.as_deref()
    }

    /// What was in the configuration and is ignored.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// The position of this task among all: the chief 0, then the jobs by name, `ps` last. `None`
    /// for an evaluator, and in a dynamic cluster, where it isn't known.
    pub fn global_id_in_cluster(&self) -> Option<usize> {
        if self.cluster.is_empty() && self.task.job() == WORKER {
            return Some(0);
        }
        let rank = |task: &TaskName| match task.job() {
            CHIEF | MASTER => 0,
            PS => 2,
            _ => 1,
        };
        let mut tasks: Vec<TaskName> = self.cluster.tasks().filter(|_| !self.dynamic).collect();
        tasks.sort_by_key(rank);
        tasks.iter().position(|task| *task == self.task)
    }

    /// The devices that this task's sessions see by default; all when empty.
    ///
    /// Workers don't see one another, so that the death of one doesn't stop the rest.
    pub fn device_filters(&self) -> Vec<DeviceSpec> {
        let job = DeviceSpec::of_job;
        match self.task.job() {
            _ if self.cluster.is_empty() => Vec::new(),
            CHIEF | MASTER => vec![job(PS), job(self.task.job())],
            WORKER => vec![job(PS), DeviceSpec::of_task(&self.task)],
            PS => vec![job(PS), job(WORKER), job(CHIEF), job(MASTER)],
            _ => Vec::new(),
        }
    }
}

/// Without a cluster this is the one worker.
fn check_local(config: &TaskConfig, problems: &mut Problems) {
    if let Some(job) = config.task_type.as_deref().filter(|job| *job != WORKER) {
        problems.add(config.paths.task_type, ConfigProblem::LocalType(job.to_owned()));
    }
    if let Some(index) = config.task_index.filter(|index| *index != 0) {
        problems.add(config.paths.task_index, ConfigProblem::LocalIndex(index));
    }
}

/// One task leads at most, and it is the first of its job.
fn check_chief(config: &TaskConfig, problems: &mut Problems) {
    let path = |job: &str| format!("{}.{job}", config.paths.cluster);
    for job in [CHIEF, MASTER] {
        let Ok(indices) = config.cluster.task_indices(job) else { continue };
        let untold = config.dynamic && indices.is_empty();
        if indices != [0] && !untold && !problems.has(&path(job)) {
            problems.add(path(job), ConfigProblem::Chief { job, indices: listed(indices.iter()) });
        }
    }
    if config.cluster.num_tasks(CHIEF).is_ok() && config.cluster.num_tasks(MASTER).is_ok() {
        problems.add(path(MASTER), ConfigProblem::ChiefAndMaster);
    }
}

/// An evaluator trains with nobody, whether the cluster has it or not.
fn check_evaluator(config: &TaskConfig, problems: &mut Problems) {
    let listed = config.cluster.num_tasks(EVALUATOR).ok();
    let path = format!("{}.{EVALUATOR}", config.paths.cluster);
    if config.cluster.num_tasks(MASTER).is_ok() {
        if listed.is_some() {
            problems.add(&path, ConfigProblem::EvaluatorWithMaster);
        } else if config.task_type.as_deref() == Some(EVALUATOR) {
            problems.add(config.paths.task_type, ConfigProblem::EvaluatorWithMaster);
        }
    }
    if let Some(count) = listed.filter(|count| *count > 1) {
        problems.add(path, ConfigProblem::SeveralEvaluators(count));
    }
}

/// The task is in the cluster, unless it may be left out of it.
fn check_task(config: &TaskConfig, problems: &mut Problems) {
    let Paths { cluster, task_type, task_index } = config.paths;
    for (path, missing) in
        [(task_type, config.task_type.is_none()), (task_index, config.task_index.is_none())]
    {
        if missing && !problems.has(path) && !problems.has("task") {
            problems.add(path, ConfigProblem::Missing);
        }
    }
    let Some(job) = config.task_type.as_deref() else { return };
    let told_of_nobody =
        config.dynamic && job == CHIEF && config.task_index.is_none_or(|index| index == 0);
    if let Err(error) = config.cluster.num_tasks(job) {
        if job != EVALUATOR && !told_of_nobody {
            problems.add(task_type, error);
        }
    } else if let Some(task) = config.own_task()
        && let Err(error) = config.cluster.task_address(&task)
        && !told_of_nobody
        && !problems.has(&format!("{cluster}.{job}"))
    {
        problems.add(task_index, error);
    }
}
