//! Who takes part in the trainings at a task, whether they are over, and the epoch.
//!
//! It is the only list of workers that a task keeps. All other state of a worker (a vote, a held
//! gradient, the answer to its last step) is kept by the worker's index, and asks here whether it
//! still counts. The size is the cluster's, however many steps, sessions and lives there are.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::members::{Member, Members, State};
use super::{Departed, Epoch, Leaving, Participation};

/// The workers of a task's trainings: joined, live, left, lost, back.
#[derive(Debug)]
pub(crate) struct Membership {
    epoch: Epoch,
    /// The number of the present or last training in the programs of its workers.
    number: u32,
    is_over: bool,
    /// Whether gradients behind a barrier are dropped from now on.
    is_cut_off: bool,
    members: Members,
    /// The number of workers of the present or last training. Unknown until a worker has joined.
    size: Option<u32>,
    /// The number of silences so far.
    silences: u64,
}

/// The state of a worker that makes ready to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The worker is waited for.
    Expected,
    /// The worker had departed, and is waited for again.
    Back,
    /// The worker is the first of another training: the one before is over, and this worker had
    /// left it in good order. All are waited for again, in a new epoch.
    Anew,
}

impl Default for Membership {
    fn default() -> Self {
        Self {
            epoch: Epoch(1),
            number: 1,
            is_over: false,
            is_cut_off: false,
            members: Members::default(),
            size: None,
            silences: 0,
        }
    }
}

impl Membership {
    /// The current epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The number of the present or last training in the programs of its workers.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether the training is over for everybody.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the end has cut off the round behind a barrier.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Has `worker` of `workers` make ready for the training of that `number` in its program (0 if
    /// it is not known), by order of `master`.
    pub(crate) fn join(&mut self, worker: u32, workers: u32, master: u64, number: u32) -> Joined {
        let begins_anew =
            self.is_done(worker) && (number > self.number || self.all_departed(workers));
        if begins_anew {
            self.begin(number);
        }
        self.number = self.number.max(number);
        let had_departed = !self.is_live(worker);
        self.size = Some(workers);
        self.members.set_state(worker, State::Training);
        let member = self.members.note(worker);
        member.missed_in = None;
        member.masters.insert(master);
        match had_departed {
            _ if begins_anew => Joined::Anew,
            true => Joined::Back,
            false => Joined::Expected,
        }
    }

    /// Whether `worker`, which makes ready for the training of that `number`, is early for it:
    /// others have yet to leave the one before.
    pub(crate) fn is_early(&self, worker: u32, workers: u32, number: u32) -> bool {
        self.is_for_next(worker, number)
            && match number > self.number {
                true => self.training(u32::MAX).next().is_some(),
                false => !self.all_departed(workers),
            }
    }

    /// Whether `worker`, which makes ready for the training of that `number`, has ended the one
    /// here in good order, and comes for the next.
    pub(crate) fn is_for_next(&self, worker: u32, number: u32) -> bool {
        self.is_done(worker) && (self.is_over || number > self.number)
    }

    /// Whether the training is over, and `worker` has ended it in good order.
    pub(crate) fn is_done_with_what_is_over(&self, worker: u32) -> bool {
        self.is_over && self.is_done(worker)
    }

    /// Has `worker` leave: it takes no more steps. Returns whether that changes who is waited for.
    pub(crate) fn leave(&mut self, worker: u32, why: Leaving) -> bool {
        self.depart(
            worker,
            match why {
                Leaving::Done => State::Done,
                Leaving::Stopped => State::Stopped,
            },
        )
    }

    /// `worker` is waited for again, if it had left. Returns whether it had.
    pub(crate) fn come_back(&mut self, worker: u32) -> bool {
        let had_left = self.has_left(worker);
        if had_left {
            self.members.set_state(worker, State::Expected);
        }
        had_left
    }

    /// Loses a task, with the `worker` that runs there and its `masters`; returns the workers that
    /// are no longer waited for, perhaps for a while.
    pub(crate) fn lose(&mut self, worker: Option<u32>, masters: &[u64]) -> Vec<u32> {
        let hit = self.of(worker, masters);
        hit.into_iter().filter(|worker| self.depart(*worker, State::Lost)).collect()
    }

    /// Misses a task, with the `worker` that runs there and its `masters`: its workers are still
    /// waited for, for a while. Returns the number of this silence, and the workers.
    pub(crate) fn miss(&mut self, worker: Option<u32>, masters: &[u64]) -> (u64, Vec<u32>) {
        let all = self.of(worker, masters).into_iter();
        let missed: Vec<u32> = all.filter(|worker| self.is_live(*worker)).collect();
        self.silences += 1;
        for worker in &missed {
            self.members.note(*worker).missed_in = Some(self.silences);
        }
        (self.silences, missed)
    }

    /// Loses the workers that are missed since the silence of that number; returns them.
    pub(crate) fn lose_missed(&mut self, silence: u64) -> Vec<u32> {
        let hit: Vec<u32> =
            self.members.known(|member| member.missed_in == Some(silence)).collect();
        hit.into_iter().filter(|worker| self.depart(*worker, State::Lost)).collect()
    }

    /// Loses `worker` if it is missed and `master`, which is heard of at its task, is no master of
    /// it: the task has restarted. Returns whether it is no longer waited for.
    pub(crate) fn lose_earlier_life(&mut self, worker: u32, master: u64) -> bool {
        let is_missed_of_another = |member: &Member| {
            member.missed_in.is_some()
                && !member.masters.is_empty()
                && !member.masters.contains(&master)
        };
        self.members.get(worker).is_some_and(is_missed_of_another)
            && self.depart(worker, State::Lost)
    }

