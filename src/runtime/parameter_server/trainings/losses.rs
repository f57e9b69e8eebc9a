//! What tasks tell each other of workers that are lost, and of those that are back since.

use super::Trainings;
use crate::cluster::ClusterSpec;
use crate::runtime::messages::ParameterServerMessage;
use crate::transport::PeerId;

impl Trainings {
    /// Tells the parameter servers, the chief and the helpers of the workers that are `lost`: one
    /// that has come back since may never have met them.
    pub(crate) fn tell_of_losses(&mut self, lost: &[u32]) {
        let (local, training) = (self.outbox.local(), &self.outbox.actors.training);
        let is_heard = training.chief.get() == Some(local) || training.is_holder(local);
        if !training.has_servers() || !is_heard {
            return;
        }
        let mut hearers = self.other_holders();
        hearers.extend(self.chief_and_helpers());
        for worker in lost.iter().copied() {
            for hearer in &hearers {
                self.outbox.send(*hearer, ParameterServerMessage::Lost { worker });
            }
        }
        self.told_lost.extend(lost);
    }

    /// Tells that `worker` is back, if others were told that it is lost. The other tasks with
    /// variables find that out by themselves.
    pub(crate) fn tell_of_found(&mut self, worker: u32) {
        if !self.told_lost.remove(&worker) {
            return;
        }
        for hearer in self.chief_and_helpers() {
            self.outbox.send(hearer, ParameterServerMessage::Found { worker });
        }
    }

    /// A task that had told of the loss of `worker` says that it is back. Where steps are
    /// coordinated, or variables held, it is waited for only once it is heard of: it may be cut off
    /// from here alone. A worker that has left meanwhile stays departed.
    pub(crate) fn hear_of_found(&mut self, worker: u32) {
        let is_holder = self.outbox.actors.training.is_holder(self.outbox.local());
        let finds_out = is_holder || !self.coordinations.is_empty();
        if !finds_out && self.members.find(worker) {
            self.welcome_back(worker);
            if worker == 0 {
                self.find_chief();
            }
        }
    }

    /// The chief and the helpers, other than this task.
    fn chief_and_helpers(&self) -> Vec<PeerId> {
        let local = self.outbox.local();
        let chief = self.outbox.actors.training.chief.get().filter(|chief| *chief != local);
        let helpers = self.cluster.iter().flat_map(ClusterSpec::helpers);
        chief.into_iter().chain(helpers.filter_map(|task| self.outbox.resolve(&task))).collect()
    }
}
