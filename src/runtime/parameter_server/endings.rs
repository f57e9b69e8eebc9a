//! Who takes part in trainings at a parameter server: workers that leave, are lost or come back, a
//! training that is over, one that is reset.

use std::collections::BTreeSet;

use crate::graph::{Replica, VariableSpec};
use crate::transport::PeerId;

use super::ParameterServer;
use crate::runtime::error::{Code, Error};
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, PeerMessage, Scope, Ticket, Values, WorkerMessage};
use crate::runtime::parameter_server::coordination::Coordination;
use crate::runtime::parameter_server::variable_store::Cleared;

/// A partition that is made ready to run here.
pub(super) struct Binding {
    pub(super) from: PeerId,
    pub(super) graph: GraphHandle,
    pub(super) scope: Option<Scope>,
    pub(super) variables: Vec<VariableSpec>,
    /// Whose training steps it is a part of.
    pub(super) replicas: Vec<Replica>,
}

impl ParameterServer {
    /// Makes a partition ready; one of a training step not before a fence of its training is
    /// lifted.
    pub(super) fn make_ready(&mut self, binding: Binding) {
        let mut is_held_off = false;
        for coordination in self.coordinations.values_mut() {
            for answers in
                binding.replicas.iter().filter_map(|replica| coordination.hold_off(*replica))
            {
                self.served.extend(answers);
                is_held_off = true;
            }
        }
        if is_held_off { self.held_off.push(binding) } else { self.bind(binding) }
    }

    /// Lets in those who wait for a fence to be lifted, once none is left.
    pub(super) fn let_in(&mut self) {
        if !self.held_off.is_empty() && !self.coordinations.values().any(Coordination::has_fence) {
            std::mem::take(&mut self.held_off).into_iter().for_each(|binding| self.bind(binding));
        }
    }

    fn bind(&mut self, Binding { from, graph, scope, variables, replicas }: Binding) {
        replicas.iter().for_each(|replica| self.take_part(from, graph.master, *replica));
        let outcome = self.store.bind(scope, variables);
        let outcome = outcome.map_err(|error| error.on(&self.link.name(self.link.local())));
        tell(&self.link.actors.worker, WorkerMessage::Bound { graph, outcome });
    }

    /// `worker` takes no more steps: nobody waits for it from now on.
    pub(super) fn leave(&mut self, worker: u32) {
        if self.departures.leave(worker) {
            self.go_on_without(worker);
        }
        self.answer_joins();
    }

    /// A task is lost. The workers that it was count as departed until they are back: synchronous
    /// training goes on with those that are left, and loses a worker rather than its progress.
    pub(super) fn lose(&mut self, peer: PeerId, masters: &[u64]) {
        let trains =
            self.tasks.iter().zip(0..).filter(|(task, _)| **task == peer).map(|(_, worker)| worker);
        let lost: BTreeSet<u32> = self.departures.replicas_of(masters).chain(trains).collect();
        self.held_off.retain(|binding| binding.from != peer);
        self.snapshots.lose(masters);
        for worker in lost {
            if self.departures.lose(worker) {
                tracing::info!(
                    worker, task = %self.link.name(peer),
                    "lost a worker; going on without it"
                );
                self.go_on_without(worker);
            }
        }
        self.answer_joins();
    }

    fn go_on_without(&mut self, worker: u32) {
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
    }

    /// `replica` makes ready to train here: its first steps, or those of another life or session
    /// after it had departed. Where the training was over, and it had left that in good order, this
    /// is the beginning of another.
    pub(super) fn take_part(&mut self, from: PeerId, master: u64, replica: Replica) {
        if self.departures.begins_anew(replica) {
            tracing::debug!("another training begins");
            self.is_over = false;
            self.link.actors.training_over.set(false);
            self.coordinations.values_mut().for_each(Coordination::reopen);
            for worker in self.departures.clear() {
                self.wait_again_for(worker);
            }
        }
        if self.departures.join(master, replica.worker) {
            tracing::info!(
                worker = replica.worker, task = %self.link.name(from),
                "a worker is back"
            );
            self.wait_again_for(replica.worker);
        }
        self.coordinations.values_mut().for_each(|coordination| coordination.begin(replica.worker));
        if self.is_over {
            self.link.send(from, PeerMessage::TrainingOver);
        } else {
            self.snapshots.join(master, replica);
        }
    }

    fn wait_again_for(&mut self, worker: u32) {
        self.coordinations.values_mut().for_each(|coordination| coordination.rejoin(worker));
        for id in self.store.ids() {
            if let Some(rounds) = &mut self.store.get_mut(id).rounds
                && worker < rounds.training.workers
            {
                rounds.gradients.rejoin(worker);
            }
        }
    }

    /// The training is over: whoever waits is let go, without its gradient.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        self.snapshots.finish();
        for coordination in self.coordinations.values_mut() {
            self.served.extend(coordination.finish());
        }
        for id in self.store.ids() {
            let stored = self.store.get_mut(id);
            let held =
                stored.rounds.as_mut().map(|rounds| rounds.gradients.finish()).unwrap_or_default();
            let left_over = held.iter().filter(|offered| offered.goes_on).count();
            if left_over > 0 {
                let variable = &stored.spec.shared_name;
                tracing::info!(
                    %variable, left_over,
                    "the last round is not complete: its gradients are dropped"
                );
            }
            for offered in held.into_iter().filter(|offered| !offered.goes_on) {
                self.answer(offered.ticket, Ok(Values::new()));
            }
        }
    }

    pub(super) fn answer_joins(&mut self) {
        for (workers, reply) in std::mem::take(&mut self.joins) {
            if !self.departures.is_over(workers) {
                self.joins.push((workers, reply));
            } else if reply.send(()).is_err() {
                tracing::debug!("nobody waits any more for the end of the training");
            }
        }
    }

    /// The variables are cleared: who waits for something in their trainings waits in vain.
    pub(super) fn forget_trainings(&mut self, cleared: Cleared) {
        self.snapshots.clear(&cleared.variables);
        let coordinations = cleared.variables.iter().filter_map(|id| self.coordinations.remove(id));
        let waiting: Vec<Ticket> = cleared
            .waiting
            .into_iter()
            .chain(coordinations.flat_map(Coordination::waiting))
            .collect();
        self.refuse_waiting(waiting);
    }

    /// What `waiting` wait for was reset.
    pub(super) fn refuse_waiting(&mut self, waiting: Vec<Ticket>) {
        for ticket in waiting {
            self.answer(
                ticket,
                Err(Error::new(Code::Aborted, "what the step waits for was reset")),
            );
        }
    }
}
