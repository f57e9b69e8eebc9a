//! The errors of a cluster's configuration: all mistakes at once, each with its path.

use std::fmt;

use super::{AddressError, ClusterError, JobNameError};

/// All mistakes in a configuration, in the order of reading; printed one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The mistakes; at least one.
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, error) in self.0.iter().enumerate() {
            if line > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ConfigError {
    /// Its place, as the user wrote it: `cluster.worker[2]`, `task.index`, `--ps-hosts[0]`.
    pub path: String,
    /// The mistake.
    pub problem: ConfigProblem,
}

/// An ignored part of a configuration, reported so that its writer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Its place.
    pub path: String,
    /// A note for the user.
    pub note: &'static str,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.note)
    }
}

/// A mistake at one place of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The text is not JSON, or has a key twice.
    #[error("cannot be read as JSON: {0}")]
    Json(String),
    /// A value is of the wrong type.
    #[error("must be {expected}, not {found}")]
    Type {
        /// The type that it must have.
        expected: &'static str,
        /// The type that it has.
        found: String,
    },
    /// A text is empty.
    #[error("must not be empty; leave it out instead")]
    Empty,
    /// Both spellings of a key are given.
    #[error("is given as well as `cluster`; give one of them")]
    TwoClusters,
    /// A job's name is outside the grammar.
    #[error(transparent)]
    JobName(#[from] JobNameError),
    /// A job is given twice.
    #[error("the job is given twice")]
    DuplicateJob,
    /// Some jobs have addresses and others only a number of tasks.
    #[error(
        "is a number of tasks where other jobs have addresses; write one or the other for all jobs"
    )]
    MixedCounts,
    /// A key of a job's map is not a task index.
    #[error(
        "`{0}` is not a task index; write a whole number from 0 to {max}",
        max = super::MAX_TASKS - 1
    )]
    Index(String),
    /// A task is given twice.
    #[error("task {0} of the job is given twice")]
    DuplicateTask(u32),
    /// A job has more tasks than the limit.
    #[error("a job has at most {max} tasks, not {0}", max = super::MAX_TASKS)]
    TooManyTasks(u64),
    /// A text is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Two tasks have one address.
    #[error("`{address}` is already the address of {first}; every task needs its own")]
    DuplicateAddress {
        /// The address.
        address: String,
        /// The path of the task that has it.
        first: String,
    },
    /// There is a cluster, but the task's type or index is missing.
    #[error(
        "is missing; with a cluster, every task needs its type and its index, as in \
         `--task worker:0`"
    )]
    Missing,
    /// The job or task isn't in the cluster.
    #[error(transparent)]
    NotInCluster(#[from] ClusterError),
    /// The chief's job does not have exactly the task of index 0.
    #[error("there must be exactly one `{job}` task, of index 0; its indices are: {indices}")]
    Chief {
        /// `chief` or `master`.
        job: &'static str,
        /// The indices there are.
        indices: String,
    },
    /// Both names of the chief's job are given.
    #[error(
        "if job `master` exists, job `chief` is not supported, since both are chiefs; keep `chief`"
    )]
    ChiefAndMaster,
    /// There is an evaluator beside the legacy `master` job.
    #[error("if job `master` exists, an `evaluator` is not supported; rename `master` to `chief`")]
    EvaluatorWithMaster,
    /// There is more than one evaluator.
    #[error("there can be one `evaluator` at most, not {0}")]
    SeveralEvaluators(usize),
    /// A required variable is not set.
    #[error("is not set; `srun` sets it for each process that it starts")]
    NotSet,
    /// A text is not a list of hosts in SLURM's format.
    #[error("`{0}` is not a list of hosts such as `n[1-3,7],gpu04`")]
    HostList(String),
    /// A text is not a list of numbers in SLURM's format.
    #[error("`{0}` is not a list of tasks per node such as `2(x3),1`")]
    Repeats(String),
    /// Two values contradict each other.
    #[error("{0}")]
    Unfit(String),
    /// A single process has a task type of its own.
    #[error("if no cluster is given, the task type must be `worker`, not `{0}`")]
    LocalType(String),
    /// A single process has an index of its own.
    #[error("if no cluster is given, the task index must be 0, not {0}")]
    LocalIndex(u32),
}

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Problems(Vec<ConfigError>);

impl Problems {
    pub(super) fn add(&mut self, path: impl Into<String>, problem: impl Into<ConfigProblem>) {
        self.0.push(ConfigError { path: path.into(), problem: problem.into() });
    }

    /// Whether a mistake was found at `path`: another mistake may be a consequence of it.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.iter().any(|error| error.path == path)
    }

    /// The mistakes as an error, if there are any.
    pub(super) fn finish(self) -> Result<(), ConfigErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigErrors(self.0)) }
    }
}
