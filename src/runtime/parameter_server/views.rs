//! Views at a parameter server: the task of the global step decides who takes part in rounds, and
//! tells the tasks that hold variables; [`Views`] and [`Participation`] have the rules.
//!
//! [`Participation`]: crate::sync::Participation

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Replica;
use crate::runtime::mail::Binding;
use crate::sync::{Decider, Fate, Progress, View, Views};
use crate::transport::PeerId;

use super::ParameterServer;
use super::coordination::Coordination;
use crate::runtime::error::{Code, Error};
use crate::runtime::messages::ParameterServerMessage;
use crate::runtime::state::{Action, StateRequest};

impl ParameterServer {
    /// Decides the views of the training that `binding` counts the steps of, if it has rounds.
    pub(super) fn begin_views(&mut self, binding: &Binding) {
        let has_rounds = binding.replicas.iter().any(|replica| replica.mode.needs().has_rounds());
        if !binding.counts || !has_rounds {
            return;
        }
        self.trainings.has_barrier |=
            binding.replicas.iter().any(|replica| replica.mode.needs().is_barrier());
        if self.trainings.views.is_some() {
            return;
        }
        let mut views = Views::default();
        self.trainings
            .members
            .all_that_departed()
            .lost
            .into_iter()
            .for_each(|worker| views.lose(worker));
        self.trainings.views = Some(views);
    }

    /// Forgets views announced by earlier incarnations of two tasks: the one that counts
    /// `binding`'s steps, and the one that registers it.
    pub(super) fn forget_earlier_deciders(&mut self, binding: &Binding) {
        if let Some(incarnation) = self.link.incarnation(binding.from) {
            self.trainings.participation.forget_earlier_life(binding.from.0, incarnation);
        }
        let Some((task, incarnation)) = binding.counted_by.as_deref() else { return };
        let holder =
            self.link.resolve(task).filter(|peer| self.link.actors.training.is_holder(*peer));
        let Some(peer) = holder else { return };
        if self.trainings.participation.forget_earlier_life(peer.0, *incarnation) {
            self.link.has_restarted(task, *incarnation);
        }
    }

    /// `worker` is lost: takes it out of the view, if that is decided here.
    pub(super) fn take_out(&mut self, worker: u32) {
        if let Some(views) = &mut self.trainings.views {
            views.lose(worker);
        }
    }

    /// `worker` is lost. If it had left, and has been let in again but has not begun to train, it
    /// is taken out.
    pub(super) fn take_out_again(&mut self, worker: u32) {
        if self.trainings.members.has_left(worker)
            && let Some(views) = self.trainings.views.as_mut().filter(|views| views.lets_in(worker))
        {
            views.lose(worker);
        }
    }

    /// Whether `binding` has to wait until its worker is let in, or until the view has changed.
    pub(super) fn is_kept_out(&mut self, binding: &Binding) -> bool {
        let mut is_kept_out = false;
        for replica in &binding.replicas {
            is_kept_out |= self.is_out(*replica)
                || self.trainings.views.as_ref().is_some_and(Views::is_changing)
                    && !self.is_past(*replica);
        }
        is_kept_out
    }

    /// Whether `replica` takes no part in rounds: it was lost or has left, and was not let in.
    fn is_out(&mut self, replica: Replica) -> bool {
        if !replica.mode.needs().has_rounds() || self.is_past(replica) {
            return false;
        }
        let Some(views) = &mut self.trainings.views else { return false };
        let worker = replica.worker;
        let is_known = views.is_out(worker) || views.lets_in(worker);
        if self.trainings.members.has_left(worker) && !is_known {
            views.lose(worker);
        }
        views.is_out(worker)
    }

    /// Whether the training of `replica` is over: it begins another one.
    fn is_past(&self, replica: Replica) -> bool {
        self.trainings.members.is_over() || self.trainings.members.all_departed(replica.workers)
    }

