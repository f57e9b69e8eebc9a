//! The announced end of a training at a parameter server: what is under way still counts, and the
//! rest is dropped.

use super::ParameterServer;
use crate::cluster::Role;
use crate::runtime::state::{StateValues, Ticket};
use crate::transport::PeerId;

impl ParameterServer {
    /// `from` says that the training is over. An evaluator's word is for the program of the chief,
    /// which announces the end between two of its steps: here it could come amid one.
    pub(super) fn hear_of_the_end(&mut self, from: PeerId) {
        if self.link.name(from).role() != Role::Evaluator {
            self.finish();
        }
    }

    /// Ends the training. Steps under way run to their end: gradients that are applied one by one
    /// still are, and so are those of rounds that are closed, whenever they come. Dropped are open
    /// votes and, behind a barrier, the gradients of the round that lacks the worker that has
    /// announced the end: it was between two steps, so no variable has had that round.
    fn finish(&mut self) {
        self.trainings.members.finish();
        self.trainings.tell_those_who_wait_of_the_end();
        for coordination in self.trainings.coordinations.values_mut() {
            self.served.extend(coordination.finish(&self.trainings.members));
        }
        for id in self.store.ids() {
            let Some(rounds) = &mut self.store.get_mut(id).rounds else { continue };
            let is_cut_off = rounds.gradients.is_barrier();
            let held = if is_cut_off { rounds.gradients.finish() } else { Vec::new() };
            held.into_iter().for_each(|offered| self.leave_out(offered.ticket));
        }
    }

    /// Answers a gradient of the round that the end has cut off, without applying it.
    pub(super) fn leave_out(&mut self, ticket: Ticket) {
        self.trainings.tell_step_counter_of_the_end();
        self.answer(ticket, Ok(StateValues::new()));
    }
}
