//! The name of a task: its job and its index in it, written `worker:3`.

use std::fmt;
use std::sync::Arc;

/// One task of a cluster. Cheap to clone; ordered by job, then index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    job: Arc<str>,
    index: u32,
}

impl TaskName {
    /// Task `index` of `job`.
    pub fn new(job: impl Into<Arc<str>>, index: u32) -> Self {
        Self { job: job.into(), index }
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The index within the job, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job, self.index)
    }
}
