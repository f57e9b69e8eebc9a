//! A session that looks after a training: it initialises or waits, runs hooks, recovers from lost
//! tasks, and closes cleanly.

mod builder;
mod run;

use std::cell::Cell;
use std::time::Duration;

use tracing::trace_span;

use crate::graph::Graph;
use crate::runtime::{Code, Error, Origin, Result, StepDone};
use crate::tensor::Tensor;
use crate::units::Time;

use super::hooks::{HookContext, Hooks, RunOptions, RunValues};
use super::own_values::OwnVariables;
use super::positions::Positions;
use super::record::{Ending, StepStats};
use super::recovery::{Tries, ended_behind, given_up, is_end, is_mendable};
use super::session::{Asked, Session};
use super::session_creator::{Created, SessionCreator};
use super::task::Task;
use super::weights::weights_digest;

pub use builder::Builder;
pub use run::{Feeds, MonitoredRun};

/// The number of runs without a training step after which a program is told so.
const MANY_RUNS: u64 = 200;

/// A session for training (TensorFlow: `MonitoredTrainingSession`).
///
/// The chief gives the variables their first values, or restores them from the newest checkpoint;
/// the other workers wait for that, and are notified at once. If a task is lost, the session waits
/// until it is back and takes the step again. A parameter server that comes back without its
/// variables gets them from the checkpoint, and all others go back to it; `recovery` says when the
/// session gives up.
pub struct MonitoredSession {
    task: Task,
    creator: SessionCreator,
    session: Session,
    hooks: Hooks,
    positions: Positions,
    /// The variables that this worker alone has, if checkpoints hold them.
    own_variables: Option<OwnVariables>,
    /// The training's number at its server; it stays the same when the session is replaced.
    training: u64,
    /// The number of training steps that have begun, failed ones included.
    begun: u64,
    local_step: u64,
    /// The training steps since the session began, or went back to a checkpoint.
    steps_in_session: u64,
    /// The number of runs of the program that were no training step.
    other_runs: u64,
    /// The global step that was seen last.
    global_step: u64,
    /// The step of the checkpoint that the variables were last restored from, if any.
    restored: Option<u64>,
    /// The error after which the training last went back to a checkpoint, if it has.
    went_back_after: Option<Error>,
    stop_requested: Cell<bool>,
    stop_grace_period: Option<Duration>,
    tries: Tries,
}

impl MonitoredSession {
    /// A builder of a session of `graph` for the training of `task`.
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

