//! Creates a session whose variables have values for a monitored session: the chief initializes or
//! restores them, the other workers wait for that.

mod waiting;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::graph::{Graph, Target};
use crate::runtime::{Code, Error, Result, SessionOptions};
use crate::sync::Departed;

use super::checkpoints::Checkpoints;
use super::own_values;
use super::places::places;
use super::record::Restore;
use super::recovery::{lost_values, workers_have_left};
use super::restoring::restore;
use super::scaffold::{Finalized, Known};
use super::session::Session;
use super::task::Task;
use crate::checkpoint::Restored;

/// The time between two looks at a condition of the program's own. The runtime's own conditions
/// need no polling.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Makes sessions for one training of a task (TensorFlow: `ChiefSessionCreator`,
/// `WorkerSessionCreator` and the `SessionManager` under them).
pub(super) struct SessionCreator {
    pub(super) task: Task,
    pub(super) graph: Graph,
    pub(super) scaffold: Finalized,
    /// For each task that helps this worker: an operation that it has done as soon as it is there.
    pub(super) helpers: Vec<Target>,
    /// The options of its sessions.
    pub(super) options: SessionOptions,
    /// The training's checkpoints, if it keeps any.
    pub(super) checkpoints: Option<Checkpoints>,
    /// The time limit of a worker's wait for the chief.
    pub(super) max_wait: Duration,
    /// The number of resets of the task's variables when the last session was made.
    pub(super) resets: Cell<u64>,
}

/// A session whose variables have their values.
pub(super) struct Created {
    pub(super) session: Session,
    pub(super) global_step: u64,
    /// The step of the checkpoint, if the variables have just been restored from one, by this
    /// worker or another.
    pub(super) restored: Option<u64>,
}

/// The shared variables without values, and the progress of the training.
struct Found<'a> {
    missing: Vec<&'a Known>,
    /// None if the global step has no value.
    global_step: Option<u64>,
}

impl SessionCreator {
    /// The first session of a training.
    ///
    /// # Errors
    /// If a task fails, a part of a training that has begun is lost, or the chief does not come in
    /// time.
    pub(super) async fn create(&self) -> Result<Created> {
        let session = self.session(self.task.patience().first).await?;
        if !self.task.is_chief() {
            return self.wait(session).await;
        }
        self.task.publish_places(places(&self.graph, self.task.name()));
        self.prepare(session).await
    }

    /// A session to replace one that was lost with the error `root`, in a training that was at
    /// `global_step`.
    ///
    /// # Errors
    /// As [`SessionCreator::create`]; also if values are lost that no checkpoint has.
    pub(super) async fn create_again(&self, global_step: u64, root: &Error) -> Result<Created> {
        let session = self.session(self.task.patience().recovery).await?;
        let found = self.find(&session).await?;
        self.meet_helpers(&session).await?;
        let gone = found.missing.first().map(|variable| {
            let on = variable.task.as_ref().map_or_else(String::new, |task| format!(" on {task}"));
            format!("`{}`{on} has no value any more", variable.name)
        });
        let gone = gone.or_else(|| {
            let now =
                found.global_step.filter(|now| *now < global_step && self.checkpoints.is_none())?;
            Some(format!("the global step went back from {global_step} to {now}"))
        });
        let Some(what) = gone else {
            // A worker that was lost when the training went back may not have heard of it.
            let now = found.global_step.unwrap_or(0);
            let restored = Some(now).filter(|now| *now < global_step);
            return self.with_own_values(session, now, restored).await;
        };
        let is_untrained = global_step.max(found.global_step.unwrap_or(0)) == 0;
        if self.task.is_chief() {
            return match self.latest().await? {
                Some(checkpoint) => self.go_back(global_step, root, &what, checkpoint).await,
                None if is_untrained => self.begin_anew(found).await,
                None => Err(lost_values(root, &what)),
            };
        }
        if self.checkpoints.is_none() && !is_untrained {
            return Err(lost_values(root, &what));
        }
        let chief = self.task.chief();
        tracing::warn!("{what}; waiting until the chief, {chief}, gives the variables theirs");
        self.wait_again(&session, &what).await?;
        let now = self.scaffold.global_step(&session).await?;
        self.with_own_values(session, now, Some(now)).await
    }

    async fn session(&self, timeout: Duration) -> Result<Session> {
        let options = self.options.clone();
        let session = Session::with_options(&self.task.target(), &self.graph, options).await?;
        session.set_timeout(self.task.limit(timeout));
        Ok(session)
    }

