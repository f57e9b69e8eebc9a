//! Views: who takes part in the rounds of a training, as the task of its global step decides.
//!
//! While nobody is lost or comes back, all workers take part, and no message is needed. A change
//! has two phases (the flush of virtual synchrony: Birman and Joseph, "Exploiting Virtual Synchrony
//! in Distributed Systems", 1987). First each task with variables makes no more rounds, and says
//! how far the gradients of those who are taken out have come; then it is told the new view, and
//! goes on. So all variables make each round of the same workers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Version;

/// Who takes no part in the rounds of a training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Counts the changes of the view; in view 0 all workers take part.
    pub number: u32,
    /// The workers that take no part, each with what becomes of its last gradients.
    pub out: BTreeMap<u32, Fate>,
    /// The workers that have been let in again.
    pub back: BTreeMap<u32, Return>,
    /// The training, by its number in the programs of its workers, as it is sent; 0 in a view that
    /// is kept.
    pub training: u32,
}

/// The return of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The number of the view that has let it in.
    pub view: u32,
    /// The first round that its gradients are waited for in again; the default without votes.
    pub round: Version,
}

/// The fate of the last gradients of a worker that is taken out of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Every variable has its gradient: they count.
    Counts,
    /// Some variable lacks its gradient: what waits for a round is dropped.
    Dropped,
}

/// The rounds that the variables of some tasks have made, and a worker's gradients in these and in
/// the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The least number of rounds that a variable has the worker's gradient for.
    pub least: u64,
    /// The greatest such number.
    pub most: u64,
    /// The greatest number of rounds that a variable has made.
    pub made: u64,
}

impl Progress {
    /// The progress of the variables of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            made: self.made.max(other.made),
        }
    }

    fn fate(self) -> Fate {
        if self.least == self.most { Fate::Counts } else { Fate::Dropped }
    }

    /// Whether a variable has applied a gradient of a step that another lacks.
    fn is_torn(self) -> bool {
        self.least < self.most && self.made == self.most
    }
}

/// The views of a training, at the task of its global step.
#[derive(Debug, Default)]
pub(crate) struct Views {
    view: View,
    change: Option<Change>,
    /// The workers to be taken out by the next change.
    lost: BTreeSet<u32>,
    /// The workers that are out, are back, and wait to take part again.
    seeking: BTreeSet<u32>,
}

/// A change of the view, until all tasks have answered.
#[derive(Debug)]
struct Change {
    number: u32,
    out: BTreeSet<u32>,
    /// The tasks that have answered.
    answered: BTreeSet<u32>,
    /// By worker that is out: the progress of all tasks that have answered.
    progress: BTreeMap<u32, Progress>,
}

impl Views {
    /// Takes `worker` out of the view with the next change.
    pub(crate) fn lose(&mut self, worker: u32) {
        self.seeking.remove(&worker);
        let is_out = match &self.change {
            Some(change) => change.out.contains(&worker),
            None => self.view.out.contains_key(&worker),
        };
        if !is_out {
            self.lost.insert(worker);
        }
    }

    /// `worker` has left in good order. If this view has let it in, or the change under way does,
    /// it is so no longer.
    pub(crate) fn leave(&mut self, worker: u32) {
        self.view.back.remove(&worker);
        if self.is_letting_in(worker) {
            self.lost.insert(worker);
        }
    }

    /// Whether `worker` has been let in again since it was lost or has left, or is about to be.
    pub(crate) fn lets_in(&self, worker: u32) -> bool {
        self.view.back.contains_key(&worker) || self.is_letting_in(worker)
    }

    /// Whether a task that knows the views up to the number `view` will hear that `worker` is let
    /// in: a later view has let it in or is about to, or it is out and will seek.
    pub(crate) fn lets_in_after(&self, worker: u32, view: u32) -> bool {
        self.is_out(worker)
            || self.is_letting_in(worker)
            || self.view.back.get(&worker).is_some_and(|back| back.view > view)
    }

    fn is_letting_in(&self, worker: u32) -> bool {
        let is_let_in = |change: &Change| !change.out.contains(&worker);
        self.view.out.contains_key(&worker) && self.change.as_ref().is_some_and(is_let_in)
    }

    /// Notes which of the workers that are out wait to take part again.
    pub(crate) fn seek(&mut self, seeking: BTreeSet<u32>) {
        self.seeking = seeking;
        self.seeking.retain(|worker| !self.lost.contains(worker));
    }

