//! The end of a training at a parameter server, which passes it on: to workers that wait for it,
//! to the task that counts the steps and, if a round is cut off, to the other tasks with variables.
//! The announcer tells all.

use std::collections::BTreeSet;

use super::Trainings;
use crate::cluster::ClusterSpec;
use crate::runtime::error::Result;
use crate::runtime::messages::ParameterServerMessage;
use crate::runtime::parameter_server::coordination::Coordination;
use crate::runtime::training_state::never_saved;
use crate::sync::Leaving;
use crate::transport::PeerId;

impl Trainings {
    /// The end of a training that all workers have left, and none is waited for.
    ///
    /// # Errors
    /// If the chief has not ended it, in a training with lasting checkpoints: started again, all
    /// tasks go on from the newest. If it could not save the first one: its error.
    pub(super) fn end(&self) -> Result<()> {
        let training = &self.outbox.actors.training;
        let is_done = self.members.is_done(0) || training.chief_left() == Some(Leaving::Done);
        let chief = self.cluster.as_ref().and_then(ClusterSpec::chief);
        let Some(chief) = chief.filter(|_| !is_done) else {
            return Ok(());
        };
        if let Some(error) = training.never_saved_for() {
            return Err(error);
        }
        if training.has_lasting_checkpoints() {
            return Err(never_saved(&chief).on(&self.outbox.name(self.outbox.local())));
        }
        tracing::warn!(
            "the training is over, but {chief}, the chief, never came back to report it"
        );
        Ok(())
    }

    /// The word that the training here is over.
    pub(crate) fn over(&self) -> ParameterServerMessage {
        ParameterServerMessage::TrainingOver { training: self.members.number() }
    }

    /// Tells the task of `worker`, whose step ends here, before it has its answer: so it takes no
    /// other step in vain. Whoever waits for no answer is not told, since it may be in another
    /// training by then.
    pub(crate) fn tell_of_the_end(&self, worker: u32) {
        let training = &self.outbox.actors.training;
        let counts_for_others = training.has_servers() && training.is_holder(self.outbox.local());
        if let Some(task) = self.task_of(worker).filter(|_| counts_for_others) {
            self.outbox.send(task, self.over());
        }
    }

    /// As [`Self::tell_of_the_end`], of all workers that wait for the answer to a step.
    pub(crate) fn tell_those_who_wait_of_the_end(&self) {
        let waiting = self.coordinations.values().flat_map(Coordination::waiting_workers);
        let waiting: BTreeSet<u32> = waiting.collect();
        waiting.into_iter().for_each(|worker| self.tell_of_the_end(worker));
    }

    /// Tells the task that counts the steps that gradients are dropped here: the chief's word may
    /// come there later than the ends of their steps. A step whose end comes before this word, too,
    /// is counted.
    pub(crate) fn tell_step_counter_of_the_end(&mut self) {
        if let Some(step_counter) = self.step_counter
            && !std::mem::replace(&mut self.has_told_step_counter, true)
        {
            self.outbox.send(step_counter, self.over());
        }
    }

    /// Tells `other`, which holds variables too, that a round is cut off. It is told before the
    /// view changes: the new view may lack the announcer, whose own word may not have come there.
    pub(crate) fn tell_what_is_cut_off(&self, other: PeerId) {
        if self.members.is_cut_off() {
            self.outbox.send(other, self.over());
        }
    }

    /// Forgets the announced end: it was of an earlier training.
    pub(crate) fn forget_the_end(&mut self) {
        self.outbox.actors.training.is_over.set(false);
        self.announcers.clear();
        self.has_told_step_counter = false;
    }
}
