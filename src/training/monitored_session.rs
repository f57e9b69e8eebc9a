//! A session that looks after a training: initialises or waits, runs hooks, recovers, stops in good
//! order.

mod builder;
mod run;

use std::cell::Cell;

use tracing::trace_span;

use crate::graph::Graph;
use crate::runtime::{Code, Error, Result, StepDone};
use crate::tensor::Tensor;

use super::hooks::{HookContext, Hooks, RunOptions, RunValues};
use super::record::{Ending, StepStats};
use super::recovery::{Patience, given_up, is_mendable};
use super::session::{Asked, Session};
use super::session_creator::{Created, SessionCreator};
use super::task::Task;
use super::weights::weights_digest;

pub use builder::Builder;
pub use run::{Feeds, MonitoredRun};

/// A session for training (TensorFlow: `MonitoredTrainingSession`).
///
/// The chief gives the variables their first values, or restores them from the newest checkpoint;
/// the other workers wait until it has, and are told at once. A task that is lost and comes back is
/// waited for, and the step taken again. A parameter server that comes back without its variables
/// gets them from the checkpoint, and all others go back to it; see `recovery` for when all that is
/// given up.
pub struct MonitoredSession {
    task: Task,
    creator: SessionCreator,
    session: Session,
    hooks: Hooks,
    /// The number of the training at its server, whatever session it is in by now.
    training: u64,
    /// How many training steps have begun, those that failed among them.
    begun: u64,
    local_step: u64,
    /// The last that was seen.
    global_step: u64,
    /// The step of the checkpoint that the variables were last restored from.
    restored: Option<u64>,
    stop_requested: Cell<bool>,
    patience: Patience,
}

impl MonitoredSession {
    /// A session of `graph` for the training of `task`.
    pub fn builder(task: &Task, graph: Graph) -> Builder {
        Builder::new(task, graph)
    }

    /// Whether the training is over for this worker: a hook stopped it, or the chief ended it for
    /// all.
    pub fn should_stop(&self) -> bool {
        self.stop_requested.get() || self.task.is_training_over()
    }

    /// Stops the session after the step that is under way.
    pub fn request_stop(&mut self) {
        self.stop_requested.set(true);
    }