    /// The chief's part: continues a training whose variables have values; else restores the newest
    /// checkpoint; else initializes the variables.
    async fn prepare(&self, session: Session) -> Result<Created> {
        let found = self.find(&session).await?;
        let is_whole = found.missing.is_empty() && !self.scaffold.is_half_initialized();
        let live = found.global_step.filter(|_| is_whole);
        let mut newest = match self.latest().await {
            Err(error) if error.code == Code::DataLoss && live.is_some_and(|live| live > 0) => {
                tracing::warn!(%error, "going on from the variables, which have their values");
                None
            }
            latest => latest?,
        };
        if let Some(checkpoint) =
            newest.take_if(|checkpoint| live.is_none_or(|live| live < checkpoint.global_step))
        {
            if found.missing.len() < self.scaffold.shared.len() {
                self.clear().await?;
            }
            return self.restore(checkpoint).await;
        }
        if let Some(live) = live {
            if let Some(checkpoint) = &newest {
                // An earlier life may have restored it, and died before all workers had their own.
                own_values::publish(&self.task, &self.graph, checkpoint);
            }
            return self.ready(session, live, None).await;
        }
        if let (Some(step), Some(missing)) =
            (found.global_step.filter(|step| *step > 0), found.missing.first())
        {
            let message = format!(
                "the training is at global step {step}, but `{}` has no value: its task has come \
                 back without its variables, and no checkpoint to restore",
                missing.name
            );
            let error = Error::new(Code::VariablesLost, message);
            return Err(missing.task.iter().fold(error, Error::on));
        }
        let is_a_part_lost =
            !found.missing.is_empty() && found.missing.len() < self.scaffold.shared.len();
        if is_a_part_lost {
            return self.begin_anew(found).await;
        }
        self.initialize(session, &found.missing).await
    }

    /// Gives all variables their first values, even those that have values: these may have had
    /// gradients of steps that were never counted.
    async fn begin_anew(&self, found: Found<'_>) -> Result<Created> {
        let lost: Vec<&str> =
            found.missing.iter().take(3).map(|variable| variable.name.as_str()).collect();
        tracing::warn!(
            ?lost,
            "variables have lost their values before there was a checkpoint; beginning anew"
        );
        self.clear().await?;
        self.task.recorder().restored(Restore { global_step: 0, at: self.task.now() });
        let all: Vec<&Known> = self.scaffold.shared.iter().collect();
        self.initialize(self.session(self.task.patience().operation).await?, &all).await
    }

