//! Views of trainings: who takes part in rounds, or has to wait until it is let in, and which tasks
//! with variables have yet to answer a change.

use crate::graph::Replica;
use crate::sync::{Decider, Progress, View, Views};
use crate::transport::PeerId;

use super::Trainings;
use crate::runtime::mail::Binding;
use crate::runtime::messages::ParameterServerMessage;
use crate::runtime::parameter_server::coordination::Coordination;
use crate::runtime::state::Served;

impl Trainings {
    /// Decides the views of the training that `binding` counts the steps of, if it has rounds.
    pub(crate) fn begin_views(&mut self, binding: &Binding) {
        let has_rounds = binding.replicas.iter().any(|replica| replica.mode.needs().has_rounds());
        if !binding.counts || !has_rounds {
            return;
        }
        if self.views.is_some() {
            return;
        }
        let mut views = Views::default();
        let lost = self.members.all_that_departed().lost;
        lost.iter().chain(&self.awaiting_view).for_each(|worker| views.lose(*worker));
        self.views = Some(views);
    }

    /// Forgets views announced by earlier incarnations of two tasks: the one that counts
    /// `binding`'s steps, which is noted, and the one that registers it.
    pub(crate) fn forget_earlier_deciders(&mut self, binding: &Binding) {
        if let Some(incarnation) = self.outbox.incarnation(binding.from) {
            self.participation.forget_earlier_life(binding.from.0, incarnation);
        }
        let Some((task, incarnation)) = binding.counted_by.as_deref() else { return };
        let holder =
            self.outbox.resolve(task).filter(|peer| self.outbox.actors.training.is_holder(*peer));
        let Some(peer) = holder else { return };
        self.step_counter = Some(peer).filter(|peer| *peer != self.outbox.local());
        if self.participation.forget_earlier_life(peer.0, *incarnation) {
            self.outbox.has_restarted(task, *incarnation);
        }
    }

    /// `worker` is lost: takes it out of the view, if that is decided here.
    pub(crate) fn take_out(&mut self, worker: u32) {
        if let Some(views) = &mut self.views {
            views.lose(worker);
        }
    }

    /// `worker` is lost. If it had left, and has been let in again but has not begun to train, it
    /// is taken out.
    pub(crate) fn take_out_again(&mut self, worker: u32) {
        if self.members.has_left(worker)
            && let Some(views) = self.views.as_mut().filter(|views| views.lets_in(worker))
        {
            views.lose(worker);
        }
    }

    /// Asks the task that decides the views to let in the workers of `binding` that are held off
    /// here until then: it may not have heard that they had left.
    pub(crate) fn ask_for_views(&self, binding: &Binding) {
        let Some(decider) = self.step_counter.filter(|_| !self.is_for_next(binding)) else {
            return;
        };
        let view = self.participation.view_of(decider.0);
        for replica in binding.replicas.iter().filter(|replica| self.waits_for_view(**replica)) {
            let worker = replica.worker;
            self.outbox.send(decider, ParameterServerMessage::LetIn { worker, view });
        }
    }

    /// `peer` was lost: asks it again, if it decides the views. Its answer, or what it was asked,
    /// may be lost, too.
    pub(crate) fn ask_again_for_views(&self, peer: PeerId) {
        if self.step_counter == Some(peer) {
            self.held_off.iter().for_each(|binding| self.ask_for_views(binding));
        }
    }

    /// Another task, which knows the views up to that number, holds `worker` off until a view lets
    /// it in: the worker had left there, and this task may not have heard so. Takes the worker out
    /// of the view if need be, so that the next one lets it in. Returns whether it does.
    pub(crate) fn take_out_until_let_in(&mut self, worker: u32, view: u32) -> bool {
        if self.views.as_ref().is_some_and(|views| views.lets_in_after(worker, view)) {
            return false;
        }
        self.awaiting_view.insert(worker);
        self.take_out(worker);
        true
    }

    /// Keeps `binding` out, if it has to wait until its worker is let in, or until the view has
    /// changed. Takes out of the view those of its workers that have left. Returns whether it does.
    pub(super) fn keep_out(&mut self, binding: &Binding) -> bool {
        if self.is_for_next(binding) {
            return false;
        }
        let mut is_kept_out = false;
        for replica in &binding.replicas {
            is_kept_out |= self.take_out_if_left(*replica)
                || self.waits_for_view(*replica)
                || self.views.as_ref().is_some_and(Views::is_changing) && !self.is_past(*replica);
        }
        is_kept_out
    }

