//! Errors of an experiment that gives no report: a request that can't be run, or a run that failed.

use std::fmt;

use super::calibration::LawsError;
use crate::data::DataError;
use crate::deployment::DeploymentError;
use crate::report::NoSuchRun;
use crate::runtime::{Code, Error};
use crate::scenario::ScenarioError;
use crate::tape::TapeError;
use crate::units::Bytes;

/// The error of an experiment that gives no report.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The scenario can't be read, or has mistakes.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// The cluster, network or device that is asked for can't exist.
    #[error("{0}")]
    Impossible(String),
    /// Two runs would differ in nothing, and count as two seeds.
    #[error(
        "`{values}` is there twice among the values to run; a second run of one seed tells nothing \
         new: remove one of the two (`--repeat 2` shows that both come out alike)"
    )]
    Twice {
        /// The values of the sweeps, and the seed.
        values: String,
    },
    /// The scenario has no such run.
    #[error("the scenario has no run `{name}`; it has {}", quoted(.runs))]
    NoSuchRun {
        /// The name that was asked for.
        name: String,
        /// The names of the runs that it has.
        runs: Vec<String>,
    },
    /// There are several runs, and one has to be picked.
    #[error("the scenario has several runs; pick one with --run: {}", quoted(.runs))]
    SeveralRuns {
        /// Their names.
        runs: Vec<String>,
    },
    /// A run would take more memory than the limit.
    #[error(
        "run `{run}` may take {needs} of memory, over the limit of {limit}: most of it, {of_it}, \
         is for {what}; make that smaller, or raise `memory_limit` (default: this machine's memory)"
    )]
    TooLarge {
        /// The run's name.
        run: String,
        /// The estimate.
        needs: Bytes,
        /// The limit, which is the machine's memory if the scenario has none.
        limit: Bytes,
        /// What needs most of it.
        what: &'static str,
        /// As much as that needs.
        of_it: Bytes,
    },
    /// No laws can be fitted to earlier runs.
    #[error("{0}")]
    Laws(#[from] LawsError),
    /// The data can't be read.
    #[error("program.dataset: {0}")]
    Data(DataError),
    /// The tasks can't be launched, or one of them failed.
    #[error("{0}")]
    Deployment(#[from] DeploymentError),
    /// A tape can't be written, read or replayed.
    #[error("{0}")]
    Tape(#[from] TapeError),
    /// A run failed.
    #[error("run `{run}`: {error}")]
    Run {
        /// The run's name.
        run: String,
        /// The root cause.
        error: Error,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// As it is displayed: a test that ends with the error prints it so.
impl fmt::Debug for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<ExperimentError> for Error {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Run { run, error } => {
                let message = format!("run `{run}`: {}", error.message);
                Self { message, ..error }
            }
            other => Self::new(Code::InvalidArgument, other.to_string()),
        }
    }
}

impl From<NoSuchRun> for Error {
    fn from(error: NoSuchRun) -> Self {
        Self::new(Code::NotFound, error.to_string())
    }
}
