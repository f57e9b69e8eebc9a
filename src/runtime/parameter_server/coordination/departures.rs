//! The wait of a worker that has taken its last step for the others to leave, as an operation that
//! is answered.

use smallvec::smallvec;

use super::{Answers, Coordination};
use crate::graph::Replica;
use crate::runtime::error::{Code, Error};
use crate::runtime::state::{Served, StateValues, Ticket};
use crate::sync::{Membership, Version};

impl Coordination {
    /// Answers once all workers that train wait here too, or have departed. `replica` takes no more
    /// steps: where each step counts by itself nobody waits for it from now on.
    pub(crate) fn await_departures(
        &mut self,
        members: &Membership,
        replica: Replica,
        ticket: Ticket,
    ) -> Answers {
        if let Err(error) = self.check(replica, Version::default()) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        let before = self.departures.insert(replica.worker, ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        let let_go = self.coordinator.retire(members, replica.worker);
        answers.extend(self.answer(let_go));
        answers.extend(self.answer_departures(members));
        answers
    }

    /// Ends the wait of `worker`, which has departed itself, and those that have waited for it.
    pub(super) fn end_departures(&mut self, members: &Membership, worker: u32) -> Vec<Served> {
        let departed = |ticket| {
            let message = format!(
                "worker {worker} has left the training, or seemed to be lost, while it waited for \
                 others to leave"
            );
            Served { ticket, outcome: Err(Error::new(Code::Aborted, message)) }
        };
        let own = self.departures.remove(&worker).map(departed);
        own.into_iter().chain(self.answer_departures(members)).collect()
    }

    fn answer_departures(&mut self, members: &Membership) -> Vec<Served> {
        if self.still_training(members).next().is_some() {
            return Vec::new();
        }
        let served = |ticket| Served { ticket, outcome: Ok(StateValues::new()) };
        std::mem::take(&mut self.departures).into_values().map(served).collect()
    }

    /// The workers that train and do not wait for others to leave.
    fn still_training(&self, members: &Membership) -> impl Iterator<Item = u32> {
        let training = members.training(self.training.workers);
        training.filter(|worker| !self.departures.contains_key(worker))
    }

    /// The workers that some wait for to leave.
    pub(super) fn awaited_departures(&self, members: &Membership) -> Vec<u32> {
        if self.departures.is_empty() {
            return Vec::new();
        }
        self.still_training(members).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::LocalDevice;
    use crate::runtime::messages::StepId;
    use crate::sync::{Leaving, Mode};

    const REPLICA: Replica = Replica { worker: 0, workers: 3, mode: Mode::Async };

    fn ticket(number: u64) -> Ticket {
        let step = StepId { master: 0, number, trains: false };
        Ticket { step, device: LocalDevice::cpu(0), node: 0 }
    }

    /// The training of three workers of which two have come.
    fn training() -> (Membership, Coordination) {
        let mut members = Membership::default();
        for worker in [0, 1] {
            members.join(worker, 3, worker.into(), 1);
        }
        let coordination = Coordination::new(REPLICA, &members, None);
        (members, coordination)
    }

    fn are_ok(answers: &[Served]) -> Vec<bool> {
        answers.iter().map(|served| served.outcome.is_ok()).collect()
    }

    #[test]
    fn who_waits_for_departures_is_answered_once_all_that_train_have_left_or_are_lost() {
        let (mut members, mut coordination) = training();
        assert!(coordination.await_departures(&members, REPLICA, ticket(0)).is_empty());
        assert_eq!(coordination.waiting_for(&members), ["worker 1 to leave the training"]);
        assert!(members.leave(1, Leaving::Done));
        assert_eq!(are_ok(&coordination.leave(&members, 1)), [true]);
        assert_eq!(are_ok(&coordination.await_departures(&members, REPLICA, ticket(1))), [true]);
        let (mut members, mut coordination) = training();
        assert!(coordination.await_departures(&members, REPLICA, ticket(0)).is_empty());
        assert_eq!(members.lose(Some(1), &[]), [1]);
        assert_eq!(are_ok(&coordination.leave(&members, 1)), [true]);
    }

    #[test]
    fn two_that_wait_for_departures_do_not_wait_for_each_other() {
        let (members, mut coordination) = training();
        assert!(coordination.await_departures(&members, REPLICA, ticket(0)).is_empty());
        let other = Replica { worker: 1, ..REPLICA };
        assert_eq!(
            are_ok(&coordination.await_departures(&members, other, ticket(1))),
            [true, true]
        );
    }

    #[test]
    fn who_departs_while_it_waits_for_departures_is_told_so_and_waits_no_longer() {
        let (mut members, mut coordination) = training();
        assert!(coordination.await_departures(&members, REPLICA, ticket(0)).is_empty());
        assert_eq!(members.lose(Some(0), &[]), [0]);
        assert_eq!(are_ok(&coordination.leave(&members, 0)), [false]);
        assert!(coordination.waiting_for(&members).is_empty());
        assert!(coordination.await_departures(&members, REPLICA, ticket(1)).is_empty());
        coordination.forget(ticket(1).step);
        assert!(coordination.waiting().next().is_none());
    }
}
