//! A parameter server's part of a reset: variables and resources are cleared, and whoever waits for
//! them is refused.

use crate::planted::{self, Bug};
use crate::sync::Departed;
use crate::transport::PeerId;

use super::ParameterServer;
use crate::runtime::error::{Code, Error};
use crate::runtime::mail::WorkerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{MasterMessage, Scope};
use crate::runtime::parameter_server::coordination::Coordination;
use crate::runtime::parameter_server::variable_store::Cleared;
use crate::runtime::state::Ticket;

impl ParameterServer {
    /// Clears `containers`, or the default one if none is named, for reset `number` of the master
    /// at `from`. Trainings end, unless it is within one, which goes on with new values.
    pub(super) fn reset(
        &mut self,
        from: PeerId,
        number: u64,
        containers: Vec<String>,
        within_training: bool,
    ) {
        let cleared = self.store.reset(&containers);
        let (resources, waiting) = self.resources.reset(&containers);
        let variables = cleared.variables.len() as u32 + resources;
        self.forget_trainings(cleared);
        self.refuse_waiting(waiting);
        let keeps_steps = within_training && planted::is_in(Bug::KeepsOldSteps);
        let departed = if within_training {
            if !keeps_steps {
                self.trainings.members.restore();
            }
            self.trainings.begin_side_by_side();
            self.trainings.tell_that_chief_restores();
            self.trainings.members.all_that_departed()
        } else {
            self.end_trainings(&containers, variables);
            Departed::default()
        };
        if !keeps_steps {
            tell(&self.outbox.actors.worker, WorkerMail::Cleared(containers));
        }
        self.outbox.send(from, MasterMessage::ResetDone { number, variables, departed });
    }

    /// Ends the trainings whose `containers`, with that many `variables`, were cleared.
    fn end_trainings(&mut self, containers: &[String], variables: u32) {
        if containers.is_empty() {
            self.trainings.members.begin_anew();
            self.begin_anew();
        } else if variables > 0 {
            // Trainings in other containers go on.
            self.trainings.members.expect_all();
            self.trainings.forget_the_end();
        }
    }

    /// The session `scope` is closed: its own variables and resources are cleared, and none are
    /// made any more.
    pub(super) fn close_scope(&mut self, scope: Scope) {
        self.trainings.held_off.retain(|binding| binding.scope != Some(scope));
        let cleared = self.store.close_scope(scope);
        self.forget_trainings(cleared);
        let waiting = self.resources.close_scope(scope);
        self.refuse_waiting(waiting);
    }

    /// The variables are cleared: refuses the operations that wait in their trainings.
    fn forget_trainings(&mut self, cleared: Cleared) {
        self.snapshots.clear(&cleared.variables);
        let coordinations =
            cleared.variables.iter().filter_map(|id| self.trainings.coordinations.remove(id));
        let waiting: Vec<Ticket> = cleared
            .waiting
            .into_iter()
            .chain(coordinations.flat_map(Coordination::waiting))
            .collect();
        self.refuse_waiting(waiting);
    }

    /// Refuses the operations `waiting`, because what they wait for was reset.
    pub(super) fn refuse_waiting(&mut self, waiting: Vec<Ticket>) {
        for ticket in waiting {
            self.answer(
                ticket,
                Err(Error::new(Code::Aborted, "what the step waits for was reset")),
            );
        }
    }
}
