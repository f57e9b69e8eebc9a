//! The runs that a command simulates: one that fails does not keep the others from being shown.

use super::failure::Failure;
use crate::deployment::ExitCode;
use crate::experiment::{Trial, simulate_all};
use crate::runtime::Error;

/// The errors of the runs that failed, in the order of the runs.
#[derive(Debug, Default)]
pub(super) struct FailedRuns(Vec<Failure>);

/// Has `simulate` simulate each of `trials`, and gives what comes of it to `done`, in the order of
/// the trials: none for a run that fails.
///
/// # Errors
/// If what failed is not of one run alone.
pub(super) fn simulate_each<T: Send>(
    trials: &[Trial],
    simulate: impl Fn(&Trial) -> Result<T, Failure> + Sync,
    mut done: impl FnMut(&Trial, Option<T>),
) -> Result<FailedRuns, Failure> {
    let mut failed = FailedRuns::default();
    simulate_all(trials, simulate, |trial, result| {
        let result = match result {
            Err(failure) if failure.of_one_run().is_some() => {
                failed.add(failure);
                None
            }
            result => Some(result?),
        };
        done(trial, result);
        Ok::<_, Failure>(())
    })?;
    Ok(failed)
}

impl FailedRuns {
    pub(super) fn add(&mut self, failure: Failure) {
        self.0.push(failure);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name and the error of each.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.0.iter().filter_map(Failure::of_one_run)
    }

    /// Prints each error once, with the names of its runs. Returns the exit code of the first
    /// error; if no run has failed, that of the `others`.
    pub(super) fn tell_or(self, others: impl FnOnce() -> ExitCode) -> ExitCode {
        let codes: Vec<ExitCode> = Failure::together(self.0).iter().map(Failure::report).collect();
        codes.first().copied().unwrap_or_else(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, ExperimentError};
    use crate::runtime::Code;

    fn trials() -> Vec<Trial> {
        let runs = ["a", "b", "c"].map(|name| format!("[[run]]\nname = '{name}'\nmode = 'sync'\n"));
        Experiment::parse(runs.concat()).unwrap().trials().unwrap()
    }

    #[test]
    fn a_run_that_fails_is_none_and_the_others_come_in_their_order() {
        let simulate = |trial: &Trial| match &*trial.name {
            "b" => {
                let error = Error::new(Code::NanLoss, "x");
                Err(ExperimentError::Run { run: trial.name.clone(), error }.into())
            }
            name => Ok(name.to_owned()),
        };
        let mut come = Vec::new();
        let failed = simulate_each(&trials(), simulate, |trial, result| {
            come.push((trial.name.clone(), result));
        })
        .unwrap();
        let expected = [("a", Some("a")), ("b", None), ("c", Some("c"))];
        let owned =
            |(name, result): (&str, Option<&str>)| (name.to_owned(), result.map(str::to_owned));
        assert_eq!(come, expected.map(owned));
        let told: Vec<_> = failed.all().map(|(run, error)| (run, error.code)).collect();
        assert_eq!(told, [("b", Code::NanLoss)]);
        assert_eq!(failed.tell_or(|| ExitCode::Done), ExitCode::Diverged);
        assert_eq!(FailedRuns::default().tell_or(|| ExitCode::Done), ExitCode::Done);
    }

    #[test]
    fn what_is_no_failure_of_one_run_ends_all() {
        let simulate = |_: &Trial| Err::<(), _>(Failure::NotSupported("x".to_owned()));
        let ended = simulate_each(&trials(), simulate, |_, _| {});
        assert!(matches!(ended, Err(Failure::NotSupported(_))));
    }
}
