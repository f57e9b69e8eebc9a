//! What a task tells the others of its training, and hears: who has left, whether it is over.

use std::pin::pin;

use futures_util::future::select;

use super::Task;
use crate::cluster::Role;
use crate::graph::Replica;
use crate::runtime::{Code, Error, ParameterServerMessage, Result};
use crate::sync::{Departed, Leaving};
use crate::training::record::{Evaluation, Fact};

impl Task {
    /// Tells other tasks which workers have left, and which are lost.
    pub(in crate::training) fn tell_who_has_departed(&self, departed: &Departed) {
        let own = self.inner.replica.map(|replica| replica.worker);
        for (worker, message) in ParameterServerMessage::of_departed(departed, 0) {
            if Some(worker) != own {
                self.inner.parts.server.tell_all(&message);
            }
        }
    }

    /// Whether each round of the training is of all workers.
    pub(in crate::training) fn has_barrier(&self) -> bool {
        self.inner.replica.is_some_and(|replica| replica.mode.needs().is_barrier())
    }

    /// The work of a parameter server and of a helper: serves until every worker has left the
    /// training. A worker leaves as it closes its
    /// [`MonitoredSession`](crate::training::MonitoredSession). If its program returns without
    /// closing one, it leaves then, with a warning. Where the program trains once more, call this
    /// once more.
    ///
    /// # Errors
    /// If the server stops before; if no worker comes, or comes back, as long as `network.recovery`
    /// says.
    pub async fn join(&self) -> Result<()> {
        let workers = self.cluster().num_workers();
        self.inner.parts.server.join(workers, self.patience()).await
    }

    /// Reports an evaluation on the test split.
    pub fn report_evaluation(&self, evaluation: Evaluation) {
        self.record(Fact::Evaluated(evaluation));
    }

    /// Ends the training of all workers: each session stops after the step that is under way, and
    /// the waits for other workers end. Call it between two steps of this task. A task that takes
    /// no steps, such as an evaluator, asks the chief, which ends the training between two of its
    /// own steps.
    pub fn finish_training(&self) {
        let server = &self.inner.parts.server;
        let has_left = server.training().chief_left().is_some();
        match self.cluster().chief().filter(|_| !has_left) {
            Some(chief) if self.role() != Role::Worker => server.ask_for_the_end(&chief),
            _ => server.broadcast(&server.training_over()),
        }
    }

    /// Announces the end that another task has told the chief of.
    pub(in crate::training) fn pass_on_the_end(&self) {
        let (server, is_chief) = (&self.inner.parts.server, self.is_chief());
        if is_chief
            && server.training().is_over()
            && !server.training().partings.have_announced_the_end()
        {
            server.broadcast(&server.training_over());
        }
    }

    /// Tells the others of an `error` of the chief's checkpoints; if the training `is_unsaved`,
    /// there are none yet. Nobody else gives the variables their values, or saves them, and
    /// starting the chief again does not mend it. An error of another task is not told: who needs
    /// that task meets it, too.
    pub(in crate::training) fn tell_of_failure(&self, error: &Error, is_unsaved: bool) {
        let is_lasting = error.code.is_of_storage()
            || matches!(error.code, Code::InvalidArgument | Code::NotFound);
        let server = &self.inner.parts.server;
        if is_lasting && error.task.is_none() && server.unreached_holders().is_empty() {
            let error = Box::new(error.clone().on(self.name()));
            server.tell_all(&ParameterServerMessage::ChiefFailed { error, is_unsaved });
        }
    }

    /// Tells the others that this task, the chief, has ended its program without a session: nobody
    /// else gives the variables their values.
    pub(in crate::training) fn tell_that_no_session_comes(&self) {
        let message = "the program of the chief has ended without a session, and nobody else gives \
                       the variables their values: open one there, such as a `MonitoredSession`, \
                       or end all programs without one";
        let error = Error::new(Code::FailedPrecondition, message).on(self.name());
        let failed =
            ParameterServerMessage::ChiefFailed { error: Box::new(error), is_unsaved: false };
        self.inner.parts.server.tell_all(&failed);
    }

    /// Makes sure that the chief has not failed to save the training for the first time.
    ///
    /// # Errors
    /// The chief's, if it has.
    pub(in crate::training) fn require_saved(&self) -> Result<()> {
        let training = self.inner.parts.server.training();
        match training.never_saved_for() {
            Some(_) => training.take_failure().map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Whether the training is over, for all or for this task.
    pub(in crate::training) fn is_training_over(&self) -> bool {
        self.is_asked_to_stop() || self.inner.parts.server.training().is_over()
    }

    /// Whether a step that this task takes now would be in vain: the training is over, or the chief
    /// has taken its last step.
    pub(in crate::training) fn has_come_to_the_end(&self) -> bool {
        self.is_training_over() || self.inner.parts.server.training().is_done()
    }

    /// Whether this task, or a parameter server, is to stop before the training's end.
    pub(in crate::training) fn is_asked_to_stop(&self) -> bool {
        let server = &self.inner.parts.server;
        server.training().is_stop_requested() || server.stopping().is_some()
    }

    /// Completes once this task, or a parameter server, is to stop before the training's end.
    pub(in crate::training) async fn asked_to_stop(&self) {
        let training = self.inner.parts.server.training();
        loop {
            let seen = training.news.count();
            if self.is_asked_to_stop() {
                return;
            }
            training.news.after(seen).await;
        }
    }

    /// Completes once this task is to take no more steps.
    pub(in crate::training) async fn training_is_over(&self) {
        let training = self.inner.parts.server.training();
        select(pin!(self.asked_to_stop()), pin!(training.ended())).await;
    }

    /// Why this task would take no more steps now, if its session `has_ended` or not. What ends
    /// while the chief is away is in no checkpoint: the next lives of all come to it again.
    pub(in crate::training) fn leaving(&self, has_ended: bool) -> Leaving {
        let training = self.inner.parts.server.training();
        let is_over = training.is_over() || has_ended && !training.is_chief_away();
        if is_over || !self.is_asked_to_stop() { Leaving::Done } else { Leaving::Stopped }
    }

    /// Notifies all tasks that this worker takes no more steps, and why.
    pub(in crate::training) fn leave(&self, why: Leaving) {
        if let Some(Replica { worker, .. }) = self.inner.replica.filter(|_| !self.has_executor()) {
            let server = &self.inner.parts.server;
            let training = server.training().number();
            server.broadcast(&ParameterServerMessage::Leave { worker, why, training });
        }
    }
}
