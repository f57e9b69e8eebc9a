//! Membership of trainings at a parameter server: workers that join, leave, are lost or come back;
//! trainings that begin anew.

use std::time::Duration;

use actix::Context;

use crate::graph::Replica;
use crate::sync::{Joined, Leaving};
use crate::transport::{Loss, PeerId};

use super::ParameterServer;
use crate::runtime::mail::{Binding, ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::tell;
use crate::runtime::state::Bound;

/// How long a worker whose task has fallen silent is still waited for: longer than it takes to
/// connect again, or to be started again by a scheduler.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

impl ParameterServer {
    /// Makes a partition ready. One of a training step waits until the fence of its training is
    /// lifted, and until all workers have left a training that its own worker has left already.
    pub(super) fn make_ready(&mut self, binding: Binding) {
        self.trainings.forget_earlier_deciders(&binding);
        self.cut_off_what_lacks_an_announcer();
        self.trainings.begin_views(&binding);
        self.has_come(binding.from, binding.graph.master);
        self.hear_of_ended(&binding);
        self.trainings.ask_for_views(&binding);
        self.bind_or_hold_off(binding);
    }

    /// Whoever makes ready for a later training has ended the one before, even if its word of that
    /// was lost with a connection.
    fn hear_of_ended(&mut self, binding: &Binding) {
        let members = &self.trainings.members;
        if binding.training <= members.number() {
            return;
        }
        let workers = binding.replicas.iter().map(|replica| replica.worker);
        let ended: Vec<u32> = workers.filter(|worker| members.trains(*worker)).collect();
        ended.into_iter().for_each(|worker| self.leave(worker, Leaving::Done));
    }

    /// Notes that `user` is heard of: a task, whose own `master` registers something here, or a
    /// client of this task's `master`, which leads its sessions.
    pub(super) fn has_come(&mut self, user: PeerId, master: u64) {
        let worker = self.trainings.worker_at(user);
        if user != self.outbox.local()
            && self.trainings.joins.has_come(user, worker)
            && let Some(worker) = worker
        {
            if worker > 0 {
                self.trainings.tell_of_chief(user);
            }
            self.trainings.tell_of_own_stop(user);
        }
        if worker == Some(0) {
            self.outbox.actors.training.forget_failure();
        }
        let restarted =
            worker.filter(|worker| self.trainings.members.lose_earlier_life(*worker, master));
        self.go_on_without_all(restarted);
        if let Some(worker) =
            worker.filter(|worker| self.trainings.members.find_again(*worker, master))
        {
            self.trainings.welcome_back(worker);
            self.trainings.tell_of_found(worker);
        }
        if worker == Some(0) {
            self.trainings.find_chief();
        }
    }

    /// Makes ready the partitions that waited and need not wait any longer. If another training
    /// begins with one of them, those before it may have waited for that.
    pub(super) fn bind_held_off(&mut self) {
        loop {
            let before = self.trainings.members.number();
            for binding in std::mem::take(&mut self.trainings.held_off) {
                self.bind_or_hold_off(binding);
            }
            if self.trainings.members.number() == before {
                break;
            }
        }
    }

    fn bind_or_hold_off(&mut self, binding: Binding) {
        let (is_held_off, answers) = self.trainings.hold_off(&binding);
        self.served.extend(answers);
        if is_held_off { self.trainings.held_off.push(binding) } else { self.bind(binding) }
    }

    fn bind(&mut self, binding: Binding) {
        let Binding { from, graph, attempt, scope, variables, replicas, counts, training, .. } =
            binding;
        let has_barrier = replicas.iter().any(|replica| replica.mode.needs().is_barrier());
        for replica in replicas {
            let is_back = self.take_part(from, graph.master, replica, training);
            if is_back && counts {
                self.trainings.tell_of_return(replica.worker);
            }
        }
        self.trainings.has_barrier |= counts && has_barrier;
        self.trainings.counts |= counts && from != self.outbox.local();
        let epoch = self.trainings.members.epoch();
        let outcome = self.store.bind(scope, variables).map(|variables| Bound { variables, epoch });
        let own = self.outbox.name(self.outbox.local());
        let outcome = outcome.map_err(|error| Box::new(error.on(&own)));
        let replaced = self.store.take_replaced();
        tell(&self.outbox.actors.worker, WorkerMail::Bound { graph, attempt, outcome, replaced });
    }

    /// `from` says that `worker` takes no more steps in the training of that `number`; 0 if it is
    /// the one that goes on. The word of another task may be late: a task that has met the worker,
    /// or was told that it is let in again, finds out by itself and ignores it. A task with
    /// variables ignores it only once the worker trains there: before, all of these tasks have to
    /// agree that the worker is to be let in.
    pub(super) fn hear_of_leaving(&mut self, from: PeerId, worker: u32, why: Leaving, number: u32) {
        let members = &self.trainings.members;
        if (1..members.number()).contains(&number) && !members.trains(worker) {
            return; // all that took part in that training have left it
        }
        let is_next = number > members.number() && members.training(u32::MAX).next().is_none();
        if is_next && self.trainings.worker_at(self.outbox.local()).is_none() {
            self.begin_training(number); // it had no part here
        }
        if worker == 0 {
            self.trainings.hear_of_leaving_chief(from, why);
        }
        let other = self.trainings.task_of(worker).filter(|task| *task != from);
        let is_holder = self.outbox.actors.training.is_holder(self.outbox.local());
        let knows_better = |task| {
            let has_met = self.trainings.joins.is_used_by(task);
            has_met && (!is_holder || self.trainings.members.trains(worker))
                || self.trainings.participation.lets_in(worker)
        };
        if !other.is_some_and(knows_better) {
            self.leave(worker, why);
        }
    }

    /// `worker` takes no more steps: no step waits for it from now on.
    fn leave(&mut self, worker: u32, why: Leaving) {
        self.trainings.joins.hear_of_departure();
        self.trainings.participation.leave(worker);
        self.trainings.views.iter_mut().for_each(|views| views.leave(worker));
        if why == Leaving::Stopped {
            self.trainings.has_lost(worker);
        }
        if self.trainings.members.leave(worker, why) {
            self.go_on_without(worker);
        } else {
            self.apply_all_rounds(); // one that was let in and never began was waited for, too
        }
        self.trainings.answer_joins();
    }

    /// Handles the loss of a task. Its workers count as departed until they are back: synchronous
    /// training goes on with the others, and loses a worker rather than its progress.
    ///
    /// A task that has not stopped is waited for a while longer: it may have lost nothing, since it
    /// can be this task that stood still. That a connection was reset does not prove a restart
    /// either: a peer that gave it up meanwhile answers so, too. A worker's next life is known by
    /// its master as soon as it makes ready.
    pub(super) fn lose(
        &mut self,
        peer: PeerId,
        masters: &[u64],
        loss: Loss,
        context: &mut Context<Self>,
    ) {
        self.trainings.joins.is_gone(peer);
        self.trainings.held_off.retain(|binding| binding.from != peer);
        self.snapshots.lose(masters);
        self.trainings.tell_view_again(peer);
        self.trainings.ask_again_for_views(peer);
        if loss != Loss::Stopped {
            self.trainings.tell_who_has_departed(peer);
        }
        if let Some(worker) = self.trainings.worker_at(peer) {
            self.trainings.take_out_again(worker);
        }
        let worker = self.trainings.worker_at(peer);
        if loss == Loss::Stopped {
            let lost = self.trainings.members.lose(worker, masters);
            return self.tell_of_losses(lost);
        }
        let (silence, missed) = self.trainings.members.miss(worker, masters);
        if missed.is_empty() {
            return self.trainings.answer_joins(); // it may be the last that used this task
        }
        tracing::info!(task = %self.outbox.name(peer), "a worker is missed");
        for worker in missed {
            for coordination in self.trainings.coordinations.values_mut() {
                self.served.extend(coordination.take_down_fence(worker));
            }
        }
        self.trainings.tell_own_after(GRACE, ParameterServerMail::GraceIsOver { silence }, context);
    }

    /// Loses those workers that have not been heard of since that silence began.
    pub(super) fn end_grace(&mut self, silence: u64) {
        let lost = self.trainings.members.lose_missed(silence);
        self.tell_of_losses(lost);
    }

    /// Goes on without the workers that are `lost`, and tells the other tasks.
    fn tell_of_losses(&mut self, lost: Vec<u32>) {
        self.trainings.tell_of_losses(&lost);
        self.trainings.lose_chief(&lost);
        self.go_on_without_all(lost);
    }

    /// Another task has lost `worker`. Who has met the worker finds out by itself.
    pub(super) fn hear_of_loss(&mut self, worker: u32) {
        if self.trainings.is_told_of_chief(worker) {
            return self.trainings.hear_of_lost_chief();
        }
        let has_met = self
            .trainings
            .task_of(worker)
            .is_some_and(|task| self.trainings.joins.is_used_by(task));
        if !has_met && self.trainings.members.is_expected(worker) {
            let lost = self.trainings.members.lose(Some(worker), &[]);
            self.trainings.lose_chief(&lost);
            self.go_on_without_all(lost);
        }
    }

    fn go_on_without_all(&mut self, workers: impl IntoIterator<Item = u32>) {
        for worker in workers {
            self.trainings.joins.hear_of_departure();
            self.trainings.log_worker(worker, self.trainings.loss_of(worker));
            self.trainings.has_lost(worker);
            self.trainings.take_out(worker);
            self.go_on_without(worker);
        }
        self.trainings.answer_joins();
    }

    /// A task with variables asks to let `worker` in again, which had left there.
    pub(super) fn on_let_in(&mut self, worker: u32, view: u32) {
        if self.trainings.take_out_until_let_in(worker, view) {
            self.trainings.tell_of_return(worker);
            self.go_on_without(worker);
        }
    }

    fn go_on_without(&mut self, worker: u32) {
        for coordination in self.trainings.coordinations.values_mut() {
            self.served.extend(coordination.leave(&self.trainings.members, worker));
        }
        self.apply_all_rounds();
    }

    /// `replica` makes ready here for the training of that `number`: its first steps, or those of
    /// another life or session after it had departed. If it had left the last training in good
    /// order, and that training is over, another one begins. Returns whether it had left this one.
    fn take_part(&mut self, from: PeerId, master: u64, replica: Replica, number: u32) -> bool {
        if self.trainings.is_own(from)
            && self.trainings.members.is_done_with_what_is_over(replica.worker)
        {
            self.trainings.members.begin_anew();
            self.begin_anew();
        }
        let had_left = self.trainings.members.has_left(replica.worker);
        let joined = self.trainings.members.join(replica.worker, replica.workers, master, number);
        match joined {
            Joined::Expected => {}
            Joined::Back => self.trainings.welcome_back(replica.worker),
            Joined::Anew => self.begin_anew(),
        }
        if self.trainings.members.is_over() {
            self.outbox.send(from, self.trainings.over());
        }
        self.snapshots.join(master, replica);
        had_left && joined == Joined::Back
    }

    /// Begins the training of that number, which another task has told of.
    pub(super) fn begin_training(&mut self, number: u32) {
        let training = &self.outbox.actors.training;
        // The program may have heard of the end of that training already.
        let is_over = training.is_over() && training.number() >= number;
        self.trainings.members.begin(number);
        self.begin_anew();
        self.outbox.actors.training.is_over.set(is_over);
    }

    /// Begins another training, in an epoch of its own: leftovers of the one before are dropped.
    pub(super) fn begin_anew(&mut self) {
        tracing::debug!(epoch = %self.trainings.members.epoch(), "another training begins");
        self.trainings.begin_anew();
        self.snapshots.finish();
        for (_, before) in std::mem::take(&mut self.trainings.coordinations) {
            self.refuse_waiting(before.waiting().collect());
        }
        for id in self.store.ids() {
            let past = self.store.get_mut(id).begin_anew();
            self.give_up(past);
        }
    }
}