    /// Whether `worker` takes no part, or none for sure.
    pub(crate) fn is_out(&self, worker: u32) -> bool {
        let is_taken_out = |change: &Change| change.out.contains(&worker);
        self.view.out.contains_key(&worker)
            || self.lost.contains(&worker)
            || self.change.as_ref().is_some_and(is_taken_out)
    }

    /// The workers that take no part, or none for sure.
    pub(crate) fn out(&self) -> impl Iterator<Item = u32> {
        let changing = self.change.iter().flat_map(|change| &change.out);
        self.view.out.keys().chain(&self.lost).chain(changing).copied()
    }

    /// Whether all workers take part, and no change is under way.
    pub(crate) fn is_whole(&self) -> bool {
        self.view.out.is_empty() && self.lost.is_empty() && self.change.is_none()
    }

    /// Whether a change is under way.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether a worker is about to take part again, so that all others must be between two steps.
    pub(crate) fn needs_rest(&self) -> bool {
        let lets_in =
            |change: &Change| self.view.out.keys().any(|worker| !change.out.contains(worker));
        !self.seeking.is_empty() || self.change.as_ref().is_some_and(lets_in)
    }

    /// Begins a change if one is due; returns whether it has. Workers take part again only if all
    /// others are `at_rest`.
    pub(crate) fn begin(&mut self, at_rest: bool) -> bool {
        let lets_in = at_rest && !self.seeking.is_empty() && self.change.is_none();
        if self.lost.is_empty() && !lets_in {
            return false;
        }
        let before = self.change.take();
        let number = before.as_ref().map_or(self.view.number, |change| change.number) + 1;
        let mut out =
            before.map_or_else(|| self.view.out.keys().copied().collect(), |change| change.out);
        if self.lost.is_empty() {
            out.retain(|worker| !self.seeking.contains(worker));
            self.seeking.clear();
        }
        out.append(&mut self.lost);
        let (answered, progress) = (BTreeSet::new(), BTreeMap::new());
        self.change = Some(Change { number, out, answered, progress });
        true
    }

    /// The number of the change under way, and the workers that are out by it.
    pub(crate) fn proposed(&self) -> Option<(u32, Vec<u32>)> {
        let change = self.change.as_ref()?;
        Some((change.number, change.out.iter().copied().collect()))
    }

    /// The view that was installed last.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Takes the answer of `task` to the change of that number; returns whether it is under way.
    pub(crate) fn answer(&mut self, task: u32, number: u32, progress: &[(u32, Progress)]) -> bool {
        let Some(change) = self.change.as_mut().filter(|change| change.number == number) else {
            return false;
        };
        if !change.answered.insert(task) {
            return true;
        }
        for (worker, of_task) in progress {
            let all = change.progress.entry(*worker).or_insert(*of_task);
            *all = all.and(*of_task);
        }
        true
    }

    /// Whether `task` has not answered the change under way.
    pub(crate) fn waits_for(&self, task: u32) -> bool {
        self.change.as_ref().is_some_and(|change| !change.answered.contains(&task))
    }

    /// Ends the change under way, in `round` of the votes: all tasks have answered. Returns the
    /// workers whose last step is in some variables and not in others.
    pub(crate) fn install(&mut self, round: Version) -> Vec<u32> {
        let Some(change) = self.change.take() else { return Vec::new() };
        let mut torn = Vec::new();
        let fate = |worker: &u32| {
            if let Some(fate) = self.view.out.get(worker) {
                return *fate;
            }
            let progress = change.progress.get(worker);
            torn.extend(progress.filter(|progress| progress.is_torn()).map(|_| *worker));
            progress.map_or(Fate::Counts, |progress| progress.fate())
        };
        let fates: Vec<Fate> = change.out.iter().map(fate).collect();
        let number = change.number;
        let out: BTreeMap<u32, Fate> = change.out.into_iter().zip(fates).collect();
        let let_in = self.view.out.keys().filter(|worker| !out.contains_key(worker));
        let now = Return { view: number, round };
        let let_in: Vec<(u32, Return)> = let_in.map(|worker| (*worker, now)).collect();
        self.view.back.extend(let_in);
        self.view.back.retain(|worker, _| !out.contains_key(worker));
        (self.view.number, self.view.out) = (number, out);
        self.seeking.retain(|worker| self.view.out.contains_key(worker));
        torn
    }

