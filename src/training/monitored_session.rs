//! A session that looks after a training: it initialises or waits, runs hooks, recovers from lost
//! tasks, and closes cleanly.

mod attempts;
mod builder;
mod ending;
mod first;
mod leading;
mod run;

use std::cell::Cell;
use std::time::Duration;

use tracing::{Instrument, trace_span};

use crate::graph::{Graph, Target};
use crate::runtime::{Error, Result};
use crate::tensor::Tensor;

use super::hooks::{HookContext, Hooks, RunValues};
use super::own_values::OwnVariables;
use super::positions::Positions;
use super::record::StepStats;
use super::recovery::Tries;
use super::session::Session;
use super::session_creator::SessionCreator;
use super::task::Task;

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
    /// What the chief waits for before it reads the weights; none on other workers.
    last_updates: Vec<Target>,
    /// The training's number at its server; it stays the same when the session is replaced.
    training: u64,
    /// The number of training steps that have begun, failed ones included.
    begun: u64,
    /// The attempts at the step under way that were given up, and may have counted.
    given_up: Vec<StepStats>,
    /// The number of the worker's next step.
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
    /// The global step at which the session's end began, once it has.
    reached: Option<u64>,
    stop_requested: Cell<bool>,
    stop_grace_period: Option<Duration>,
    tries: Tries,
}

shown!(MonitoredSession, global_step, restored);

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

    /// The number of training steps that the worker has taken, in earlier sessions of the training,
    /// too.
    pub(in crate::training) fn steps_taken(&self) -> u64 {
        self.local_step
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

    /// Begins to train at `global_step`, in the first session.
    async fn begin_at(&mut self, global_step: u64) -> Result<()> {
        self.positions.find(&self.task, &self.session, global_step).await?;
        if let Some(own) = &self.own_variables {
            own.find(&self.task, &self.session, global_step).await?;
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
        let Self { task, session, global_step, restored, reached, stop_requested, hooks, .. } =
            self;
        let (global_step, restored, reached) = (*global_step, *restored, *reached);
        let stop = stop_requested;
        (HookContext { task, session, global_step, restored, reached, stop }, hooks)
    }

    /// Hop 10 of a step: shows it to the hooks.
    async fn after_run(&mut self, fetched: &[Tensor], run: RunValues<'_>) -> Result<()> {
        let (local_step, global_step) = (self.local_step, self.global_step);
        self.show(fetched, run).instrument(trace_span!("hooks", local_step, global_step)).await
    }

    /// Shows what was run to each hook in turn, once more where the session recovered meanwhile.
    async fn show(&mut self, fetched: &[Tensor], run: RunValues<'_>) -> Result<()> {
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
        if self.other_runs == MANY_RUNS && self.local_step == 0 {
            tracing::warn!(
                worker = %self.task.name(),
                "{MANY_RUNS} runs, and none trained, so that no hook stops at a step: a run trains \
                 if it has the training operation among its targets, \
                 `session.run().target(&train_op)`, in a group or behind control dependencies, too"
            );
        }
    }

    fn count_training_step(&mut self, stats: &mut StepStats) {
        stats.local_step = self.local_step;
        self.local_step += 1;
        self.steps_in_session += 1;
        self.global_step = stats.global_step;
        self.positions.count(&self.task, self.global_step);
    }
}
