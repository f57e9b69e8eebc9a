//! The end of trainings at a parameter server: workers that leave, a training that is over, one that is reset.

use super::super::coordination::Coordination;
use super::super::error::{Code, Error};
use super::super::messages::{Ticket, Values};
use super::super::variable_store::Cleared;
use super::ParameterServer;

impl ParameterServer {
    /// `worker` takes no more steps: nobody waits for it from now on.
    pub(super) fn leave(&mut self, worker: u32) {
        if !self.departed.insert(worker) {
            return;
        }
        for coordination in self.coordinations.values_mut() {
            self.served.extend(coordination.leave(worker));
        }
        for id in self.store.ids() {
            if let Some(rounds) = &mut self.store.get_mut(id).rounds
                && worker < rounds.training.workers
            {
                rounds.gradients.leave(worker);
                self.apply_rounds(id);
            }
        }
        self.answer_joins();
    }

    /// The training is over: whoever waits is let go, without its gradient.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        for coordination in self.coordinations.values_mut() {
            self.served.extend(coordination.finish());
        }
        for id in self.store.ids() {
            let rounds = self.store.get_mut(id).rounds.as_mut();
            for (ticket, _) in rounds.map(|rounds| rounds.gradients.finish()).unwrap_or_default() {
                self.answer(ticket, Ok(Values::new()));
            }
        }
    }

    pub(super) fn answer_joins(&mut self) {
        let departed = self.departed.len() as u32;
        for (workers, reply) in std::mem::take(&mut self.joins) {
            if departed < workers {
                self.joins.push((workers, reply));
            } else if reply.send(()).is_err() {
                tracing::debug!("nobody waits any more for the end of the training");
            }
        }
    }

    /// The variables are cleared: who waits for something in their trainings waits in vain.
    pub(super) fn forget_trainings(&mut self, cleared: Cleared) {
        let coordinations = cleared.variables.iter().filter_map(|id| self.coordinations.remove(id));
        let waiting: Vec<Ticket> =
            cleared.waiting.into_iter().chain(coordinations.flat_map(Coordination::waiting)).collect();
        self.refuse_waiting(waiting);
    }

    /// What `waiting` wait for was reset.
    pub(super) fn refuse_waiting(&mut self, waiting: Vec<Ticket>) {
        for ticket in waiting {
            self.answer(ticket, Err(Error::new(Code::Aborted, "what the step waits for was reset")));
        }
    }
}