    /// A step in the making: add feeds, fetches and targets, then await it. A step that runs a
    /// train op counts as a training step and is reported.
    pub fn run(&mut self) -> MonitoredRun<'_> {
        MonitoredRun::new(self)
    }

    /// The session itself, for steps that don't train, such as an evaluation.
    pub fn raw(&self) -> &Session {
        &self.session
    }

    /// Ends this worker's training cleanly: calls the hooks' `end`; the chief also reports the
    /// weights.
    ///
    /// # Errors
    /// If a hook fails, the weights can't be read, or they are lost and there is no checkpoint of
    /// the last step.
    pub async fn close(mut self) -> Result<()> {
        let reached = self.global_step;
        if self.own_variables.is_some() && !self.task.is_chief() {
            self.task.server().tell_last_own_values(&self.task.chief());
        }
        let ended = self.end(reached).await;
        self.task.leave();
        ended
    }

    async fn end(&mut self, reached: u64) -> Result<()> {
        self.settle().await?;
        let unsaved = self.end_hooks_in_time().await?;
        let digest = self.weights_digest().await?;
        if self.global_step < reached {
            return Err(ended_behind(self.went_back_after.take(), reached, self.global_step));
        }
        if self.task.is_chief() {
            self.task.recorder().ending(Ending { weights_digest: digest });
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
                    Err(error) if error.code == Code::DataLoss => {
                        break unsaved = unsaved.or(Some(error));
                    }
                    Err(error) => self.go_on_after(error).await?,
                    Ok(()) => break,
                }
            }
        }
        Ok(unsaved)
    }

    /// The hash of the weights, which the chief reports. None on other workers.
    async fn weights_digest(&mut self) -> Result<Option<u64>> {
        while self.task.is_chief() {
            match weights_digest(&self.session).await {
                Err(error) => self.go_on_after(error).await?,
                Ok(digest) => return Ok(digest),
            }
        }
        Ok(None)
    }

    /// Goes on with a new session.
    ///
    /// # Errors
    /// `error`, if no new session mends it; else as [`MonitoredSession::recover`].
    async fn go_on_after(&mut self, error: Error) -> Result<()> {
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
    /// with the code `DataLoss` if the checkpoints are damaged.
    pub(super) async fn recover(&mut self, root: Error) -> Result<bool> {
        let mut is_back = false;
        loop {
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
                Err(error) if self.can_recover_from(&error) => {
                    tracing::warn!(%error, "the new session is lost too")
                }
                Err(error) if is_end(&error) => return Err(error),
                Err(error) if error.code == Code::DataLoss => {
                    // Whoever starts again finds the same checkpoints.
                    return Err(Error { code: error.code, ..given_up(&root, &error.message) });
                }
                Err(error) => {
                    return Err(given_up(
                        &root,
                        &format!("not back in `network.recovery`: {error}"),
                    ));
                }
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
            own.find(&self.task, &self.session).await?;
        }
        self.tell_of_the_session().await
    }

    /// Begins to train at `global_step`, in the first session.
    async fn begin_at(&mut self, global_step: u64) -> Result<()> {
        self.positions.find(&self.task, &self.session, global_step).await?;
        if let Some(own) = &self.own_variables {
            own.find(&self.task, &self.session).await?;
        }
        self.tell_of_the_session().await
    }

    /// Notifies the hooks of the session that has been created.
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

    /// Takes a step that has been asked for since `started`, again with a new session if a task was
    /// lost. Returns also when the last attempt began; `None` if the training has gone back to a
    /// checkpoint meanwhile: the step's feeds must then be asked for anew.
    async fn take(
        &mut self,
        mut asked: Asked,
        options: RunOptions,
        mut started: Time,
    ) -> Result<Option<(StepDone, Time)>> {
        let (mut repeat, seen) = (asked.repeat(&self.session), self.global_step);
        let mut is_again = false;
        loop {
            if let Some(timeout) = options.timeout {
                self.session.set_timeout(Some(timeout));
            }
            asked.options = RunOptions { timeout: None, ..options };
            let done = self.session.run_step(asked).await;
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
                    self.report_given_up(started, seen);
                    started = self.task.now();
                    repeat.origin = Some(self.next_origin());
                    asked = Asked::again(&self.session, &repeat);
                    asked.origin = repeat.origin;
                    continue;
                }
                Err(error) if self.can_recover_from(&error) => error,
                Err(error) => return Err(error),
            };
            if self.recover(error).await? {
                return Ok(None);
            }
            is_again = true;
            if repeat.is_training_step() {
                tracing::warn!(
                    worker = %self.task.name(), step = self.local_step, global_step = seen,
                    "the gradient of this attempt is left out: the step is taken again"
                );
                self.report_given_up(started, seen);
            }
            started = self.task.now();
            asked = Asked::again(&self.session, &repeat);
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

    /// The origin of the next training step.
    pub(super) fn next_origin(&mut self) -> Origin {
        let number = self.begun;
        self.begun += 1;
        Origin { training: self.training, number, is_again: false }
    }

    /// Reports an attempt, begun at `started`, of a step that was asked for at `global_step` and is
    /// taken again: its gradient counts as dropped, since that of the next attempt counts, from the
    /// values that the variables then have.
    fn report_given_up(&self, started: Time, global_step: u64) {
        self.task.recorder().step(StepStats {
            worker: self.task.name().clone(),
            local_step: self.local_step,
            global_step,
            started,
            ended: self.task.now(),
            computed: None,
            loss: None,
            staleness: 0,
            applied: false,
            is_local: false,
        });
    }

    /// Whether a new session may mend `error`. While variables are being restored, a step can find
    /// them without values, or its gradient can be of a version that is gone.
    fn can_recover_from(&self, error: &Error) -> bool {
        let may_be_reset =
            error.code == Code::FailedPrecondition && self.creator.checkpoints.is_some();
        is_mendable(error)
            || may_be_reset
            || (error.code == Code::FailedPrecondition && self.creator.was_reset())
    }

    /// Hop 10 of a step: shows it to the hooks, and reports it if it is a training step.
    async fn after_run(&mut self, fetched: &[Tensor], run: RunValues<'_>) -> Result<()> {
        let local_step = self.local_step;
        let _span = trace_span!("hooks", local_step, global_step = self.global_step).entered();
        for index in 0..self.hooks.list.len() {
            loop {
                let (context, hooks) = self.context_and_hooks();
                let run = RunValues { results: hooks.own(index, fetched), ..run };
                match hooks.list[index].after_run(&context, &run).await {
                    Err(error) => self.go_on_after(error).await?,
                    Ok(()) => break,
                }
            }
        }
        Ok(())
    }

    /// Counts a run that was no training step, and warns where a program seems to have forgotten
    /// its training operation: nothing would end its loop.
    fn count_other_run(&mut self) {
        self.other_runs += 1;
        let is_idle = self.other_runs == MANY_RUNS && self.local_step == 0;
        if is_idle && self.session.graph().has_training_step() {
            tracing::warn!(
                worker = %self.task.name(),
                "{MANY_RUNS} runs, and none trained: a run trains if it has the training operation \
                 among its targets, `session.run().target(&train_op)`"
            );
        }
    }

    fn count_training_step(&mut self, stats: &mut StepStats) {
        stats.local_step = self.local_step;
        self.local_step += 1;
        self.steps_in_session += 1;
        self.global_step = stats.global_step;
    }
}
