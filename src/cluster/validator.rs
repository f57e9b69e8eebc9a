//! The validator of clusters, for every form in which they are given.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::address::{Endpoint, parse_address};
use super::config_error::Problems;
use super::job_name::{check_job_name, parse_index};
use super::spec::Jobs;
use super::{ClusterSpec, ConfigProblem, MAX_TASKS, TaskName};

/// Reads a cluster job by job and notes every mistake.
///
/// A task with a mistake is kept, so that later mentions of it are not mistakes as well.
pub(super) struct Validator<'a> {
    pub(super) problems: &'a mut Problems,
    jobs: Jobs,
    /// The path of the first task at each address.
    first_at: BTreeMap<Endpoint, String>,
}

impl<'a> Validator<'a> {
    pub(super) fn new(problems: &'a mut Problems) -> Self {
        Self { problems, jobs: Jobs::new(), first_at: BTreeMap::new() }
    }

    /// The cluster; valid if no problem was noted.
    pub(super) fn finish(self) -> ClusterSpec {
        ClusterSpec::from_jobs(self.jobs)
    }

    /// Reads a map of jobs at `path`. If the job of `alone` lists a single address, that is the
    /// address of `alone`.
    pub(super) fn cluster(&mut self, path: &str, value: &Value, alone: Option<&TaskName>) {
        let Value::Object(jobs) = value else {
            let expected = "a map from job name to the job's tasks";
            return self
                .problems
                .add(path, ConfigProblem::Type { expected, found: described(value) });
        };
        for (job, tasks) in jobs {
            self.tasks(&format!("{path}.{job}"), job, tasks, alone);
        }
    }

    /// Reads a job and its tasks: a list of addresses or a map from index to address.
    pub(super) fn tasks(&mut self, path: &str, job: &str, value: &Value, alone: Option<&TaskName>) {
        self.job(path.to_owned(), job);
        match value {
            Value::Array(list) => {
                let own = alone.filter(|alone| alone.job() == job && list.len() == 1);
                for (position, address) in (0..).zip(list) {
                    let index = own.map_or(position, TaskName::index);
                    self.written_task(format!("{path}[{position}]"), job, index, address);
                }
            }
            Value::Object(map) => {
                for (key, address) in map {
                    let path = format!("{path}.{key}");
                    match parse_index(key) {
                        Some(index) => self.written_task(path, job, index, address),
                        None => self.problems.add(path, ConfigProblem::Index(key.clone())),
                    }
                }
            }
            other => {
                let expected = "a list of addresses or a map from task index to address";
                self.problems.add(path, ConfigProblem::Type { expected, found: described(other) });
            }
        }
    }

    fn written_task(&mut self, path: String, job: &str, index: u32, address: &Value) {
        match address {
            Value::String(address) => self.task(path, job, index, address),
            other => {
                let found = described(other);
                self.problems.add(
                    &path,
                    ConfigProblem::Type { expected: "an address, \"host:port\"", found },
                );
                self.insert(path, job, index, "".into());
            }
        }
    }

    /// Begins a job, whose tasks follow.
    pub(super) fn job(&mut self, path: String, job: &str) {
        if self.jobs.insert(job.into(), BTreeMap::new()).is_some() {
            self.problems.add(&path, ConfigProblem::DuplicateJob);
        }
        if let Err(error) = check_job_name(job) {
            self.problems.add(path, error);
        }
    }

    /// Adds a task to a job that has begun.
    pub(super) fn task(&mut self, path: String, job: &str, index: u32, address: &str) {
        if index >= MAX_TASKS {
            return self.problems.add(path, ConfigProblem::Index(index.to_string()));
        }
        match parse_address(address) {
            Err(error) => self.problems.add(&path, error),
            Ok(endpoint) => match self.first_at.get(&endpoint) {
                Some(first) => {
                    let first = first.clone();
                    self.problems.add(
                        &path,
                        ConfigProblem::DuplicateAddress { address: address.to_owned(), first },
                    );
                }
                None => {
                    self.first_at.insert(endpoint, path.clone());
                }
            },
        }
        self.insert(path, job, index, address.into());
    }

    /// Adds a job with simulated tasks.
    pub(super) fn simulated_job(&mut self, path: String, job: &str, count: i64) {
        self.job(path.clone(), job);
        match u32::try_from(count) {
            Ok(count) if count <= MAX_TASKS => {
                for index in 0..count {
                    self.insert(path.clone(), job, index, format!("{job}:{index}").into());
                }
            }
            Ok(count) => self.problems.add(path, ConfigProblem::TooManyTasks(count.into())),
            Err(_) => {
                let expected = "a number of tasks from 0";
                self.problems.add(path, ConfigProblem::Type { expected, found: count.to_string() });
            }
        }
    }

    fn insert(&mut self, path: String, job: &str, index: u32, address: Arc<str>) {
        let tasks = self.jobs.get_mut(job).expect("a job begins before its tasks");
        if tasks.insert(index, address).is_some() {
            self.problems.add(path, ConfigProblem::DuplicateTask(index));
        }
    }
}

/// Describes `value`, for a message.
pub(super) fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}
