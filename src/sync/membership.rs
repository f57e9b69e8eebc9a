//! Who takes part in the trainings at a task, whether they are over, and the epoch.
//!
//! It is the only list of workers that a task keeps. All other state of a worker (a vote, a held
//! gradient, the answer to its last step) is kept by the worker's index, and asks here whether it
//! still counts. The size is the cluster's, however many steps, sessions and lives there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Departed, Participation};

/// The number of a training on the same servers, from its beginning or restore to the next one. A
/// message of an older epoch is dropped on arrival, so that nobody has to track what else was under
/// way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// The workers of a task's trainings: joined, live, left, lost, back.
#[derive(Debug)]
pub struct Membership {
    epoch: Epoch,
    is_over: bool,
    members: BTreeMap<u32, Member>,
    /// The number of silences so far.
    silences: u64,
}

/// A worker.
#[derive(Debug, Default)]
struct Member {
    state: State,
    /// The task that the worker runs at, if the program has named it.
    task: Option<u32>,
    /// The masters that order the worker's steps.
    masters: BTreeSet<u64>,
    /// The number of the silence in which the worker has been missed, while it is still waited for.
    missed_in: Option<u64>,
    /// The master that has given up a step of the worker, until the worker has ended one: a part of
    /// that step may have been carried out.
    halfway: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The worker is waited for, but has not made ready to train.
    #[default]
    Expected,
    /// The worker has made ready to train.
    Training,
    /// The worker has said that it takes no more steps.
    Left,
    /// The worker's task or master is lost, perhaps for a while.
    Lost,
}

impl Member {
    fn is_waited_for(&self) -> bool {
        matches!(self.state, State::Expected | State::Training)
    }

    /// Whether the worker runs at `task`, or by order of one of `masters`.
    fn is_of(&self, task: u32, masters: &[u64]) -> bool {
        self.task == Some(task) || masters.iter().any(|one| self.masters.contains(one))
    }
}

/// The state of a worker that makes ready to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
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
        Self { epoch: Epoch(1), is_over: false, members: BTreeMap::new(), silences: 0 }
    }
}

impl Membership {
    /// The current epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the training is over for everybody.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The task that `worker` runs at, if the program has named it.
    pub(crate) fn task_of(&self, worker: u32) -> Option<u32> {
        self.members.get(&worker)?.task
    }

    /// Notes that worker `i` runs at `tasks[i]`, as the program says.
    pub fn expect(&mut self, tasks: impl IntoIterator<Item = u32>) {
        for (worker, task) in (0..).zip(tasks) {
            self.members.entry(worker).or_default().task = Some(task);
        }
    }

    /// Has `worker` of `workers` make ready to train, by order of `master`.
    pub fn join(&mut self, worker: u32, workers: u32, master: u64) -> Joined {
        let begins_anew = self.all_departed(workers) && self.has_left(worker);
        if begins_anew {
            self.begin_anew();
        }
        let member = self.members.entry(worker).or_default();
        let had_departed = matches!(member.state, State::Left | State::Lost);
        member.missed_in = None;
        member.halfway = member.halfway.filter(|before| *before == master);
        member.state = State::Training;
        member.masters.insert(master);
        match had_departed {
            _ if begins_anew => Joined::Anew,
            true => Joined::Back,
            false => Joined::Expected,
        }
    }

    /// Whether `worker` has left a training that is over but that others have not left yet: it is
    /// early for the next training.
    pub fn is_early(&self, worker: u32, workers: u32) -> bool {
        self.has_left_what_is_over(worker) && !self.all_departed(workers)
    }

    /// Whether the training is over, and `worker` has left it.
    pub fn has_left_what_is_over(&self, worker: u32) -> bool {
        self.is_over && self.has_left(worker)
    }

    /// Has `worker` leave: it takes no more steps. Returns whether that changes who is waited for.
    pub fn leave(&mut self, worker: u32) -> bool {
        self.depart(worker, State::Left)
    }

    /// Loses the task `task`, with its `masters`; returns the workers that are no longer waited
    /// for, perhaps for a while.
    pub fn lose(&mut self, task: u32, masters: &[u64]) -> Vec<u32> {
        let hit = self.workers(|member| member.is_of(task, masters));
        hit.into_iter().filter(|worker| self.depart(*worker, State::Lost)).collect()
    }

    /// Misses the task `task`, with its `masters`: its workers are still waited for, for a while.
    /// Returns the number of this silence, and the workers.
    pub fn miss(&mut self, task: u32, masters: &[u64]) -> (u64, Vec<u32>) {
        let missed = self.workers(|member| member.is_waited_for() && member.is_of(task, masters));
        self.silences += 1;
        for worker in &missed {
            self.members.entry(*worker).or_default().missed_in = Some(self.silences);
        }
        (self.silences, missed)
    }

    /// Loses the workers that are missed since the silence of that number; returns them.
    pub fn lose_missed(&mut self, silence: u64) -> Vec<u32> {
        let hit = self.workers(|member| member.missed_in == Some(silence));
        hit.into_iter().filter(|worker| self.depart(*worker, State::Lost)).collect()
    }

