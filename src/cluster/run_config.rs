//! The role of a process in a training: its task, the chief, the devices that it sees.

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
/// The name of `chief` before TensorFlow 1.4.
const MASTER: &str = "master";
const WORKER: &str = "worker";
const PS: &str = "ps";
const EVALUATOR: &str = "evaluator";

/// The role of one process in a training; valid by construction.
///
/// TensorFlow: `tf.estimator.RunConfig`, and `ClusterResolver`, whose subclasses read the
/// environment again at each access; this reads it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    task: TaskName,
    /// Whether the configuration names the task.
    names_task: bool,
    cluster: ClusterSpec,
    listed: ClusterSpec,
    dynamic: bool,
    master: String,
    model_dir: Option<String>,
    warnings: Vec<ConfigWarning>,
}

impl RunConfig {
    /// Reads the text of the variable `TF_CONFIG`; without one the training has one process.
    ///
    /// Reads a dense `cluster`, a sparse one, and `sparseCluster`. The last two make the membership
    /// dynamic: a `ps` is then listed alone, in a list of one, whatever its index.
    ///
    /// # Errors
    /// Every mistake in it, of form and of roles.
    pub fn from_tf_config(text: Option<&str>) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let config = TaskConfig::read_tf_config(text, &mut problems);
        Self::resolve(config, problems)
    }

    /// Reads the flags of TensorFlow's example trainer; without any host the training has one
    /// process.
    ///
    /// # Errors
    /// Every mistake in them, of form and of roles, with the flag's name.
    pub fn from_flags(flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let config = TaskConfig::read_flags(flags, &mut problems);
        Self::resolve(config, problems)
    }

    /// Reads SLURM's variables; the first `ps` ranks are parameter servers. The first rank on each
    /// host listens on `port_base`, or on a port derived from the job's number, and each other rank
    /// one port above the rank before it.
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

    /// The role of `task` in `cluster`.
    ///
    /// # Errors
    /// Every mistake in the roles, such as two chiefs, or a task that is not in the cluster.
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

    /// Applies the rules on roles.
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
        let lead = || config.cluster.chief().unwrap_or_else(|| TaskName::new(WORKER, 0));
        let (own, is_local) = (config.own_task(), config.cluster.is_empty());
        let names_task = own.is_some() || is_local;
        let task = own.unwrap_or_else(lead);
        let evaluates = task.job() == EVALUATOR;
        let is_outside = evaluates && !config.cluster.contains(&task);
        let listed = if is_outside { ClusterSpec::default() } else { config.cluster.clone() };
        config.cluster =
            if evaluates { ClusterSpec::default() } else { config.cluster.without(EVALUATOR) };
        config.rpc_layer.get_or_insert_with(|| "grpc".to_owned());
        let has_no_master = evaluates || (!names_task && config.session_master.is_none());
        let master = if has_no_master { Ok(String::new()) } else { config.master(Some(&task)) };
        Self {
            task,
            names_task,
            // Only the chief of a dynamic cluster has no address: its configuration lists no task,
            // not even itself.
            master: master.unwrap_or_default(),
            cluster: config.cluster,
            listed,
            dynamic: config.dynamic,
            model_dir: config.model_dir,
            warnings: config.warnings,
        }
    }

    /// The job of this task; `None` if the configuration has a cluster and names no task of it.
    pub fn task_type(&self) -> Option<&str> {
        self.names_task.then(|| self.task.job())
    }

    /// This task; `worker:0` when there is no cluster, the chief when the configuration names no
    /// task.
    pub fn task(&self) -> &TaskName {
        &self.task
    }

    /// The cluster that trains, without an evaluator. Empty for an evaluator and for a single
    /// process.
    pub fn cluster_spec(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// The tasks that reach one another: the cluster that trains, with its evaluator if the
    /// configuration lists it. Empty for a single process and for an evaluator that is not listed.
    pub fn peers(&self) -> &ClusterSpec {
        &self.listed
    }

    /// Whether tasks come and go; [`Self::cluster_spec`] then has only those that this task's
    /// configuration lists.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// The task that initializes and saves: [`ClusterSpec::chief`], else the first task of another
    /// job than `ps`. `None` for an evaluator.
    ///
    /// In a dynamic cluster no configuration lists a chief, and `worker:0` is the chief.
    pub fn chief(&self) -> Option<TaskName> {
        let leads = |task: &TaskName| matches!(task.job(), CHIEF | MASTER);
        match self.cluster.chief() {
            _ if leads(&self.task) => Some(self.task.clone()),
            // Of its workers a dynamic cluster lists this task alone, if any.
            Some(listed) if !self.dynamic || leads(&listed) => Some(listed),
            _ if self.task.job() == EVALUATOR => None,
            _ if self.dynamic || self.cluster.is_empty() => Some(TaskName::new(WORKER, 0)),
            _ => self.cluster.tasks().find(|task| task.job() != PS),
        }
    }

    /// Whether this is the task that initializes and saves.
    pub fn is_chief(&self) -> bool {
        !self.names_task || self.chief().is_some_and(|chief| chief == self.task)
    }

    /// The target of this task's sessions: empty for the master in this process, else
    /// `grpc://host:port`, or the target that the configuration sets.
    ///
    /// The scheme `grpc` is TensorFlow's, so that its targets stay valid; it does not select a
    /// protocol.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// The directory of checkpoints, if the configuration sets one.
    pub fn model_dir(&self) -> Option<&str> {
        self.model_dir.as_deref()
    }

    /// The configuration with one more warning, of the key or variable at `path`.
    #[must_use]
    pub(crate) fn with_warning(mut self, path: &str, note: &'static str) -> Self {
        self.warnings.push(ConfigWarning { path: path.to_owned(), note });
        self
    }

    /// The parts of the configuration that are ignored.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// The devices that this task's sessions see by default; empty for all.
    ///
    /// Workers don't see each other, so that the death of one doesn't stop the others.
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

/// Checks that a process without a cluster is `worker:0`.
fn check_local(config: &TaskConfig, problems: &mut Problems) {
    if let Some(job) = config.task_type.as_deref().filter(|job| *job != WORKER) {
        problems.add(config.paths.task_type, ConfigProblem::LocalType(job.to_owned()));
    }
    if let Some(index) = config.task_index.filter(|index| *index != 0) {
        problems.add(config.paths.task_index, ConfigProblem::LocalIndex(index));
    }
}

/// Checks that there is at most one chief, and that its index is 0.
fn check_chief(config: &TaskConfig, problems: &mut Problems) {
    let path = |job: &str| format!("{}.{job}", config.paths.cluster);
    for job in [CHIEF, MASTER] {
        let Ok(indices) = config.cluster.task_indices(job) else { continue };
        let is_unlisted = config.dynamic && indices.is_empty();
        if indices != [0] && !is_unlisted && !problems.has(&path(job)) {
            problems.add(path(job), ConfigProblem::Chief { job, indices: listed(indices.iter()) });
        }
    }
    if config.cluster.num_tasks(CHIEF).is_ok() && config.cluster.num_tasks(MASTER).is_ok() {
        problems.add(path(MASTER), ConfigProblem::ChiefAndMaster);
    }
}

/// Checks that there is at most one evaluator, and none with a legacy `master`.
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

/// Checks that the task is in the cluster, unless its role permits that it is not listed.
fn check_task(config: &TaskConfig, problems: &mut Problems) {
    let Paths { cluster, task_type, task_index } = config.paths;
    // A client of a cluster, as TensorFlow's `ClusterConfig` has it: no task, and chief.
    let is_client = config.task_type.is_none() && config.task_index.is_none();
    if is_client && config.paths == Paths::default() && !config.dynamic {
        return;
    }
    for (path, missing) in
        [(task_type, config.task_type.is_none()), (task_index, config.task_index.is_none())]
    {
        if missing && !problems.has(path) && !problems.has("task") {
            problems.add(path, ConfigProblem::Missing);
        }
    }
    let Some(job) = config.task_type.as_deref() else { return };
    let may_be_unlisted =
        config.dynamic && job == CHIEF && config.task_index.is_none_or(|index| index == 0);
    if let Err(error) = config.cluster.num_tasks(job) {
        if job != EVALUATOR && !may_be_unlisted {
            problems.add(task_type, error);
        }
    } else if let Some(task) = config.own_task()
        && let Err(error) = config.cluster.task_address(&task)
        && !may_be_unlisted
        && !problems.has(&format!("{cluster}.{job}"))
    {
        problems.add(task_index, error);
    }
}
