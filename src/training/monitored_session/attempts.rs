//! The attempts at a step: after the loss of a task it is taken again, in a new session.
//!
//! When to try again, and with what error to give up, is up to [`super::super::recovery`].

use std::future::Future;
use std::pin::Pin;

use crate::runtime::{Code, Error, Origin, Result, StepDone};
use crate::units::Time;

use super::super::own_values::OwnVariables;
use super::super::record::{Fact, StepStats};
use super::super::recovery::{given_up, is_end, is_mendable, without_session};
use super::super::run_options::RunOptions;
use super::super::session::RequestedStep;
use super::super::session_creator::Created;
use super::MonitoredSession;

/// What precedes the error of a new session that was waited for in vain.
const NOT_BACK: &str = "not back in `network.recovery`: ";

impl MonitoredSession {
    /// Takes a step that has been asked for since `started`, again with a new session if a task was
    /// lost. Returns also when the last attempt began; `None` if the training has gone back to a
    /// checkpoint meanwhile: the step's feeds must then be asked for anew.
    pub(super) async fn take(
        &mut self,
        mut step: RequestedStep,
        options: RunOptions,
        mut started: Time,
    ) -> Result<Option<(StepDone, Time)>> {
        let (mut repeat, seen) = (step.repeat(&self.session), self.global_step);
        let mut is_again = false;
        loop {
            if let Some(timeout) = options.timeout {
                self.session.set_timeout(Some(timeout));
            }
            step.options = RunOptions { timeout: None, ..options };
            let done = self.session.run_step(step).await;
            if options.timeout.is_some() {
                self.creator.renew_timeout(&self.session);
            }
            let error = match done {
                Ok(done) => {
                    self.tries.renew();
                    let is_kept = !is_again || self.set_mirrors().await?;
                    return Ok(is_kept.then_some((done, started)));
                }
                Err(error) if error.code == Code::Late => {
                    let is_over = self.task.has_come_to_the_end();
                    if is_over {
                        self.learn_of_the_end().await;
                    }
                    // None of the earlier ones has counted: that would not have been stopped.
                    self.report_given_up();
                    let stopped = self.given_up(started, seen.max(self.global_step), true);
                    self.task.record(Fact::Step(stopped));
                    if is_over {
                        return Err(self.ended_meanwhile());
                    }
                    started = self.task.now();
                    repeat.origin = Some(self.next_origin());
                    step = RequestedStep::again(&self.session, &repeat);
                    step.origin = repeat.origin;
                    continue;
                }
                Err(error) if self.can_recover_from(&error) => error,
                Err(error) => return Err(error),
            };
            if self.task.has_executor() {
                // Another executor takes the step, and this session is replaced meanwhile.
                self.given_up
                    .extend(repeat.is_training_step().then(|| self.given_up(started, seen, false)));
                return Err(error);
            }
            if self.recover(error).await? {
                return Ok(None);
            }
            is_again = true;
            if repeat.is_training_step() {
                tracing::warn!(
                    worker = %self.task.name(), step = self.local_step, global_step = seen,
                    "the gradient of this attempt may be left out: the step is taken again"
                );
                self.given_up.push(self.given_up(started, seen, false));
            }
            started = self.task.now();
            step = RequestedStep::again(&self.session, &repeat);
        }
    }

    /// Sets each mirror to its primary, after a step that was taken again: whoever had part of it
    /// before has left that part out, though its mirror had been set back since. Returns whether
    /// the step still counts: the training has not gone back to a checkpoint.
    async fn set_mirrors(&mut self) -> Result<bool> {
        match self.creator.scaffold.set_mirrors(&self.session).await {
            Ok(()) => Ok(true),
            // A new session sets them, too.
            Err(error) if self.can_recover_from(&error) => Ok(!self.recover(error).await?),
            Err(error) => Err(error),
        }
    }

    /// Looks how far the training has come, since no step of this worker will tell: nobody else
    /// may know, if the chief has come back after the last one.
    async fn learn_of_the_end(&mut self) {
        if self.task.is_asked_to_stop() {
            return; // who has the step may be gone
        }
        match self.creator.scaffold.global_step(&self.session).await {
            Ok(step) => self.global_step = self.global_step.max(step),
            Err(error) => tracing::debug!(%error, "the last global step is not known"),
        }
    }

    /// The origin of the next training step.
    pub(super) fn next_origin(&mut self) -> Origin {
        let number = self.begun;
        self.begun += 1;
        Origin { owner: None, training: self.training, number, is_again: false }
    }

