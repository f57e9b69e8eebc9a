//! What a worker waits for as it opens a session: that the chief gives the variables their values,
//! or tells that it can't; and that the tasks are there which help the worker.

use std::future::IntoFuture;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::super::places::unless_misplaced;
use super::super::session::Session;
use super::{Created, SessionCreator};
use crate::runtime::{Code, Error, Result};
use crate::sync::Leaving;

/// How long a task that is there takes to answer, at most.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

impl SessionCreator {
    /// The other workers' part: waits for the chief.
    pub(super) async fn wait(&self, session: Session) -> Result<Created> {
        session.set_timeout(self.task.limit(self.max_wait));
        let initialized = session.run().target(&self.scaffold.all_initialized);
        let initialized = unless_misplaced(initialized.into_future(), &self.task, &self.graph);
        let waited = self.unless_stopped(initialized).await;
        waited.map_err(|error| self.blame_the_chief(error))?;
        if self.task.has_executor() {
            self.meet_helpers(&session).await?;
        }
        session.set_timeout(self.task.limit(self.task.patience().operation));
        let global_step = self.scaffold.global_step(&session).await?;
        self.ready(session, global_step, None).await
    }

    /// The other workers' part after `what` was lost: waits for the chief as long as it is there.
    /// Restoring many values can take longer than a lost task has to come back; and a chief that
    /// was asked to stop may be about to come back.
    pub(super) async fn wait_again(&self, session: &Session, what: &str) -> Result<()> {
        let chief = self.task.chief();
        loop {
            if self.task.server().training().chief_left() == Some(Leaving::Done) {
                let message = format!(
                    "{what}, and the chief, which would give it one, has ended the training"
                );
                return Err(Error::new(Code::OutOfRange, message));
            }
            let initialized = session.run().target(&self.scaffold.all_initialized);
            match self.unless_stopped(initialized.into_future()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code != Code::DeadlineExceeded => return Err(error),
                Err(_) => {}
            }
            if self
                .task
                .within(Some(ANSWERS_WITHIN), self.task.server().places_of(&chief))
                .await
                .is_none()
            {
                let message = format!(
                    "the chief, {chief}, has not given the variables their values again, and does \
                     not answer"
                );
                return Err(Error::new(Code::DeadlineExceeded, message).on(&chief));
            }
            tracing::warn!("the chief, {chief}, has yet to give the variables their values");
        }
    }

    /// Waits for `waited`, which other tasks may keep waiting, until this task is asked to stop, or
    /// the chief has failed.
    ///
    /// # Errors
    /// Its own; if the task is asked to stop before, or the chief has failed, its.
    async fn unless_stopped<T>(&self, waited: impl Future<Output = Result<T>>) -> Result<T> {
        match select(pin!(waited), pin!(self.stopped())).await {
            Either::Left((waited, _)) => waited,
            Either::Right((stopped, _)) => Err(stopped),
        }
    }

    /// Completes once this task is asked to stop, or the chief has failed.
    async fn stopped(&self) -> Error {
        let training = self.task.server().training();
        loop {
            let seen = training.news.count();
            if let Some(error) = training.take_failure() {
                return error;
            }
            if training.is_stop_requested() {
                let message = format!(
                    "{} was asked to stop before the chief, {}, had given the variables their \
                     values; start both again to go on",
                    self.task.name(),
                    self.task.chief()
                );
                return Error::new(Code::Cancelled, message);
            }
            training.news.after(seen).await;
        }
    }

    /// Waits until all tasks that help this worker are there.
    pub(super) async fn meet_helpers(&self, session: &Session) -> Result<()> {
        if self.helpers.is_empty() {
            return Ok(());
        }
        let met = self.helpers.iter().fold(session.run(), |run, helper| run.target(helper));
        met.await.map(drop)
    }

    /// The error of a worker that waited for the first values in vain: it names the chief, and not
    /// the step that waited for them, which was not slow. It is not the chief's fault where this
    /// worker does not reach a task with variables: the error names that, and why.
    fn blame_the_chief(&self, error: Error) -> Error {
        if error.code != Code::DeadlineExceeded {
            return error;
        }
        if let Some((holder, _)) = self.task.server().unreached_holders().first() {
            return error.on(holder);
        }
        let (chief, waited) = (self.task.chief(), self.max_wait);
        let message = format!(
            "the chief, {chief}, has not given the variables their first values in {waited:.0?}: \
             look whether it runs, and at the last lines of its log; once that is mended, start \
             it and this task"
        );
        Error { message, ..error }.on(&chief)
    }
}
