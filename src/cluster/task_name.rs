//! The name of a task: its job and its index in it, written `worker:3`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::job_name::{JobNameError, check_job_name, parse_index};

/// One task of a cluster. Cheap to clone; ordered by job, then index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TaskName {
    job: Arc<str>,
    index: u32,
}

impl TaskName {
    /// Task `index` of `job`. The name is not checked; parse a name that comes from outside.
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

    /// The job's name, shared.
    pub(super) fn shared_job(&self) -> Arc<str> {
        Arc::clone(&self.job)
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job, self.index)
    }
}

impl From<TaskName> for String {
    fn from(name: TaskName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for TaskName {
    type Error = TaskNameError;

    fn try_from(text: String) -> Result<Self, TaskNameError> {
        text.parse()
    }
}

/// The error of a text that is not a task name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskNameError {
    /// There is no colon between a job and an index.
    #[error("`{0}` is not a task name; write the job and the index in it, such as `worker:3`")]
    NoIndex(String),
    /// The text after the colon is not a `u32`.
    #[error(
        "`{index}` in `{text}` is not a task index; write a whole number from 0, such as `worker:3`"
    )]
    Index {
        /// The whole text.
        text: String,
        /// The text after the colon.
        index: String,
    },
    /// The text before the colon is not a job name.
    #[error(transparent)]
    Job(#[from] JobNameError),
}

impl FromStr for TaskName {
    type Err = TaskNameError;

    fn from_str(text: &str) -> Result<Self, TaskNameError> {
        let (job, index) =
            text.split_once(':').ok_or_else(|| TaskNameError::NoIndex(text.to_owned()))?;
        check_job_name(job)?;
        let wrong_index =
            || TaskNameError::Index { text: text.to_owned(), index: index.to_owned() };
        Ok(Self::new(job, parse_index(index).ok_or_else(wrong_index)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_mistake_in_a_task_name_has_its_own_error() {
        let error = |text: &str| text.parse::<TaskName>().unwrap_err();
        assert_eq!(error("worker"), TaskNameError::NoIndex("worker".into()));
        assert_eq!(error("my-job:0"), JobNameError::Hyphen("my-job".into()).into());
        for text in
            ["worker:", "worker:-1", "worker:+1", "worker:4294967296", "worker:1:2", "worker: 1"]
        {
            assert!(matches!(error(text), TaskNameError::Index { .. }), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_task_name_parses_back(job in "[A-Za-z][A-Za-z0-9_]{0,8}", index: u32) {
            let name = TaskName::new(job, index);
            prop_assert_eq!(name.to_string().parse::<TaskName>().unwrap(), name);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*") {
            if let Ok(name) = text.parse::<TaskName>() {
                prop_assert_eq!(name.to_string().parse::<TaskName>().unwrap(), name);
            }
        }
    }
}