    /// An attempt, begun at `started`, at a step that was asked for at `global_step` and is taken
    /// again. If it `is_stopped`, there is no gradient.
    fn given_up(&self, started: Time, global_step: u64, is_stopped: bool) -> StepStats {
        StepStats {
            worker: self.task.taker().clone(),
            local_step: self.local_step,
            global_step,
            started,
            ended: self.task.now(),
            computed: None,
            loss: None,
            staleness: 0,
            applied: false,
            is_stopped,
            is_local: false,
        }
    }

    /// Reports the attempts that were given up, whose gradients count as dropped.
    pub(super) fn report_given_up(&mut self) {
        self.given_up.drain(..).for_each(|attempt| self.task.record(Fact::Step(attempt)));
    }

    /// Reports all attempts at a step, of which the `last` has been answered. If the gradient that
    /// counts is of an `earlier` one, that is the first which was given up; its loss is not known.
    pub(super) fn report(&mut self, mut last: StepStats, earlier: bool) {
        let first = self.given_up.first_mut();
        if let Some(first) = first.filter(|_| earlier && last.applied && !last.is_local) {
            let StepStats { started, ended, .. } = *first;
            *first = StepStats { started, ended, computed: None, loss: None, ..last.clone() };
            (last.applied, last.staleness) = (false, 0);
        }
        self.report_given_up();
        self.task.record(Fact::Step(last));
    }

    /// Whether a new session may mend `error`. While variables are being restored, a step can find
    /// them without values, or its gradient can be of a version that is gone.
    pub(in crate::training) fn can_recover_from(&self, error: &Error) -> bool {
        let may_be_reset = self.creator.checkpoints.is_some() || self.creator.was_reset();
        is_mendable(error) || error.code == Code::FailedPrecondition && may_be_reset
    }

    /// Goes on with a new session.
    ///
    /// # Errors
    /// `error`, if no new session mends it; else as [`MonitoredSession::recover`].
    pub(super) async fn go_on_after(&mut self, error: Error) -> Result<()> {
        if !self.can_recover_from(&error) {
            return Err(error);
        }
        self.recover(error).await.map(drop)
    }

    /// Replaces a session that has lost a task. Returns whether the training has gone back to a
    /// checkpoint.
    ///
    /// # Errors
    /// `root`, if the task does not come back, or comes back without values that no checkpoint has;
    /// with the code of what a new session ended with, if starting again would end the same way;
    /// the chief's, if it could not save the training for the first time.
    pub(in crate::training) fn recover(
        &mut self,
        root: Error,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + '_>> {
        // In a box, or the future of every step would have room for a recovery.
        Box::pin(self.recover_in_place(root))
    }

    async fn recover_in_place(&mut self, root: Error) -> Result<bool> {
        let mut is_back = false;
        loop {
            self.task.require_saved()?;
            let Some(pause) = self.tries.pause() else {
                return Err(given_up(&root, "it has been tried again, in vain"));
            };
            tracing::warn!(%root, ?pause, "going on with a new session");
            self.task.sleep(pause).await;
            let gone_on = match self.creator.create_again(self.global_step, &root).await {
                Ok(created)
                    if created.restored.is_none() && root.code == Code::FailedPrecondition =>
                {
                    return Err(root);
                }
                Ok(created) => {
                    if created.restored.is_some() {
                        is_back = true;
                        self.went_back_after = Some(root.clone());
                    }
                    self.go_on_with(created).await
                }
                Err(error) => Err(error),
            };
            match gone_on {
                Ok(()) => return Ok(is_back),
                // It ends the training, and its next life finds all others begun again.
                Err(error) if self.task.server().stopping().is_some() => return Err(error),
                Err(error) if self.can_recover_from(&error) => {
                    tracing::warn!(%error, "the new session is lost too")
                }
                Err(error) if is_end(&error) => return Err(error),
                Err(error) => return Err(without_session(&root, NOT_BACK, error)),
            }
        }
    }

    async fn go_on_with(&mut self, created: Created) -> Result<()> {
        let Created { session, global_step, restored } = created;
        (self.session, self.restored) = (session, restored);
        if let Some(step) = restored {
            self.global_step = step;
            self.steps_in_session = 0;
            self.task.seek_batches(step);
            // If this session is lost, too, the next one still has to find them.
            self.positions.go_back();
            self.own_variables.iter().for_each(OwnVariables::go_back);
        }
        self.global_step = self.global_step.max(global_step);
        if !self.positions.are_found() {
            self.positions.find(&self.task, &self.session, self.global_step).await?;
        }
        if let Some(own) = &self.own_variables
            && !own.are_found()
        {
            own.find(&self.task, &self.session, self.global_step).await?;
        }
        self.tell_of_the_session().await
    }
}
