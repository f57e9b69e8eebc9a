//! The announced end of a training at a parameter server: what is under way still counts, and the
//! rest is dropped.

use super::ParameterServer;
use crate::runtime::state::{StateValues, Ticket};
use crate::transport::PeerId;

impl ParameterServer {
    /// `from` says that the training of that number is over. A worker announces it between two of
    /// its steps. Another task with variables says so when it drops gradients behind a barrier. The
    /// word of an evaluator or a helper is for the program of the chief: here it could come amid a
    /// step.
    pub(super) fn hear_of_the_end(&mut self, from: PeerId, number: u32) {
        if number < self.trainings.members.number() {
            return;
        }
        let (name, local) = (self.outbox.name(from), self.outbox.local());
        let worker = self.outbox.actors.access.worker_at(&name);
        if worker.is_none() && from != local && !name.is_parameter_server() {
            return;
        }
        self.trainings.announcers.extend(worker);
        self.finish();
        let training = &self.outbox.actors.training;
        // A helper is told by dynamic servers without a cut: see `Server::pass_on_the_end`.
        if worker.is_none() && training.is_holder(from) && training.is_holder(local) {
            self.cut_off();
        }
        self.cut_off_what_lacks_an_announcer();
    }

    /// Ends the training. Steps under way run to their end: gradients that are applied one by one
    /// still are, and so are those of rounds that are closed, whenever they come. Open votes are
    /// dropped.
    fn finish(&mut self) {
        self.trainings.members.finish();
        self.trainings.tell_those_who_wait_of_the_end();
        for coordination in self.trainings.coordinations.values_mut() {
            self.served.extend(coordination.finish(&self.trainings.members));
        }
    }

    /// Drops the round behind a barrier that waits for a worker that has announced the end: it was
    /// between two steps, so no variable has had that round. An announcer that was away takes no
    /// part in rounds, and cuts none off: some variables may have had the round that the others
    /// are in. Once it is let in, all rounds wait for it.
    pub(super) fn cut_off_what_lacks_an_announcer(&mut self) {
        let part = &self.trainings.participation;
        if self.trainings.announcers.iter().any(|worker| part.awaits(*worker)) {
            self.cut_off();
        }
    }

    fn cut_off(&mut self) {
        self.trainings.members.cut_off();
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
