//! Changes of views at a parameter server: the task of the global step decides who takes part in
//! rounds, and tells the tasks that hold variables; [`Views`] and [`Participation`] have the rules.
//!
//! [`Participation`]: crate::sync::Participation

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Replica;
use crate::sync::{Fate, Progress, View, Views};
use crate::transport::PeerId;

use super::ParameterServer;
use super::coordination::Coordination;
use crate::runtime::error::{Code, Error};
use crate::runtime::messages::ParameterServerMessage;
use crate::runtime::state::{Action, StateRequest};

impl ParameterServer {
    /// Whether `request` has to wait for whole steps: a fence of a worker that is out, since others
    /// are inside their steps; a read, for a checkpoint or the like, of a variable that has not had
    /// the update of a round that is counted. So it is after the end of the training, too.
    pub(super) fn waits_for_whole_steps(&mut self, request: &StateRequest) -> bool {
        match &request.action {
            Action::PutUpFence { replica, .. } => self.trainings.take_out_if_left(*replica),
            Action::Read { variable, .. } | Action::Gather { variable, .. }
                if !request.ticket.step.trains =>
            {
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
        let answers = self.trainings.let_go_on();
        self.served.extend(answers);
    }

    fn begin_change(&mut self) {
        if self.trainings.views.is_none() {
            return;
        }
        let held_off = self.trainings.held_off.iter();
        let bindings = held_off.filter(|binding| !self.trainings.is_for_next(binding));
        let bindings = bindings.flat_map(|binding| &binding.replicas);
        let fences = self.deferred.iter().filter_map(|request| match &request.action {
            Action::PutUpFence { replica, .. } => Some(replica),
            _ => None,
        });
        let has_rounds = |replica: &&Replica| replica.mode.needs().has_rounds();
        let seeking = bindings.chain(fences).filter(has_rounds);
        let seeking = seeking.map(|replica| replica.worker);
        let seeking: BTreeSet<u32> =
            seeking.chain(self.trainings.those_awaiting_a_view()).collect();
        let views = self.trainings.views.as_mut().expect("it was just there");
        views.seek(seeking.into_iter().filter(|worker| views.is_out(*worker)).collect());
        let at_rest = self.trainings.are_others_at_rest();
        let views = self.trainings.views.as_mut().expect("it was just there");
        if views.begin(at_rest) {
            self.flush_all();
        }
    }

    /// Tells all tasks with variables, this one too, that the view is about to change.
    fn flush_all(&mut self) {
        let Some((number, out)) = self.trainings.views.as_ref().and_then(Views::proposed) else {
            return;
        };
        tracing::info!(number, ?out, "who takes part in rounds is about to change");
        for holder in self.trainings.other_holders() {
            let out = out.clone();
            self.outbox.send(holder, ParameterServerMessage::Flush { number, out });
        }
        let own = self.outbox.local();
        let progress = self.flush(own, number, out);
        self.trainings.flushed(own, number, &progress);
    }

    /// `from` makes no more rounds, for the change of that number. If the end has cut off a round
    /// there, and its announcer is taken out, its own word may not come here. An answer in an
    /// earlier training says nothing of this one.
    pub(super) fn hear_of_flush(
        &mut self,
        from: PeerId,
        number: u32,
        progress: &[(u32, Progress)],
        is_cut_off: bool,
    ) {
        if self.trainings.flushed(from, number, progress) && is_cut_off {
            self.outbox.actors.training.note(
                from,
                self.outbox.incarnation(from),
                &self.trainings.over(),
            );
            self.hear_of_the_end(from, self.trainings.members.number());
        }
    }

    /// Makes no more rounds until the view of that number comes. Returns how far the gradients of
    /// the workers that are `out` have come.
    fn flush(&mut self, from: PeerId, number: u32, out: Vec<u32>) -> Vec<(u32, Progress)> {
        let progress = |worker: &u32| {
            let of_all = self.store.ids().filter_map(|id| self.store.get(id).progress(*worker));
            Some((*worker, of_all.reduce(Progress::and)?))
        };
        let progress = out.iter().filter_map(progress).collect();
        self.trainings.participation.flush(self.trainings.decider(from), number, out);
        progress
    }

    pub(super) fn on_flush(&mut self, from: PeerId, number: u32, out: Vec<u32>) {
        let progress = self.flush(from, number, out);
        let is_cut_off = self.trainings.members.is_cut_off();
        let flushed = ParameterServerMessage::Flushed { number, progress, is_cut_off };
        self.outbox.send(from, flushed);
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
        let has_servers = self.outbox.actors.training.has_servers();
        let is_gone = |task: PeerId| {
            !has_servers
                && self.trainings.worker_at(task).is_some_and(|worker| out.contains(&worker))
        };
        let mut holders = self.trainings.other_holders();
        holders.push(self.outbox.local());
        if holders.iter().any(|holder| views.waits_for(holder.0) && !is_gone(*holder)) {
            return false;
        }
        let round = self.trainings.coordinations.values().filter_map(Coordination::round).max();
        let members = &self.trainings.members;
        let views = self.trainings.views.as_mut().expect("it was just there");
        let torn = views.install(round.unwrap_or_default()).into_iter();
        let awaiting = &mut self.trainings.awaiting_view;
        // Who has left was between two steps; variables have made rounds without it since.
        let had_left = |worker: &u32| members.has_left(*worker) || awaiting.contains(worker);
        let torn: Vec<u32> = torn.filter(|worker| !had_left(worker)).collect();
        awaiting.retain(|worker| views.is_out(*worker));
        for worker in torn {
            tracing::warn!(
                worker,
                "a worker was lost in the midst of a step: its gradient counts for some variables \
                 and not for others"
            );
        }
        let view = self.trainings.view();
        for holder in self.trainings.other_holders() {
            self.trainings.tell_what_is_cut_off(holder);
            self.outbox.send(holder, ParameterServerMessage::Install(view.clone()));
        }
        self.install(self.outbox.local(), view);
        true
    }

    /// Goes on with the workers of a new view, in the next training if the view is of that.
    pub(super) fn install(&mut self, from: PeerId, view: View) {
        if view.training > self.trainings.members.number() {
            self.begin_training(view.training);
        }
        let out = self.trainings.participation.install(self.trainings.decider(from), view);
        self.settle(&out);
        self.cut_off_what_lacks_an_announcer();
        self.trainings.answer_joins();
        self.apply_all_rounds();
    }

    /// Drops what does not count of the gradients of workers who are out. When such a worker takes
    /// the step again, it is a new one.
    fn settle(&mut self, out: &BTreeMap<u32, Fate>) {
        for (worker, fate) in out {
            let task = self.trainings.task_of(*worker);
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
}

/// The error of a gradient whose worker is counted as lost.
pub(super) fn taken_out(worker: u32) -> Error {
    let message = format!(
        "worker {worker} was counted as lost, and the others went on without its gradient; take \
         the step again"
    );
    Error::new(Code::Aborted, message)
}