    /// Loses the missed workers of the task `task` that `master`, which is heard of there, is no
    /// master of: the task has restarted. Returns them.
    pub fn lose_earlier_life(&mut self, task: u32, master: u64) -> Vec<u32> {
        let has_restarted = |member: &Member| {
            member.task == Some(task)
                && member.missed_in.is_some()
                && !member.masters.is_empty()
                && !member.masters.contains(&master)
        };
        let hit = self.workers(has_restarted);
        hit.into_iter().filter(|worker| self.depart(*worker, State::Lost)).collect()
    }

    fn workers(&self, is_meant: impl Fn(&Member) -> bool) -> Vec<u32> {
        let meant = self.members.iter().filter(|(_, member)| is_meant(member));
        meant.map(|(worker, _)| *worker).collect()
    }

    /// Waits again for the lost workers of the task `task`, which is heard of, by its `master`;
    /// returns them. Of some trainings a task has no part that names its workers: none of them will
    /// join here.
    pub fn find_again(&mut self, task: u32, master: u64) -> Vec<u32> {
        for member in self.members.values_mut().filter(|member| member.task == Some(task)) {
            if member.masters.is_empty() || member.masters.contains(&master) {
                member.missed_in = None;
            }
        }
        let is_lost = |member: &Member| member.task == Some(task) && member.state == State::Lost;
        let found = self.workers(is_lost);
        for worker in &found {
            self.members.entry(*worker).or_default().state = State::Expected;
        }
        found
    }

    /// Notes that `master` has given up a training step, which its worker may take again.
    pub fn interrupt(&mut self, master: u64) {
        for member in self.members.values_mut().filter(|member| member.masters.contains(&master)) {
            member.halfway = Some(master);
        }
    }