    /// Gives `missing` their first values.
    async fn initialize(&self, session: Session, missing: &[&Known]) -> Result<Created> {
        self.scaffold.initialize(&session, missing).await?;
        if self.scaffold.has_own_init_op()
            && let Some(missing) = self.find(&session).await?.missing.first()
        {
            let message = format!(
                "the init operation did not make the model ready: `{}` has no value",
                missing.name
            );
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        let global_step = self.scaffold.global_step(&session).await?;
        self.ready(session, global_step, None).await
    }

    /// Sets all variables to the values of `checkpoint`.
    async fn restore(&self, checkpoint: Restored) -> Result<Created> {
        let step = checkpoint.global_step;
        tracing::warn!(checkpoint = checkpoint.name, global_step = step, "restoring");
        let session = self.session(self.task.patience().recovery).await?;
        own_values::publish(&self.task, &self.graph, &checkpoint);
        // The variables are cleared: the steps so far are undone; none ends before they are set.
        let at = self.task.now();
        session.set_timeout(self.task.limit(self.task.patience().operation));
        restore(&session, &self.scaffold.shared, &checkpoint).await?;
        if self.scaffold.shared.iter().any(|variable| variable.restore.is_none()) {
            let found = self.find(&session).await?;
            self.scaffold.initialize_unsaved(&session, &found.missing).await?;
        }
        self.task.recorder().restored(Restore { global_step: step, at });
        self.ready(session, step, Some(step)).await
    }

    /// Has all tasks drop the variables and the updates under way: the leftovers of a later step
    /// would not fit a checkpoint. Workers that have departed stay departed, even if a task that
    /// has come back never heard of it.
    async fn clear(&self) -> Result<Departed> {
        let (default, named): (BTreeSet<&str>, BTreeSet<&str>) = self
            .scaffold
            .shared
            .iter()
            .map(|variable| variable.container.as_str())
            .partition(|name| name.is_empty());
        let (target, limit) = (self.task.target(), self.task.limit(self.task.patience().recovery));
        let mut departed = Departed::default();
        if !default.is_empty() {
            departed.extend(Session::reset_within_training(&target, &[], limit).await?);
        }
        if !named.is_empty() {
            let named: Vec<&str> = named.into_iter().collect();
            match Session::reset_within_training(&target, &named, limit).await {
                Err(error) if error.code == Code::NotFound => {}
                others => departed.extend(others?),
            }
        }
        self.task.tell_who_has_departed(&departed);
        Ok(departed)
    }

    /// Clears all variables, and sets them to the values of `checkpoint`, in a training that was at
    /// `global_step` when the error `root` came, and `what` was lost.
    ///
    /// # Errors
    /// If a task fails; if workers are done that the steps after the checkpoint need again. Those
    /// that were asked to stop, or are lost, are gone on without until they are back.
    async fn go_back(
        &self,
        global_step: u64,
        root: &Error,
        what: &str,
        checkpoint: Restored,
    ) -> Result<Created> {
        let departed = self.clear().await?;
        let takes_steps_again = checkpoint.global_step < global_step;
        if takes_steps_again && self.task.needs_all_workers() && !departed.done.is_empty() {
            return Err(workers_have_left(root, what, checkpoint.global_step, &departed.done));
        }
        self.restore(checkpoint).await
    }

    /// Waits until the model is ready, also by the program's own condition if there is one; then
    /// initializes the worker's own variables.
    async fn ready(
        &self,
        session: Session,
        global_step: u64,
        restored: Option<u64>,
    ) -> Result<Created> {
        let deadline = self.task.now().after(self.max_wait);
        loop {
            let (for_own, at_all) = (
                self.scaffold.is_ready_for_own(&session).await?,
                self.scaffold.is_ready(&session).await?,
            );
            if for_own && at_all {
                return self.with_own_values(session, global_step, restored).await;
            }
            let what =
                if for_own { "its ready operation" } else { "its ready-for-local-init operation" };
            if self.task.is_chief() {
                let message =
                    format!("the init operations did not make the model ready: {what} says no");
                return Err(Error::new(Code::FailedPrecondition, message));
            }
            if self.task.now() >= deadline {
                let waited = self.max_wait;
                let message =
                    format!("the model was not ready after waiting {waited:?}: {what} says no");
                return Err(Error::new(Code::DeadlineExceeded, message).on(&self.task.chief()));
            }
            self.task.sleep(LOOK_AGAIN).await;
        }
    }

    /// Sets the limit of a session's operations back to the usual one.
    pub(super) fn renew_timeout(&self, session: &Session) {
        let own = self.options.operation_timeout;
        session.set_timeout(own.or_else(|| self.task.limit(self.task.patience().operation)));
    }

    /// Completes a session whose shared variables have their values: the worker's own variables and
    /// its mirrors get theirs.
    async fn with_own_values(
        &self,
        session: Session,
        global_step: u64,
        restored: Option<u64>,
    ) -> Result<Created> {
        self.scaffold.initialize_own(&session).await?;
        self.scaffold.set_mirrors(&session).await?;
        self.renew_timeout(&session);
        let resets = self.task.resets();
        let was_reset = self.resets.replace(resets) != resets;
        Ok(Created {
            session,
            global_step,
            restored: restored.or(was_reset.then_some(global_step)),
        })
    }

    /// Whether the variables were cleared since the last session was made.
    pub(super) fn was_reset(&self) -> bool {
        self.resets.get() != self.task.resets()
    }

    async fn latest(&self) -> Result<Option<Restored>> {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.latest(&self.task).await,
            None => Ok(None),
        }
    }

    async fn find(&self, session: &Session) -> Result<Found<'_>> {
        let shared = &self.scaffold.shared;
        let asked =
            shared.iter().fold(session.run(), |run, variable| run.fetch(&variable.is_initialized));
        let known = asked.await?;
        let mut missing = Vec::new();
        let mut has_step = false;
        for (index, variable) in shared.iter().enumerate() {
            if !known.scalar::<bool>(index)? {
                missing.push(variable);
            } else if variable.read.edge() == self.scaffold.step.edge() {
                has_step = true;
            }
        }
        let global_step =
            if has_step { Some(self.scaffold.global_step(session).await?) } else { None };
        Ok(Found { missing, global_step })
    }
}
