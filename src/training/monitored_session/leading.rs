//! What the chief's session does where other tasks take its steps: it looks after the variables,
//! and shows the steps to its hooks.

use crate::runtime::{Code, Error, Result, StepDone};

use super::super::hooks::{RunArgs, RunValues};
use super::super::record::StepStats;
use super::super::run_metadata::RunMetadata;
use super::super::run_options::RunOptions;
use super::MonitoredSession;

impl MonitoredSession {
    /// Sees whether the variables have their values, and goes on with a new session if not. Returns
    /// whether the training has gone back to a checkpoint.
    ///
    /// # Errors
    /// As [`MonitoredSession::recover`].
    pub(in crate::training) async fn look(&mut self) -> Result<bool> {
        let error = match self.creator.loss(&self.session, self.global_step).await {
            Ok(None) => return Ok(false),
            Ok(Some(what)) => Error::new(Code::Aborted, what),
            Err(error) if self.can_recover_from(&error) => error,
            Err(error) => return Err(error),
        };
        let went_back = self.recover(error).await?;
        self.tries.renew();
        Ok(went_back)
    }

    /// Shows the hooks a `step` that another task has taken, with what they fetch now. Returns
    /// whether the training has gone back to a checkpoint meanwhile.
    ///
    /// # Errors
    /// A hook's; if what hooks fetch depends on what the step was fed.
    pub(in crate::training) async fn show_step(&mut self, step: &StepStats) -> Result<bool> {
        self.global_step = self.global_step.max(step.global_step);
        self.steps_in_session += 1;
        let mut asked = self.session.empty_step();
        let mut options = RunOptions::default();
        let (context, hooks) = self.context_and_hooks();
        let run = RunArgs { step: &mut asked, options: &mut options, is_training_step: true };
        hooks.before_run(&context, run)?;
        asked.options = options;
        let done = match asked.request.fetches.is_empty() {
            true => StepDone::default(),
            false => match self.session.run_step(asked).await {
                Ok(done) => done,
                Err(error) => {
                    self.go_on_after(error).await?;
                    return Ok(self.steps_in_session == 0);
                }
            },
        };
        let (span, computed) = ((step.started, step.ended), step.computed);
        let metadata = &RunMetadata { operations: done.times };
        let run = RunValues { results: &[], step: Some(step), options, span, computed, metadata };
        self.after_run(&done.fetches, run).await?;
        self.tries.renew();
        // A return to a checkpoint counts them anew.
        Ok(self.steps_in_session == 0)
    }
}