    /// Begins another training, in which all workers take part.
    pub(crate) fn begin_anew(&mut self) {
        let number = self.proposed().map_or(self.view.number, |(number, _)| number);
        *self = Self { view: View { number, ..View::default() }, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Epoch;

    fn round(updates: u64) -> Version {
        Version { epoch: Epoch(1), updates }
    }

    fn at(least: u64, most: u64, made: u64) -> Progress {
        Progress { least, most, made }
    }

    /// The view after a change that each of two tasks has answered with that progress of worker 1.
    fn after_loss(answers: [Progress; 2]) -> (View, Vec<u32>) {
        let mut views = Views::default();
        views.lose(1);
        assert!(views.begin(false) && views.proposed() == Some((1, vec![1])));
        for (task, progress) in (0..).zip(answers) {
            assert!(views.waits_for(task));
            views.answer(task, 1, &[(1, progress)]);
            assert!(!views.waits_for(task));
        }
        let torn = views.install(Version::default());
        (views.view().clone(), torn)
    }

    #[test]
    fn who_waits_elsewhere_is_let_in_by_a_view_that_its_task_does_not_know_yet() {
        let mut views = Views::default();
        assert!(!views.lets_in_after(1, 0), "nobody here knows that it had left");
        views.lose(1);
        assert!(views.lets_in_after(1, 0), "it is out, and is let in when it seeks");
        views.begin(false);
        views.install(Version::default());
        views.seek(BTreeSet::from([1]));
        assert!(views.begin(true) && views.lets_in_after(1, 1), "it is about to be let in");
        views.install(Version::default());
        assert!(views.lets_in_after(1, 1), "the view is on its way");
        assert!(!views.lets_in_after(1, 2), "it has left again since");
    }

    #[test]
    fn the_last_step_of_a_lost_worker_counts_if_every_variable_has_its_gradient() {
        let view = |fate| View { number: 1, out: BTreeMap::from([(1, fate)]), ..View::default() };
        let all_applied_or_hold_it = after_loss([at(8, 8, 8), at(8, 8, 7)]);
        assert_eq!(all_applied_or_hold_it, (view(Fate::Counts), vec![]));
        let one_lacks_it = after_loss([at(7, 8, 7), at(8, 8, 7)]);
        assert_eq!(one_lacks_it, (view(Fate::Dropped), vec![]));
        let one_lacks_what_another_applied = after_loss([at(7, 7, 7), at(8, 8, 8)]);
        assert_eq!(one_lacks_what_another_applied, (view(Fate::Dropped), vec![1]));
    }

    #[test]
    fn a_worker_takes_part_again_once_all_others_are_at_rest() {
        let mut views = Views::default();
        views.lose(1);
        views.begin(true);
        views.install(Version::default());
        assert!(views.is_out(1) && !views.needs_rest());
        views.seek(BTreeSet::from([1]));
        assert!(views.needs_rest() && !views.begin(false));
        assert!(views.begin(true) && views.proposed() == Some((2, vec![])));
        assert!(views.is_out(1) && views.needs_rest(), "until it is installed");
        views.seek(BTreeSet::from([1]));
        views.install(round(7));
        assert!(!views.is_out(1) && views.is_whole() && !views.needs_rest());
        assert_eq!(views.view().back, BTreeMap::from([(1, Return { view: 2, round: round(7) })]));
        views.leave(1);
        assert!(views.view().back.is_empty());
    }

    #[test]
    fn a_loss_during_a_change_begins_another_and_answers_to_the_first_do_not_count() {
        let mut views = Views::default();
        views.lose(1);
        views.begin(false);
        views.lose(2);
        assert!(views.begin(false) && views.proposed() == Some((2, vec![1, 2])));
        views.answer(0, 1, &[]);
        assert!(views.waits_for(0));
        views.answer(0, 2, &[(1, at(3, 3, 3)), (2, at(3, 4, 3))]);
        views.install(Version::default());
        assert_eq!(views.view().out, BTreeMap::from([(1, Fate::Counts), (2, Fate::Dropped)]));
    }

    /// Views with change 2 under way, which lets worker 1 in again.
    fn letting_in() -> Views {
        let mut views = Views::default();
        views.lose(1);
        views.begin(true);
        views.install(Version::default());
        views.seek(BTreeSet::from([1]));
        views.begin(true);
        views
    }

    #[test]
    fn a_worker_that_leaves_while_it_is_let_in_stays_out() {
        let mut views = letting_in();
        assert!(views.lets_in(1));
        views.leave(1);
        assert!(views.begin(true) && views.proposed() == Some((3, vec![1])));
        views.install(Version::default());
        assert!(views.is_out(1) && !views.lets_in(1));
    }

    #[test]
    fn a_worker_that_is_lost_while_it_is_let_in_stays_out() {
        let mut views = letting_in();
        views.lose(1);
        assert!(views.begin(true) && views.proposed() == Some((3, vec![1])));
        views.install(Version::default());
        assert!(views.is_out(1));
    }
}
