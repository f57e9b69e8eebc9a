//! The jobs of a cluster, their tasks, and the tasks' addresses.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::config_error::Problems;
use super::json::parse_json;
use super::validator::Validator;
use super::{ClusterError, ConfigErrors, ConfigProblem, TaskName};

/// Jobs by name, each with its tasks' addresses by index.
pub(super) type Jobs = BTreeMap<Arc<str>, BTreeMap<u32, Arc<str>>>;

/// The tasks of a cluster and their addresses. Valid by construction, immutable, cheap to clone.
///
/// Two are equal if they have the same jobs, tasks and addresses, in whichever form these were
/// given. TensorFlow: `tf.train.ClusterSpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSpec {
    jobs: Arc<Jobs>,
    simulated: bool,
    /// By job: the number of tasks of a replica, where it is not 1.
    replicas: Arc<BTreeMap<String, u32>>,
}

impl ClusterSpec {
    /// A cluster of jobs with lists of addresses; the task indices are the positions in the lists.
    ///
    /// # Errors
    /// Every malformed job name, and every malformed or repeated address.
    pub fn dense<J, A>(jobs: impl IntoIterator<Item = (J, A)>) -> Result<Self, ConfigErrors>
    where
        J: AsRef<str>,
        A: IntoIterator<Item: AsRef<str>>,
    {
        Self::build(|validator| {
            for (job, addresses) in jobs {
                validator.job(format!("cluster.{}", job.as_ref()), job.as_ref());
                for (index, address) in (0..).zip(addresses) {
                    let path = format!("cluster.{}[{index}]", job.as_ref());
                    validator.task(path, job.as_ref(), index, address.as_ref());
                }
            }
        })
    }

    /// A cluster of jobs with given task indices, which may have holes.
    ///
    /// # Errors
    /// As [`Self::dense`], and every repeated index.
    pub fn sparse<J, A, T>(jobs: impl IntoIterator<Item = (J, T)>) -> Result<Self, ConfigErrors>
    where
        J: AsRef<str>,
        A: AsRef<str>,
        T: IntoIterator<Item = (u32, A)>,
    {
        Self::build(|validator| {
            for (job, tasks) in jobs {
                validator.job(format!("cluster.{}", job.as_ref()), job.as_ref());
                for (index, address) in tasks {
                    let path = format!("cluster.{}.{index}", job.as_ref());
                    validator.task(path, job.as_ref(), index, address.as_ref());
                }
            }
        })
    }

    /// Reads JSON: for each job, a list of addresses or a map from task index to address.
    ///
    /// # Errors
    /// [`ConfigProblem::Json`], or every mistake in it.
    pub fn from_json(text: &str) -> Result<Self, ConfigErrors> {
        Self::build(|validator| match parse_json(text) {
            Ok(value) => validator.cluster("cluster", &value, None),
            Err(error) => validator.problems.add("cluster", ConfigProblem::Json(error.to_string())),
        })
    }