    /// Whether `request` has to wait for whole steps: a fence of a worker that is out, since others
    /// are inside their steps; a read, for a checkpoint or the like, of a variable that has not had
    /// the update of a round that is counted.
    pub(super) fn waits_for_whole_steps(&mut self, request: &StateRequest) -> bool {
        match &request.action {
            _ if self.trainings.members.is_over() => false,
            Action::PutUpFence { replica, .. } => self.is_out(*replica),
            Action::Read { variable, .. } if !request.ticket.step.trains => {
                let rounds = self.store.get(*variable).rounds.as_ref();
                rounds.is_some_and(|rounds| !rounds.is_past && rounds.gradients.lags_behind())
            }
            _ => false,
        }
    }

    /// Serves the requests that need not wait any longer.
    pub(super) fn serve_deferred(&mut self) {
        for request in std::mem::take(&mut self.deferred) {
            self.serve(request);
        }
    }

    /// Begins a change of the view if one is due, and ends the one under way once all have
    /// answered; then the next one, if a worker has come back meanwhile.
    pub(super) fn advance_views(&mut self) {
        if self.trainings.views.as_ref().is_none_or(Views::is_whole) {
            return;
        }
        loop {
            self.begin_change();
            if !self.end_change() {
                break;
            }
        }
        self.let_go_on();
    }

    fn begin_change(&mut self) {
        let Some(views) = &mut self.trainings.views else { return };
        let bindings = self.trainings.held_off.iter().flat_map(|binding| &binding.replicas);
        let fences = self.deferred.iter().filter_map(|request| match &request.action {
            Action::PutUpFence { replica, .. } => Some(replica),
            _ => None,
        });
        let has_rounds = |replica: &&Replica| replica.mode.needs().has_rounds();
        let seeking = bindings.chain(fences).filter(has_rounds);
        let seeking: BTreeSet<u32> = seeking.map(|replica| replica.worker).collect();
        views.seek(seeking.into_iter().filter(|worker| views.is_out(*worker)).collect());
        let at_rest = self.are_others_at_rest();
        let views = self.trainings.views.as_mut().expect("it was just there");
        if views.begin(at_rest) {
            self.flush_all();
        }
    }

    /// Whether all workers that take part are between two steps; they need not be where nobody
    /// reads variables while others change them.
    fn are_others_at_rest(&self) -> bool {
        let Some(views) = &self.trainings.views else { return true };
        let mut others =
            self.trainings.members.training(u32::MAX).filter(|worker| !views.is_out(*worker));
        let rests = |worker: u32| {
            self.trainings.coordinations.values().any(|training| training.is_at_rest(worker))
        };
        !self.trainings.has_barrier || others.all(rests)
    }

    /// Tells all tasks with variables, this one too, that the view is about to change.
    fn flush_all(&mut self) {
        let Some((number, out)) = self.trainings.views.as_ref().and_then(Views::proposed) else {
            return;
        };
        tracing::info!(number, ?out, "who takes part in rounds is about to change");
        for holder in self.other_holders() {
            let out = out.clone();
            self.link.send(holder, ParameterServerMessage::Flush { number, out });
        }
        let own = self.link.local();
        let progress = self.flush(own, number, out);
        self.flushed(own, number, &progress);
    }

    pub(super) fn other_holders(&self) -> Vec<PeerId> {
        let holders = self.link.actors.training.holders();
        holders.iter().copied().filter(|holder| *holder != self.link.local()).collect()
    }

    /// Makes no more rounds until the view of that number comes. Returns how far the gradients of
    /// the workers that are `out` have come.
    fn flush(&mut self, from: PeerId, number: u32, out: Vec<u32>) -> Vec<(u32, Progress)> {
        let progress = |worker: &u32| {
            let of_all = self.store.ids().filter_map(|id| self.store.get(id).progress(*worker));
            Some((*worker, of_all.reduce(Progress::and)?))
        };
        let progress = out.iter().filter_map(progress).collect();
        self.trainings.participation.flush(self.decider(from), number, out);
        progress
    }

    /// `peer`, in its life of now.
    fn decider(&self, peer: PeerId) -> Decider {
        let is_other = peer != self.link.local();
        let incarnation = if is_other { self.link.incarnation(peer) } else { None };
        Decider { task: peer.0, incarnation }
    }

    pub(super) fn on_flush(&mut self, from: PeerId, number: u32, out: Vec<u32>) {
        let progress = self.flush(from, number, out);
        self.link.send(from, ParameterServerMessage::Flushed { number, progress });
    }

