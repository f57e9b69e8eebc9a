//! The chief of a training with lasting checkpoints, which it alone saves. A parameter server tells
//! the workers that use it when the chief is lost or back, since they may not know the chief.

use super::Trainings;
use crate::runtime::messages::ParameterServerMessage;
use crate::sync::Leaving;
use crate::transport::PeerId;

impl Trainings {
    /// What the log says of the loss of `worker`.
    pub(crate) fn loss_of(&self, worker: u32) -> &'static str {
        match worker == 0 && self.outbox.actors.training.has_lasting_checkpoints() {
            true => {
                "lost the chief; going on without it: no checkpoint is written until it is back"
            }
            false => "lost a worker; going on without it",
        }
    }

    /// These workers are lost, perhaps the chief among them. The chief itself may hear of it in its
    /// next life.
    pub(crate) fn lose_chief(&self, lost: &[u32]) {
        let training = &self.outbox.actors.training;
        let is_other = training.chief.get() != Some(self.outbox.local());
        let is_lost = is_other && lost.contains(&0);
        if is_lost && training.has_lasting_checkpoints() && training.lose_chief() {
            self.tell_workers(&ParameterServerMessage::Lost { worker: 0 });
        }
    }

    /// The chief uses this task.
    pub(crate) fn find_chief(&self) {
        if self.outbox.actors.training.find_chief() {
            self.tell_workers(&ParameterServerMessage::Back { worker: 0 });
        }
    }

    /// Tells the task of a worker, which has just begun to use this task, if the chief is lost, or
    /// that it is back: the worker may have been away then.
    pub(crate) fn tell_of_chief(&self, task: PeerId) {
        if !self.speaks_for_others() {
            return;
        }
        if self.outbox.actors.training.is_chief_lost() {
            self.outbox.send(task, ParameterServerMessage::Lost { worker: 0 });
        } else if self.has_chief_again() {
            self.outbox.send(task, ParameterServerMessage::Back { worker: 0 });
        }
    }

    /// The chief gives the variables other values, perhaps since this task has lost them: an
    /// earlier life of it may have told the workers that the chief is lost.
    pub(crate) fn tell_that_chief_restores(&self) {
        if self.has_chief_again() {
            self.tell_workers(&ParameterServerMessage::Back { worker: 0 });
        }
    }

    /// Whether the chief trains here, though some workers may take it for lost.
    fn has_chief_again(&self) -> bool {
        let training = &self.outbox.actors.training;
        let trains = training.chief_left().is_none() && training.chief_failed().is_none();
        training.may_seem_lost() && trains && self.is_here(0)
    }

    /// The chief, at `from`, takes no more steps. Where others are asked to stop, too, none of them
    /// goes on without checkpoints.
    pub(crate) fn hear_of_leaving_chief(&self, from: PeerId, why: Leaving) {
        let training = &self.outbox.actors.training;
        let all_stop = training.is_stop_requested() || training.stopping().is_some();
        let is_missed = why == Leaving::Stopped && training.waits_for_checkpoints();
        if is_missed && !all_stop && from != self.outbox.local() {
            tracing::warn!("the chief has stopped: no checkpoint is written until it is back");
        }
    }

    /// Whether `worker` is the chief, and this the task of another one, where nobody waits for it:
    /// that it is lost or back is only told.
    pub(crate) fn is_told_of_chief(&self, worker: u32) -> bool {
        let is_other = self.worker_at(self.outbox.local()).is_some_and(|own| own > 0);
        worker == 0 && is_other && self.outbox.actors.training.has_servers()
    }

    /// Hears from a parameter server that the chief is lost.
    pub(crate) fn hear_of_lost_chief(&self) {
        if self.outbox.actors.training.lose_chief() {
            tracing::warn!("the chief is lost: no checkpoint is written until it is back");
        }
    }

    fn tell_workers(&self, message: &ParameterServerMessage) {
        if !self.speaks_for_others() {
            return;
        }
        let others = (1..).map_while(|worker| self.task_of(worker));
        for task in others.filter(|task| self.joins.is_used_by(*task)) {
            self.outbox.send(task, message.clone());
        }
    }
}