    /// Takes `replica` out of the view if it has left and is in it still. Returns whether it takes
    /// no part in rounds: it was lost or has left, and was not let in.
    pub(crate) fn take_out_if_left(&mut self, replica: Replica) -> bool {
        if !replica.mode.needs().has_rounds() || self.is_past(replica) {
            return false;
        }
        let Some(views) = &mut self.views else { return false };
        let worker = replica.worker;
        let is_known = views.is_out(worker) || views.lets_in(worker);
        if self.members.has_left(worker) && !is_known {
            views.lose(worker);
        }
        views.is_out(worker)
    }

    /// Whether `replica` had left, and takes no part in the rounds here until the view of another
    /// task lets it in.
    fn waits_for_view(&self, replica: Replica) -> bool {
        let has_barrier = replica.mode.needs().is_barrier();
        has_barrier
            && self.step_counter.is_some()
            && self.participation.has_left(replica.worker)
            && !self.is_past(replica)
    }

    /// The workers that train here, and that another task holds off until a view lets them in.
    pub(crate) fn those_awaiting_a_view(&self) -> impl Iterator<Item = u32> {
        self.awaiting_view.iter().copied().filter(|worker| self.members.trains(*worker))
    }

    /// Whether the training of `replica` is over: it begins another one. Behind a barrier
    /// it is not over before its announced end has cut off a round.
    fn is_past(&self, replica: Replica) -> bool {
        let makes_rounds = replica.mode.needs().is_barrier() && !self.members.is_cut_off();
        self.members.is_over() && !makes_rounds
            || self.members.is_done_with_what_is_over(replica.worker)
            || self.members.all_departed(replica.workers)
    }

    /// Whether all workers that take part are between two steps. Always true in a training whose
    /// variables nobody reads while others change them.
    pub(crate) fn are_others_at_rest(&self) -> bool {
        let Some(views) = &self.views else { return true };
        let mut others = self.members.training(u32::MAX).filter(|worker| !views.is_out(*worker));
        let rests =
            |worker: u32| self.coordinations.values().any(|training| training.is_at_rest(worker));
        !self.has_barrier || others.all(rests)
    }

    pub(crate) fn other_holders(&self) -> Vec<PeerId> {
        let holders = self.outbox.actors.training.holders();
        holders.iter().copied().filter(|holder| *holder != self.outbox.local()).collect()
    }

    /// `peer`, in its life of now.
    pub(crate) fn decider(&self, peer: PeerId) -> Decider {
        let is_other = peer != self.outbox.local();
        let incarnation = if is_other { self.outbox.incarnation(peer) } else { None };
        Decider { task: peer.0, incarnation }
    }

    /// The view that was installed last, as the other tasks with variables are told it.
    pub(crate) fn view(&self) -> View {
        let view = self.views.as_ref().map(|views| views.view().clone()).unwrap_or_default();
        View { training: self.members.number(), ..view }
    }

    /// Takes the answer of `from` to the change of that number; returns whether it is under way.
    pub(crate) fn flushed(
        &mut self,
        from: PeerId,
        number: u32,
        progress: &[(u32, Progress)],
    ) -> bool {
        self.views.as_mut().is_some_and(|views| views.answer(from.0, number, progress))
    }

    /// Tells `peer`, which was lost, again what it may not have heard.
    pub(crate) fn tell_view_again(&mut self, peer: PeerId) {
        let is_first = |views: &Views| views.is_whole() && views.view().number == 0;
        if self.views.as_ref().is_none_or(is_first) && self.told_of == 1
            || !self.other_holders().contains(&peer)
        {
            return;
        }
        self.tell_what_is_cut_off(peer);
        let view = self.view();
        if view.number > 0 || view.training > 1 {
            self.outbox.send(peer, ParameterServerMessage::Install(view));
        }
        let Some(views) = &self.views else { return };
        if let Some((number, out)) = views.proposed().filter(|_| views.waits_for(peer.0)) {
            self.outbox.send(peer, ParameterServerMessage::Flush { number, out });
        }
    }

    /// The tasks that have not answered a change of the view.
    pub(crate) fn view_waits_for(&self) -> Vec<PeerId> {
        let Some(views) = &self.views else { return Vec::new() };
        self.other_holders().into_iter().filter(|holder| views.waits_for(holder.0)).collect()
    }

    /// Lets those who rest go on, unless a worker is still to be let in. Returns the answers.
    pub(crate) fn let_go_on(&mut self) -> Vec<Served> {
        if self.views.as_ref().is_some_and(Views::needs_rest) {
            return Vec::new();
        }
        self.coordinations.values_mut().flat_map(Coordination::go_on).collect()
    }
}