    pub(super) fn flushed(&mut self, from: PeerId, number: u32, progress: &[(u32, Progress)]) {
        if let Some(views) = &mut self.trainings.views {
            views.answer(from.0, number, progress);
        }
    }

    /// Installs the new view here and everywhere, once all tasks have answered; returns whether it
    /// has. The task of a worker that is out is not waited for.
    fn end_change(&mut self) -> bool {
        let Some((views, (_, out))) = self
            .trainings
            .views
            .as_ref()
            .and_then(|views| views.proposed().map(|proposed| (views, proposed)))
        else {
            return false;
        };
        let has_servers = self.link.actors.training.has_servers();
        let is_gone = |task: PeerId| {
            !has_servers && self.worker_at(task).is_some_and(|worker| out.contains(&worker))
        };
        let mut holders = self.other_holders();
        holders.push(self.link.local());
        if holders.iter().any(|holder| views.waits_for(holder.0) && !is_gone(*holder)) {
            return false;
        }
        let round = self.trainings.coordinations.values().filter_map(Coordination::round).max();
        let views = self.trainings.views.as_mut().expect("it was just there");
        for worker in views.install(round.unwrap_or(0)) {
            tracing::warn!(
                worker,
                "a worker was lost in the midst of a step: its gradient counts for some variables \
                 and not for others"
            );
        }
        let view = views.view().clone();
        for holder in self.other_holders() {
            self.link.send(holder, ParameterServerMessage::Install(view.clone()));
        }
        self.install(self.link.local(), view);
        true
    }

    /// Goes on with the workers of a new view.
    pub(super) fn install(&mut self, from: PeerId, view: View) {
        let out = self.trainings.participation.install(self.decider(from), view);
        self.settle(&out);
        self.answer_joins();
        self.apply_all_rounds();
    }

    /// Drops what does not count of the gradients of workers who are out. When such a worker takes
    /// the step again, it is a new one.
    fn settle(&mut self, out: &BTreeMap<u32, Fate>) {
        for (worker, fate) in out {
            let task = self.task_of(*worker);
            for id in self.store.ids() {
                let Some(rounds) = &mut self.store.get_mut(id).rounds else { continue };
                let is_dropped = rounds.gradients.is_barrier() && *fate == Fate::Dropped;
                if let Some(task) = task.filter(|_| is_dropped) {
                    rounds.applied.forget(task);
                }
                let dropped = match fate {
                    Fate::Dropped => rounds.gradients.withdraw_of(*worker),
                    Fate::Counts => Vec::new(),
                };
                for offered in dropped {
                    self.answer(offered.ticket, Err(taken_out(*worker)));
                }
            }
        }
    }

    /// Lets those who rest go on, unless a worker is still to be let in.
    fn let_go_on(&mut self) {
        if self.trainings.views.as_ref().is_none_or(|views| !views.needs_rest()) {
            for coordination in self.trainings.coordinations.values_mut() {
                self.served.extend(coordination.go_on());
            }
        }
    }

    /// Tells `peer`, which was lost, again what it may not have heard.
    pub(super) fn tell_view_again(&mut self, peer: PeerId) {
        let Some(views) = &self.trainings.views else { return };
        if !self.other_holders().contains(&peer) || views.is_whole() && views.view().number == 0 {
            return;
        }
        if views.view().number > 0 {
            self.link.send(peer, ParameterServerMessage::Install(views.view().clone()));
        }
        if let Some((number, out)) = views.proposed().filter(|_| views.waits_for(peer.0)) {
            self.link.send(peer, ParameterServerMessage::Flush { number, out });
        }
    }

    /// The tasks that have not answered a change of the view.
    pub(super) fn view_waits_for(&self) -> Vec<PeerId> {
        let Some(views) = &self.trainings.views else { return Vec::new() };
        self.other_holders().into_iter().filter(|holder| views.waits_for(holder.0)).collect()
    }
}

/// The error of a gradient whose worker is counted as lost.
pub(super) fn taken_out(worker: u32) -> Error {
    let message = format!(
        "worker {worker} was counted as lost, and the others went on without its gradient; take \
         the step again"
    );
    Error::new(Code::Aborted, message)
}
