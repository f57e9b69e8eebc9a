//! Creates a session whose variables have values for a monitored session: the chief initializes or
//! restores them, the other workers wait for that.

mod going_back;
mod start;
mod waiting;

use std::cell::Cell;
use std::time::Duration;

use crate::graph::{Graph, Target};
use crate::runtime::{Code, Error, Result, SessionOptions};

use super::checkpoints::Checkpoints;
use super::own_values;
use super::places::places;
use super::record::{Fact, Restore};
use super::recovery::{given_up, lost_values};
use super::scaffold::{Finalized, Known};
use super::session::Session;
use super::task::Task;
use crate::checkpoint::Restored;
use start::{Start, Values};

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

/// The shared variables without values, and what is known of the values of all.
struct Found<'a> {
    missing: Vec<&'a Known>,
    values: Values,
}

impl Found<'_> {
    /// Describes the values that a training at `global_step` has lost.
    fn loss(&self, global_step: u64) -> String {
        let Some(variable) = self.missing.first() else {
            let now = self.values.global_step.unwrap_or(0);
            return format!("the global step went back from {global_step} to {now}");
        };
        let on = variable.task.as_ref().map_or_else(String::new, |task| format!(" on {task}"));
        format!("`{}`{on} has no value any more", variable.name)
    }

    /// The error of a chief that finds a training whose values are lost.
    fn not_restored(&self) -> Error {
        let (step, missing) = (self.values.global_step.unwrap_or(0), self.missing[0]);
        let message = format!(
            "the training is at global step {step}, but `{}` has no value: its task has come back \
             without its variables, and no checkpoint to restore",
            missing.name
        );
        let error = Error::new(Code::VariablesLost, message);
        missing.task.iter().fold(error, Error::on)
    }
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
        self.task.server().publish_places(places(&self.graph, self.task.name()));
        self.prepare(session).await.inspect_err(|error| self.task.tell_of_failure(error, false))
    }

    /// What `session` has lost of the values of a training that was at `global_step`, if anything.
    ///
    /// # Errors
    /// If a task fails.
    pub(super) async fn loss(&self, session: &Session, global_step: u64) -> Result<Option<String>> {
        let found = self.find(session).await?;
        let are_lost = found.values.are_lost(global_step, self.checkpoints.is_some());
        Ok(are_lost.then(|| found.loss(global_step)))
    }

    /// A session to replace one that was lost with the error `root`, in a training that was at
    /// `global_step`.
    ///
    /// # Errors
    /// As [`SessionCreator::create`]; also if values are lost that no checkpoint has, or that
    /// nobody restores since a parameter server is stopping.
    pub(super) async fn create_again(&self, global_step: u64, root: &Error) -> Result<Created> {
        let session = self.session(self.task.patience().recovery).await?;
        let found = self.find(&session).await?;
        self.meet_helpers(&session).await?;
        let (values, keeps_checkpoints) = (found.values, self.checkpoints.is_some());
        if !values.are_lost(global_step, keeps_checkpoints) {
            // A worker that was lost when the training went back may not have heard of it.
            let now = values.global_step.unwrap_or(0);
            let restored = Some(now).filter(|now| *now < global_step);
            return self.with_own_values(session, now, restored).await;
        }
        let what = found.loss(global_step);
        if let Some(stopping) = self.task.server().stopping() {
            // The next lives of all tasks go on from a checkpoint, or begin anew.
            return Err(given_up(root, &format!("{what}, and {stopping} was asked to stop")));
        }
        if self.task.is_chief() {
            let newest =
                self.latest().await.inspect_err(|error| self.task.tell_of_failure(error, false))?;
            return match (values.start_again(global_step, newest.is_some()), newest) {
                (Start::BeginAnew, _) => self.begin_anew(found).await,
                (_, Some(checkpoint)) => self.go_back(global_step, root, &what, checkpoint).await,
                (_, None) => Err(lost_values(root, &what)),
            };
        }
        if values.start_again(global_step, keeps_checkpoints) == Start::Lost {
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

    /// The chief's part: gives the variables their values, as [`Values::start`] decides.
    async fn prepare(&self, session: Session) -> Result<Created> {
        let found = self.find(&session).await?;
        let values = found.values;
        let newest = match self.latest().await {
            // Of the class `DeadlineExceeded` where the store does not answer.
            Err(error)
                if matches!(error.code, Code::DataLoss | Code::DeadlineExceeded)
                    && values.live().is_some_and(|live| live > 0) =>
            {
                tracing::warn!(%error, "going on from the variables, which have their values");
                None
            }
            latest => latest?,
        };
        match values.start(newest.as_ref().map(|checkpoint| checkpoint.global_step)) {
            Start::Restore => {
                if values.are_there() {
                    self.clear().await?;
                }
                self.restore(newest.expect("a start restores a checkpoint that is there")).await
            }
            Start::GoOn(live) => {
                self.task.record(Fact::TakenOver(live));
                if let Some(checkpoint) = &newest {
                    // An earlier life may have restored it, and died before all workers had theirs.
                    own_values::publish(&self.task, &self.graph, checkpoint);
                }
                self.ready(session, live, None).await
            }
            Start::BeginAnew => {
                self.require_room().await?;
                self.begin_anew(found).await
            }
            Start::Initialize => {
                self.require_room().await?;
                if values.missing > 0 {
                    self.has_no_steps();
                }
                self.initialize(session, &found.missing).await
            }
            Start::Lost => Err(found.not_restored()),
        }
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
        self.has_no_steps();
        let all: Vec<&Known> = self.scaffold.shared.iter().collect();
        self.initialize(self.session(self.task.patience().operation).await?, &all).await
    }

    /// Notes that variables get first values: whatever steps there were are undone. An earlier life
    /// of the chief may have led some.
    fn has_no_steps(&self) {
        let restore = Restore { global_step: 0, at: self.task.now() };
        self.task.record(Fact::Restored(restore));
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
        let training = self.task.server().training();
        training.find_values(self.task.is_chief());
        let resets = training.resets();
        let was_reset = self.resets.replace(resets) != resets;
        Ok(Created {
            session,
            global_step,
            restored: restored.or(was_reset.then_some(global_step)),
        })
    }

    /// Whether the variables were cleared since the last session was made.
    pub(super) fn was_reset(&self) -> bool {
        self.resets.get() != self.task.server().training().resets()
    }

    /// Before first values are given: once there are, the others train, and what they learn could
    /// not be saved.
    async fn require_room(&self) -> Result<()> {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.require_room(&self.task).await,
            None => Ok(()),
        }
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
        let values = Values {
            missing: missing.len(),
            shared: shared.len(),
            global_step,
            is_half_initialized: self.scaffold.is_half_initialized(),
        };
        Ok(Found { missing, values })
    }
}
