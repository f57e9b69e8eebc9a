//! The error of a request for a job or a task that the cluster does not have.

/// A job or a task that is not in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// There is no such job.
    #[error("No such job in cluster: '{job}'; its jobs are: {jobs}")]
    NoSuchJob {
        /// The name that was asked for.
        job: String,
        /// The cluster's jobs.
        jobs: String,
    },
    /// The job has no such task.
    #[error("No task with index {index} in job '{job}'; its indices are: {indices}")]
    NoSuchTask {
        /// The job.
        job: String,
        /// The index that was asked for.
        index: u32,
        /// The job's indices.
        indices: String,
    },
    /// The address of this task is needed, and the configuration does not say which task it is.
    #[error(
        "the cluster has several tasks, and which of them this is was not given (task type and \
         index)"
    )]
    TaskUnknown,
}
