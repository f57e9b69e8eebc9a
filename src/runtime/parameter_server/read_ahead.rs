//! Reading ahead: variables are read for a step that is still to be ordered.

use super::ParameterServer;
use crate::runtime::mail::WorkerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, StepId};
use crate::runtime::state::{Action, Served, StateRequest};

impl ParameterServer {
    /// Reads variables for `step`, if none of them has to be waited for.
    pub(super) fn read_ahead(
        &mut self,
        graph: GraphHandle,
        step: StepId,
        reads: Vec<StateRequest>,
    ) {
        let mut served = self.outbox.actors.served.take();
        if !self.trainings.members.is_over() && reads.iter().all(|read| self.can_be_read_now(read))
        {
            served.extend(reads.iter().filter_map(|read| self.read_at_once(read)));
        }
        self.outbox.actors.requests.give(reads);
        tell(&self.outbox.actors.worker, WorkerMail::ReadAhead { graph, step, served });
    }

    fn can_be_read_now(&self, request: &StateRequest) -> bool {
        let Action::Read { variable, .. } = request.action else { return false };
        let stored = self.store.get(variable);
        let is_free = !stored.is_updating() && stored.waiting.is_empty();
        is_free && stored.is_initialized() && request.epoch >= self.trainings.members.epoch()
    }

    fn read_at_once(&self, request: &StateRequest) -> Option<Served> {
        let Action::Read { variable, with_version, .. } = request.action else { return None };
        Some(Served { ticket: request.ticket, outcome: self.read(variable, with_version) })
    }
}