    /// `worker` and those that run by order of one of `masters`, by ascending index.
    fn of(&self, worker: Option<u32>, masters: &[u64]) -> BTreeSet<u32> {
        let by_order = self.members.known(|member| member.has_one_of(masters));
        by_order.chain(worker).collect()
    }

    /// Waits again for `worker` if it is lost, since its task is heard of, by its `master`; returns
    /// whether it was lost. Of some trainings a task has no part that names its workers: none of
    /// them will join here.
    pub(crate) fn find_again(&mut self, worker: u32, master: u64) -> bool {
        if let Some(member) = self.members.get_mut(worker)
            && (member.masters.is_empty() || member.masters.contains(&master))
        {
            member.missed_in = None;
        }
        self.find(worker)
    }

    /// Waits again for `worker` if it is lost; returns whether it was.
    pub(crate) fn find(&mut self, worker: u32) -> bool {
        let is_lost = self.members.state(worker) == State::Lost;
        if is_lost {
            self.members.set_state(worker, State::Expected);
        }
        is_lost
    }

    fn depart(&mut self, worker: u32, state: State) -> bool {
        let member = self.members.note(worker);
        member.masters.clear();
        member.missed_in = None;
        let was_waited_for = self.is_live(worker);
        if was_waited_for || state.has_left() {
            self.members.set_state(worker, state);
        }
        was_waited_for
    }

    /// Ends the training for everybody.
    pub(crate) fn finish(&mut self) {
        self.is_over = true;
    }

    /// Has the end cut off the round behind a barrier that is under way: it is not made.
    pub(crate) fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// Begins a new epoch because the variables lose their values; a training under way goes on
    /// with others.
    pub(crate) fn restore(&mut self) {
        self.epoch.0 += 1;
    }

    /// Begins the training of that `number`, if it is known. It may be an earlier one, if the
    /// programs of all workers were started again.
    pub(crate) fn begin(&mut self, number: u32) {
        self.begin_anew();
        if number > 0 {
            self.number = number;
        }
    }

    /// Begins a new epoch in which all workers are waited for again.
    pub(crate) fn begin_anew(&mut self) {
        self.epoch.0 += 1;
        self.expect_all();
    }

    /// Waits for all workers again.
    pub(crate) fn expect_all(&mut self) {
        (self.is_over, self.is_cut_off, self.size) = (false, false, None);
        self.members.forget_all();
    }

    /// Whether nothing is known of any worker.
    pub(crate) fn are_unknown(&self) -> bool {
        self.members.departed().is_empty() && self.training(u32::MAX).next().is_none()
    }

    /// Whether `worker` is waited for, and has not made ready to train.
    pub(crate) fn is_expected(&self, worker: u32) -> bool {
        self.members.state(worker) == State::Expected
    }

    /// Whether `worker` has made ready to train, and has not departed.
    pub(crate) fn trains(&self, worker: u32) -> bool {
        self.members.state(worker) == State::Training
    }

    /// Whether `worker` is waited for: it has not departed.
    pub(crate) fn is_live(&self, worker: u32) -> bool {
        self.members.state(worker).is_waited_for()
    }

    /// The number of live workers among `workers`.
    pub(crate) fn live(&self, workers: u32) -> u32 {
        workers - self.departed(workers).count() as u32
    }

    /// The workers among `workers` that have made ready to train and have not departed.
    pub(crate) fn training(&self, workers: u32) -> impl Iterator<Item = u32> {
        self.members.in_state(State::Training, workers)
    }

    /// All workers that have left or are lost.
    pub(crate) fn all_that_departed(&self) -> Departed {
        let in_state = |state| self.members.in_state(state, u32::MAX).collect();
        Departed {
            done: in_state(State::Done),
            stopped: in_state(State::Stopped),
            lost: in_state(State::Lost),
        }
    }

    /// The workers among `workers` that have left or are lost.
    pub(crate) fn departed(&self, workers: u32) -> impl Iterator<Item = u32> {
        self.members.departed().range(..workers).copied()
    }

    /// Whether `worker` has left between two steps, done or asked to stop.
    pub(crate) fn has_left(&self, worker: u32) -> bool {
        self.members.state(worker).has_left()
    }

    /// Whether `worker` has left because its training has ended in good order.
    pub(crate) fn is_done(&self, worker: u32) -> bool {
        self.members.state(worker) == State::Done
    }

    /// Whether no worker is live and at least one ended in good order. (If all are lost or stopped,
    /// one may come back.) `workers` is used only if this training's size is unknown; it may be the
    /// size of the next training.
    pub(crate) fn all_departed(&self, workers: u32) -> bool {
        let workers = self.size.unwrap_or(workers);
        self.live(workers) == 0 && self.are_some_done(workers)
    }

    fn are_some_done(&self, workers: u32) -> bool {
        self.departed(workers).any(|worker| self.is_done(worker))
    }

    /// Whether every worker has departed, was taken out by a view (`part`), or `may_be_absent`, and
    /// at least one ended in good order. A view may know of a death from before this task started.
    pub(crate) fn all_are_gone(
        &self,
        workers: u32,
        part: &Participation,
        may_be_absent: impl Fn(u32) -> bool,
    ) -> bool {
        let is_gone =
            |worker| !self.is_live(worker) || part.is_out(worker) || may_be_absent(worker);
        (0..workers).all(is_gone) && self.are_some_done(workers)
    }
}
