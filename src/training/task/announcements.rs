//! What a task tells the others of its training, and hears: who has left, whether it is over.

use super::Task;
use crate::cluster::TaskName;
use crate::runtime::{ParameterServerMessage, Places, Result};
use crate::sync::Departed;
use crate::training::record::Evaluation;

impl Task {
    /// Tells other tasks which workers have left, and which are lost.
    pub(in crate::training) fn tell_who_has_departed(&self, departed: &Departed) {
        let own = self.inner.replica.map(|replica| replica.worker);
        let left =
            departed.left.iter().map(|one| (*one, ParameterServerMessage::Leave { worker: *one }));
        let lost =
            departed.lost.iter().map(|one| (*one, ParameterServerMessage::Lost { worker: *one }));
        for (_, message) in left.chain(lost).filter(|(worker, _)| Some(*worker) != own) {
            self.inner.parts.server.tell_all(&message);
        }
    }

    /// Whether each round of the training is of all workers.
    pub(in crate::training) fn needs_all_workers(&self) -> bool {
        self.inner.replica.is_some_and(|replica| replica.mode.needs_all_workers())
    }

    /// Whether the chief has left the training.
    pub(in crate::training) fn has_chief_left(&self) -> bool {
        self.inner.parts.server.has_chief_left()
    }

    /// Tells the workers that ask for it where this task's graph has the shared variables.
    pub(in crate::training) fn publish_places(&self, places: Places) {
        self.inner.parts.server.publish_places(places);
    }

    /// Where the graph of `chief` has the shared variables, once it is built.
    pub(in crate::training) async fn places_of(&self, chief: &TaskName) -> Places {
        self.inner.parts.server.places_of(chief).await
    }

    /// The number of times that the variables of this task have been cleared.
    pub(in crate::training) fn resets(&self) -> u64 {
        self.inner.parts.server.resets()
    }

    /// The work of a parameter server and of a helper: serves until every worker has left the
    /// training.
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
        self.inner.parts.recorder.evaluation(evaluation);
    }

    /// Ends the training of all workers: their sessions stop, and their waits end.
    pub fn finish_training(&self) {
        self.inner.parts.server.broadcast(&ParameterServerMessage::TrainingOver);
    }

    /// Whether the training is over, for all or for this task.
    pub(in crate::training) fn is_training_over(&self) -> bool {
        self.is_asked_to_stop() || self.inner.parts.server.is_training_over()
    }

    /// Whether this task, or a parameter server, is to stop before the training's end.
    pub(in crate::training) fn is_asked_to_stop(&self) -> bool {
        let server = &self.inner.parts.server;
        server.is_stop_requested() || server.stopping().is_some()
    }

    pub(in crate::training) fn begin_training(&self) {
        self.inner.parts.server.begin_training();
    }

    /// Notifies all tasks that this worker takes no more steps.
    pub(in crate::training) fn leave(&self) {
        if let Some(replica) = self.inner.replica {
            self.inner
                .parts
                .server
                .broadcast(&ParameterServerMessage::Leave { worker: replica.worker });
        }
    }
}