    /// Reads a scenario's table `[cluster]`: as [`Self::from_json`], or for each job a number of
    /// tasks.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn from_toml(table: &toml::Table) -> Result<Self, ConfigErrors> {
        let has_addresses = table.values().any(|job| !job.is_integer());
        if !has_addresses && !table.is_empty() {
            return Self::counted(
                table.iter().filter_map(|(job, count)| Some((job, count.as_integer()?))),
            );
        }
        Self::build(|validator| {
            for (job, tasks) in table {
                let path = format!("cluster.{job}");
                if tasks.is_integer() {
                    validator.problems.add(path, ConfigProblem::MixedCounts);
                } else {
                    validator.tasks(&path, job, &to_json(tasks), None);
                }
            }
        })
    }

    /// A simulated cluster of jobs with numbers of tasks. Its addresses are the tasks' names, such
    /// as `worker:3`; nothing listens there.
    ///
    /// # Errors
    /// Every malformed job name and too large number.
    pub fn simulated<J: AsRef<str>>(
        jobs: impl IntoIterator<Item = (J, u32)>,
    ) -> Result<Self, ConfigErrors> {
        Self::counted(jobs.into_iter().map(|(job, count)| (job, i64::from(count))))
    }

    fn counted<J: AsRef<str>>(
        jobs: impl IntoIterator<Item = (J, i64)>,
    ) -> Result<Self, ConfigErrors> {
        let spec = Self::build(|validator| {
            for (job, count) in jobs {
                validator.simulated_job(format!("cluster.{}", job.as_ref()), job.as_ref(), count);
            }
        })?;
        Ok(Self { simulated: true, ..spec })
    }

    fn build(read: impl FnOnce(&mut Validator<'_>)) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let mut validator = Validator::new(&mut problems);
        read(&mut validator);
        let spec = validator.finish();
        problems.finish().map(|()| spec)
    }

    pub(super) fn from_jobs(jobs: Jobs) -> Self {
        Self { jobs: Arc::new(jobs), ..Self::default() }
    }

    /// The same cluster, where the replicas of a training have so many consecutive tasks of their
    /// job, by job. The first of them trains, and the others are helpers.
    #[must_use]
    pub fn with_replicas(self, tasks: BTreeMap<String, u32>) -> Self {
        Self { replicas: Arc::new(tasks), ..self }
    }

    /// The same cluster, with the replicas of `other`.
    #[must_use]
    pub(crate) fn with_replicas_of(self, other: &Self) -> Self {
        Self { replicas: Arc::clone(&other.replicas), ..self }
    }

    /// The number of tasks of a replica of `job`.
    pub(super) fn tasks_of_replica(&self, job: &str) -> u32 {
        self.replicas.get(job).map_or(1, |tasks| (*tasks).max(1))
    }

    /// The cluster without `job`.
    pub(super) fn without(&self, job: &str) -> Self {
        let mut spec = self.clone();
        if self.jobs.contains_key(job) {
            Arc::make_mut(&mut spec.jobs).remove(job);
        }
        spec
    }

    /// The names of the jobs, in order.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(|job| &**job)
    }

    /// Whether it has no job; a job without tasks is one.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether the cluster is simulated, so that nothing listens on its addresses.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// The number of tasks of `job`.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchJob`].
    pub fn num_tasks(&self, job: &str) -> Result<usize, ClusterError> {
        Ok(self.tasks_of(job)?.len())
    }

    /// The indices of the tasks of `job`, in order.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchJob`].
    pub fn task_indices(&self, job: &str) -> Result<Vec<u32>, ClusterError> {
        Ok(self.tasks_of(job)?.keys().copied().collect())
    }

    /// The address of `task`, `host:port`.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchJob`], [`ClusterError::NoSuchTask`].
    pub fn task_address(&self, task: &TaskName) -> Result<&str, ClusterError> {
        let tasks = self.tasks_of(task.job())?;
        let address = tasks.get(&task.index()).ok_or_else(|| ClusterError::NoSuchTask {
            job: task.job().to_owned(),
            index: task.index(),
            indices: listed(tasks.keys()),
        })?;
        Ok(address)
    }

    /// The JSON that [`Self::from_json`] reads: a list for a job without holes, else a map.
    pub fn as_dict(&self) -> Value {
        let job = |(job, tasks): (&Arc<str>, &BTreeMap<u32, Arc<str>>)| {
            let written = if is_dense(tasks) {
                tasks.values().map(|address| &**address).collect()
            } else {
                tasks.iter().map(|(index, address)| (index.to_string(), &**address)).collect()
            };
            (job.to_string(), written)
        };
        Value::Object(self.jobs.iter().map(job).collect())
    }

    /// Every task: the jobs by name, and the tasks of each by index.
    pub fn tasks(&self) -> impl Iterator<Item = TaskName> {
        self.tasks_of_jobs(|_| true)
    }

    /// The tasks of the jobs for which `is_meant` is true, in the order of [`Self::tasks`].
    pub(super) fn tasks_of_jobs(
        &self,
        is_meant: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = TaskName> {
        self.jobs.iter().filter(move |(job, _)| is_meant(job)).flat_map(|(job, tasks)| {
            tasks.keys().map(move |index| TaskName::new(Arc::clone(job), *index))
        })
    }

    /// The indices of the tasks of `job`, in order; none of them is made into a name.
    pub(super) fn indices(&self, job: &str) -> impl Iterator<Item = u32> {
        self.jobs.get(job).into_iter().flat_map(|tasks| tasks.keys().copied())
    }

    /// The number of tasks of `job`, if their indices are 0, 1, 2 and so on without a hole.
    pub(super) fn dense_tasks(&self, job: &str) -> Option<u32> {
        let tasks = self.jobs.get(job)?;
        let end = tasks.last_key_value().map_or(0, |(last, _)| last + 1);
        (tasks.len() as u32 == end).then_some(end)
    }

    /// Whether the cluster has `task`.
    pub fn contains(&self, task: &TaskName) -> bool {
        self.jobs.get(task.job()).is_some_and(|tasks| tasks.contains_key(&task.index()))
    }

    fn tasks_of(&self, job: &str) -> Result<&BTreeMap<u32, Arc<str>>, ClusterError> {
        self.jobs.get(job).ok_or_else(|| ClusterError::NoSuchJob {
            job: job.to_owned(),
            jobs: listed(self.jobs.keys()),
        })
    }
}

/// TensorFlow's format: `ClusterSpec({'ps': ['ps0:2222'], 'worker': {3: 'worker3:2222'}})`.
impl fmt::Display for ClusterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = |(job, tasks): (&Arc<str>, &BTreeMap<u32, Arc<str>>)| {
            if is_dense(tasks) {
                let addresses: Vec<_> =
                    tasks.values().map(|address| format!("'{address}'")).collect();
                format!("'{job}': [{}]", addresses.join(", "))
            } else {
                let tasks: Vec<_> =
                    tasks.iter().map(|(index, address)| format!("{index}: '{address}'")).collect();
                format!("'{job}': {{{}}}", tasks.join(", "))
            }
        };
        write!(f, "ClusterSpec({{{}}})", self.jobs.iter().map(job).collect::<Vec<_>>().join(", "))
    }
}

fn is_dense(tasks: &BTreeMap<u32, Arc<str>>) -> bool {
    tasks.keys().copied().eq(0..tasks.len() as u32)
}

/// Lists the first few of `items`, for a message.
pub(super) fn listed<T: fmt::Display>(items: impl ExactSizeIterator<Item = T>) -> String {
    const SHOWN: usize = 16;
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.take(SHOWN).map(|item| item.to_string()).collect::<Vec<_>>().join(", ");
    match (shown.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown,
        (false, more) => format!("{shown} and {more} more"),
    }
}

/// Converts a TOML value to JSON. A date becomes a text, which the validator refuses.
fn to_json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(list) => list.iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            table.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()
        }
    }
}
