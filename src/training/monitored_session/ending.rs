//! The end of a monitored session: its last changes, its hooks, its weights.

use std::pin::pin;

use futures_util::future::{Either, select};

use crate::runtime::{Code, Error, Result};
use crate::sync::Leaving;

use super::super::record::{Ending, Fact};
use super::super::recovery::{ended_behind, is_end, is_mendable};
use super::super::run_options::RunOptions;
use super::super::weights::Weights;
use super::MonitoredSession;

impl MonitoredSession {
    /// Ends this worker's training cleanly: calls the hooks' `end`; the chief also reports the
    /// weights.
    ///
    /// # Errors
    /// If a hook fails, the weights can't be read, or they are lost and there is no checkpoint of
    /// the last step.
    pub async fn close(mut self) -> Result<()> {
        let reached = self.global_step;
        self.reached = Some(reached);
        self.task.pass_on_the_end();
        if self.own_variables.is_some() && !self.task.is_chief() {
            self.task.server().tell_last_own_values(&self.task.chief());
        }
        let why = self.task.leaving(self.stop_requested.get());
        let ended = self.end(reached).await;
        // What a restart mends has not ended the training.
        let has_failed = ended.as_ref().is_err_and(|error| is_end(error) || is_mendable(error));
        self.task.leave(if has_failed { Leaving::Stopped } else { why });
        ended
    }

    async fn end(&mut self, reached: u64) -> Result<()> {
        self.settle().await?;
        let unsaved = self.end_hooks_in_time().await?;
        self.await_last_updates(reached).await?;
        let weights = self.weights().await?;
        if self.global_step < reached {
            return Err(ended_behind(self.went_back_after.take(), reached, self.global_step));
        }
        if self.task.is_chief() {
            let weights_digest = weights.as_ref().map(Weights::digest);
            if let Some(weights) = weights {
                self.task.keep_weights(|| weights.into_saved());
            }
            self.task.record(Fact::Ended(Ending { weights_digest }));
        }
        unsaved.map_or(Ok(()), Err)
    }

    /// Ends the training with `outcome`. The end of the input is a clean end; any other error is
    /// returned, and the hooks' `end` is not called.
    ///
    /// # Errors
    /// `outcome`'s error; else as [`MonitoredSession::close`].
    pub async fn close_after(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if error.code != Code::OutOfRange => Err(error),
            _ => self.close().await,
        }
    }

    /// Drops the chief's local changes since the last average, if it trains a copy of its own: the
    /// shared variables are what is evaluated and saved.
    async fn settle(&mut self) -> Result<()> {
        let settle = self.session.graph().settle();
        let Some(settle) = settle.filter(|_| self.task.is_chief()) else { return Ok(()) };
        loop {
            match self.session.run().target(&settle).await {
                Err(error) => self.go_on_after(error).await?,
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Ends the hooks as [`MonitoredSession::end_hooks`], within the grace period.
    async fn end_hooks_in_time(&mut self) -> Result<Option<Error>> {
        let (task, limit) = (self.task.clone(), self.stop_grace_period);
        let Some(ended) = task.within(limit, self.end_hooks()).await else {
            let limit = limit.unwrap_or_default();
            let message = format!("the hooks did not end within the grace period of {limit:?}");
            return Err(Error::new(Code::DeadlineExceeded, message).on(task.name()));
        };
        ended
    }

    /// Ends the hooks. Returns the error of one that could not save what it should: that ends
    /// neither the other hooks nor the training's record.
    async fn end_hooks(&mut self) -> Result<Option<Error>> {
        let mut unsaved = None;
        for index in 0..self.hooks.list.len() {
            loop {
                let (context, hooks) = self.context_and_hooks();
                match hooks.list[index].end(&context).await {
                    Err(error) if error.code.is_of_storage() => {
                        break unsaved = unsaved.or(Some(error));
                    }
                    Err(error) => self.go_on_after(error).await?,
                    Ok(()) => break,
                }
            }
        }
        Ok(unsaved)
    }

    /// Waits for the last steps of others, within the grace period or until this task is to stop:
    /// they count, too. It waits for nobody if the training has gone back since the chief `reached`
    /// its last step.
    async fn await_last_updates(&mut self, reached: u64) -> Result<()> {
        let (is_at_its_end, task) =
            (self.task.server().training().is_at_its_end(), self.task.clone());
        while is_at_its_end && !self.last_updates.is_empty() && self.global_step >= reached {
            let options = RunOptions { timeout: self.stop_grace_period, ..RunOptions::default() };
            let run = self.session.run().options(options);
            let run = self.last_updates.iter().fold(run, |run, target| run.target(target));
            let ended = match select(pin!(task.asked_to_stop()), pin!(run.into_future())).await {
                Either::Left(_) => break,
                Either::Right((ended, _)) => ended,
            };
            match ended {
                Ok(_) => break,
                Err(error) if error.code == Code::DeadlineExceeded => {
                    tracing::warn!(
                        %error,
                        "other workers have not ended in time: the weights lack their last updates"
                    );
                    break;
                }
                Err(error) => self.go_on_after(error).await?,
            }
        }
        Ok(())
    }

    /// The weights, which the chief reports. None on other workers.
    async fn weights(&mut self) -> Result<Option<Weights>> {
        while self.task.is_chief() {
            match Weights::read(&self.session).await {
                Err(error) => self.go_on_after(error).await?,
                Ok(weights) => return Ok(weights),
            }
        }
        Ok(None)
    }
}