    /// The last global step that was seen.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// A step, to be told what to feed, fetch and run, and then awaited. One that runs a train op
    /// counts as a training step: it is reported.
    pub fn run(&mut self) -> MonitoredRun<'_> {
        MonitoredRun::new(self)
    }

    /// The session itself, for steps that are no training: evaluation, say.
    pub fn raw(&self) -> &Session {
        &self.session
    }

    /// Ends this worker's training in good order: the hooks have their end, the chief reports the
    /// weights.
    ///
    /// # Errors
    /// If a hook fails, the weights can't be read, or they are lost and no checkpoint of the last
    /// step is there.
    pub async fn close(mut self) -> Result<()> {
        let reached = self.global_step;
        let ended = self.end(reached).await;
        self.task.leave();
        ended
    }

    async fn end(&mut self, reached: u64) -> Result<()> {
        self.settle().await?;
        self.end_hooks().await?;
        let digest = self.weights_digest().await?;
        if self.global_step < reached {
            let message = format!(
                "the training had reached step {reached} when its variables were lost; it has gone \
                 back to the checkpoint of step {}, and the other workers may have left; begin it \
                 again, to go on from there",
                self.global_step
            );
            return Err(Error::new(Code::Unavailable, message));
        }
        if self.task.is_chief() {
            self.task.recorder().ending(Ending { weights_digest: digest });
        }
        Ok(())
    }

    /// Ends the training as `outcome` says: the end of the input is an end in good order; any other
    /// error is returned, and the hooks don't have their end.
    ///
    /// # Errors
    /// That error, or as [`MonitoredSession::close`].
    pub async fn close_after(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if error.code != Code::OutOfRange => Err(error),
            _ => self.close().await,
        }
    }

    /// Has a chief that trains a copy of its own give up what no average has of it: what is
    /// evaluated and saved is what the workers share.
    async fn settle(&mut self) -> Result<()> {
        let settle = self.session.graph().settle();
        let Some(settle) = settle.filter(|_| self.task.is_chief()) else { return Ok(()) };
        loop {
            match self.session.run().target(&settle).await {
                Err(error) if is_mendable(&error) => self.recover(error).await.map(drop)?,
                settled => return settled.map(drop),
            }
        }
    }

    async fn end_hooks(&mut self) -> Result<()> {
        for index in 0..self.hooks.list.len() {
            loop {
                let (context, hooks) = self.context_and_hooks();
                match hooks.list[index].end(&context).await {
                    Err(error) if is_mendable(&error) => self.recover(error).await.map(drop)?,
                    ended => break ended?,
                }
            }
        }
        Ok(())
    }

    /// The hash of the weights that the chief reports; none of other workers.
    async fn weights_digest(&mut self) -> Result<Option<u64>> {
        while self.task.is_chief() {
            match weights_digest(&self.session).await {
                Err(error) if is_mendable(&error) => self.recover(error).await.map(drop)?,
                digest => return digest,
            }
        }
        Ok(None)
    }

    /// Puts a new session in the place of one that has lost a task; says whether the training has
    /// gone back to a checkpoint.
    ///
    /// # Errors
    /// `root`, if that task does not come back, or without what no checkpoint has.
    pub(super) async fn recover(&mut self, root: Error) -> Result<bool> {
        let mut is_back = false;
        loop {
            let Some(pause) = self.patience.pause() else {
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
                    is_back |= created.restored.is_some();
                    self.go_on_with(created).await
                }
                Err(error) => Err(error),
            };
            match gone_on {
                Ok(()) => return Ok(is_back),
                Err(error) if is_mendable(&error) => {
                    tracing::warn!(%error, "the new session is lost too")
                }
                Err(error) if error.code == Code::FailedPrecondition => {
                    return Err(Error { code: root.code, ..error });
                }
                Err(error) if error.code == Code::OutOfRange => return Err(error),
                Err(error) => {
                    return Err(given_up(&root, &format!("it is not back in time: {error}")));
                }
            }
        }
    }

    async fn go_on_with(&mut self, created: Created) -> Result<()> {
        let Created { session, global_step, restored } = created;
        (self.session, self.restored) = (session, restored);
        if let Some(step) = restored {
            self.global_step = step;
            self.task.seek_batches(step);
        }
        self.global_step = self.global_step.max(global_step);
        self.tell_of_the_session().await
    }

    /// Tells the hooks of the session that has been created.
    async fn tell_of_the_session(&mut self) -> Result<()> {
        for index in 0..self.hooks.list.len() {
            let (context, hooks) = self.context_and_hooks();
            hooks.list[index].after_create_session(&context).await?;
        }
        Ok(())
    }

    fn context_and_hooks(&mut self) -> (HookContext<'_>, &mut Hooks) {
        let Self { task, session, global_step, restored, stop_requested, hooks, .. } = self;
        let (global_step, restored) = (*global_step, *restored);
        (HookContext { task, session, global_step, restored, stop: stop_requested }, hooks)
    }

    /// Takes a step, again with a new session where a task was lost. Gives nothing where the
    /// training has gone back to a checkpoint meanwhile: what the step was to do is to be asked
    /// anew.
    async fn take(&mut self, mut asked: Asked, options: RunOptions) -> Result<Option<StepDone>> {
        let repeat = asked.repeat(&self.session);
        loop {
            if let Some(timeout) = options.timeout {
                self.session.set_timeout(Some(timeout));
            }
            let done = self.session.run_step(asked).await;
            if options.timeout.is_some() {
                self.creator.renew_timeout(&self.session);
            }
            let error = match done {
                Ok(done) => {
                    self.patience.renew();
                    return Ok(Some(done));
                }
                Err(error) if self.can_recover_from(&error) => error,
                Err(error) => return Err(error),
            };
            if self.recover(error).await? {
                return Ok(None);
            }
            asked = Asked::again(&self.session, &repeat);
        }
    }

    /// Whether a new session may mend it. While variables are being restored, a step can find them
    /// without values, or its gradient to be of a version that is no more.
    fn can_recover_from(&self, error: &Error) -> bool {
        let may_be_reset =
            error.code == Code::FailedPrecondition && self.creator.checkpoints.is_some();
        is_mendable(error)
            || may_be_reset
            || (error.code == Code::FailedPrecondition && self.creator.was_reset())
    }

    /// Hop 10 of a step: shows it to the hooks, and reports it where it is a training step.
    async fn after_run(&mut self, fetched: &[Tensor], run: RunValues<'_>) -> Result<()> {
        let local_step = self.local_step;
        let _span = trace_span!("hooks", local_step, global_step = self.global_step).entered();
        for index in 0..self.hooks.list.len() {
            loop {
                let (context, hooks) = self.context_and_hooks();
                let run = RunValues { results: hooks.own(index, fetched), ..run };
                match hooks.list[index].after_run(&context, &run).await {
                    Err(error) if is_mendable(&error) => self.recover(error).await.map(drop)?,
                    seen => break seen?,
                }
            }
        }
        Ok(())
    }

    fn count_training_step(&mut self, stats: &mut StepStats) {
        stats.local_step = self.local_step;
        self.local_step += 1;
        self.global_step = stats.global_step;
    }
}