    /// Notes that `worker` has ended a step.
    pub fn end_step(&mut self, worker: u32) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.halfway = None;
        }
    }

    /// Whether the last step of `worker` was given up, and perhaps carried out in part.
    pub(super) fn is_halfway(&self, worker: u32) -> bool {
        self.members.get(&worker).is_some_and(|member| member.halfway.is_some())
    }

    fn depart(&mut self, worker: u32, state: State) -> bool {
        let member = self.members.entry(worker).or_default();
        member.masters.clear();
        member.missed_in = None;
        let was_waited_for = member.is_waited_for();
        if was_waited_for || state == State::Left {
            member.state = state;
        }
        was_waited_for
    }

    /// Ends the training for everybody.
    pub fn finish(&mut self) {
        self.is_over = true;
    }

    /// Begins a new epoch because the variables lose their values; a training under way goes on
    /// with others.
    pub fn restore(&mut self) {
        self.epoch.0 += 1;
    }

    /// Begins a new epoch in which all workers are waited for again.
    pub fn begin_anew(&mut self) {
        self.epoch.0 += 1;
        self.expect_all();
    }

    /// Waits for all workers again.
    pub fn expect_all(&mut self) {
        self.is_over = false;
        for member in self.members.values_mut() {
            *member = Member { task: member.task, ..Member::default() };
        }
    }

    fn state(&self, worker: u32) -> State {
        self.members.get(&worker).map_or(State::Expected, |member| member.state)
    }

    /// Whether `worker` is waited for: it has not departed.
    pub fn is_live(&self, worker: u32) -> bool {
        matches!(self.state(worker), State::Expected | State::Training)
    }

    /// The number of live workers among `workers`.
    pub fn live(&self, workers: u32) -> u32 {
        workers - self.departed(workers).count() as u32
    }

    /// The workers among `workers` that have made ready to train and have not departed.
    pub fn training(&self, workers: u32) -> impl Iterator<Item = u32> {
        let members = self.members.range(..workers);
        members.filter(|(_, member)| member.state == State::Training).map(|(worker, _)| *worker)
    }

    /// All workers that have left or are lost.
    pub fn all_that_departed(&self) -> Departed {
        let in_state = |state| self.workers(|member| member.state == state).into_iter().collect();
        Departed { left: in_state(State::Left), lost: in_state(State::Lost) }
    }

    /// The workers among `workers` that have left or are lost.
    pub fn departed(&self, workers: u32) -> impl Iterator<Item = u32> {
        let members = self.members.range(..workers);
        members
            .filter(|(_, member)| matches!(member.state, State::Left | State::Lost))
            .map(|(worker, _)| *worker)
    }

    /// Whether `worker` has left in good order.
    pub(crate) fn has_left(&self, worker: u32) -> bool {
        self.state(worker) == State::Left
    }

    /// Whether none of `workers` is live and some have left: those that are only lost may come
    /// back.
    pub fn all_departed(&self, workers: u32) -> bool {
        self.departed(u32::MAX).count() >= workers as usize && self.have_some_left()
    }

    fn have_some_left(&self) -> bool {
        self.members.values().any(|member| member.state == State::Left)
    }

    /// Whether all of `workers` have departed, as far as this task or those know who told it of
    /// their `part`: a worker may have died before this task began.
    pub(crate) fn all_are_gone(&self, workers: u32, part: &Participation) -> bool {
        let is_gone = |worker| !self.is_live(worker) || !part.has(worker, u64::MAX);
        (0..workers).all(is_gone) && self.have_some_left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_training_is_over_when_all_have_departed_and_one_of_them_in_good_order() {
        let mut members = Membership::default();
        members.expect([10, 11]);
        assert_eq!((members.lose(10, &[]), members.lose(11, &[])), (vec![0], vec![1]));
        assert!(!members.all_departed(2), "those who are lost may come back");
        assert!(!members.leave(1) && members.all_departed(2));
    }

    #[test]
    fn another_training_is_begun_by_who_has_left_the_last_and_not_by_who_was_lost() {
        let mut members = Membership::default();
        members.expect([10, 11]);
        members.leave(0);
        members.lose(11, &[]);
        members.finish();
        assert_eq!(members.join(1, 2, 7), Joined::Back);
        assert!(members.is_over() && members.epoch() == Epoch(1));
        members.lose(11, &[]);
        assert_eq!(members.join(0, 2, 8), Joined::Anew);
        assert!(!members.is_over() && members.epoch() == Epoch(2) && members.live(2) == 2);
        assert_eq!(members.join(1, 2, 9), Joined::Expected);
    }

    #[test]
    fn who_has_left_a_training_that_others_still_end_is_early_for_the_next() {
        let mut members = Membership::default();
        members.leave(0);
        assert!(!members.is_early(0, 2), "the training goes on, and so can this worker");
        members.finish();
        assert!(members.is_early(0, 2) && !members.is_early(1, 2));
        members.leave(1);
        assert!(!members.is_early(0, 2));
    }

    #[test]
    fn a_worker_is_lost_with_its_master_once_and_is_back_when_it_joins() {
        let mut members = Membership::default();
        assert_eq!(members.join(1, 4, 7), Joined::Expected);
        members.join(3, 4, 7);
        members.join(2, 4, 8);
        assert_eq!(members.training(4).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(members.lose(99, &[7, 9]), [1, 3]);
        assert!(members.lose(99, &[7]).is_empty());
        assert_eq!(members.departed(3).collect::<Vec<_>>(), [1]);
        assert_eq!((members.join(1, 4, 9), members.live(4)), (Joined::Back, 3));
    }

    #[test]
    fn a_worker_that_is_missed_is_waited_for_until_it_is_lost_or_joins_again() {
        let mut members = Membership::default();
        members.expect([10, 11]);
        members.join(0, 2, 7);
        members.join(1, 2, 8);
        let (first, hit) = members.miss(10, &[7]);
        let (second, _) = members.miss(11, &[8]);
        assert_eq!((hit, members.miss(99, &[9]).1), (vec![0], vec![]));
        assert_eq!((members.live(2), members.join(0, 2, 7)), (2, Joined::Expected));
        assert!(members.lose_missed(first).is_empty(), "it has joined again");
        assert!(members.lose_earlier_life(11, 8).is_empty(), "it is the same life");
        assert_eq!(members.lose_earlier_life(11, 9), [1]);
        assert_eq!(members.join(1, 2, 9), Joined::Back);
        assert!(members.lose_missed(second).is_empty());
        let (third, _) = members.miss(99, &[9]);
        assert_eq!((members.lose_missed(third), members.live(2)), (vec![1], 1));
    }

    #[test]
    fn a_lost_worker_whose_task_is_back_is_waited_for_again_and_one_that_has_left_is_not() {
        let mut members = Membership::default();
        members.expect([10, 11]);
        members.lose(10, &[]);
        members.leave(1);
        assert!(members.all_departed(2));
        assert_eq!((members.find_again(11, 8), members.find_again(10, 7)), (vec![], vec![0]));
        assert!(!members.all_departed(2) && members.find_again(10, 7).is_empty());
        let (silence, _) = members.miss(10, &[]);
        assert!(members.find_again(10, 7).is_empty() && members.lose_missed(silence).is_empty());
    }

    #[test]
    fn a_worker_whose_step_was_given_up_is_halfway_until_it_ends_one_or_restarts() {
        let mut members = Membership::default();
        members.expect([10]);
        members.join(0, 2, 7);
        members.interrupt(8);
        assert!(!members.is_halfway(0), "that is another's master");
        members.interrupt(7);
        members.lose(10, &[7]);
        members.join(0, 2, 7);
        assert!(members.is_halfway(0), "it was lost for a while, and has not died");
        members.end_step(0);
        assert!(!members.is_halfway(0));
        members.interrupt(7);
        members.join(0, 2, 9);
        assert!(!members.is_halfway(0), "its next life knows nothing of the step");
    }

    #[test]
    fn its_size_does_not_grow_with_lives_and_trainings() {
        let mut members = Membership::default();
        for life in 0..1000 {
            for worker in 0..3 {
                members.join(worker, 3, 10 * life + u64::from(worker));
                members.leave(worker);
            }
        }
        assert_eq!(members.members.len(), 3);
        assert!(members.members.values().all(|member| member.masters.is_empty()));
        assert_eq!(members.epoch(), Epoch(1000), "each of them but the first began anew");
    }
}
