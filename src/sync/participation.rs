//! Who takes part in the rounds of a task's variables, as far as the task has been told.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fate, Return, Version, View};

/// The workers in the rounds of a task's variables: all but those who have left, and those whom the
/// task of the global step has taken out. A shard decides nothing by itself.
#[derive(Debug, Default)]
pub(crate) struct Participation {
    /// The workers that have left in good order, unless they have been let in since.
    left: BTreeSet<u32>,
    /// By the task that decides: what it has told here. Empty while nobody has ever been taken out.
    decisions: BTreeMap<u32, Decision>,
    /// A counter that rises whenever somebody may take part who did not, or the reverse.
    revision: u64,
}

/// The task that decides who takes part, in one of its lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decider {
    /// The task.
    pub(crate) task: u32,
    /// The incarnation of the task, if that is known.
    pub(crate) incarnation: Option<u64>,
}

/// What one task has decided, as it was told here.
#[derive(Debug, Default)]
struct Decision {
    /// The incarnation of the task, if that is known.
    incarnation: Option<u64>,
    view: View,
    /// The change of the view that is under way: its number, and who is out by it.
    change: Option<(u32, Vec<u32>)>,
}

impl Participation {
    /// Whether `worker` takes part in `round`.
    pub(crate) fn has(&self, worker: u32, round: Version) -> bool {
        let takes_part = |decision: &Decision| {
            let back = decision.view.back.get(&worker);
            !decision.view.out.contains_key(&worker) && back.is_none_or(|back| back.round <= round)
        };
        !self.left.contains(&worker) && self.decisions.values().all(takes_part)
    }

    /// Whether rounds behind a barrier wait for `worker` from now on.
    pub(crate) fn awaits(&self, worker: u32) -> bool {
        self.has(worker, Version::LAST) && !self.is_leaving(worker)
    }

    /// Whether rounds behind a barrier wait for others of `workers` than `worker` from now on.
    pub(crate) fn awaits_others(&self, worker: u32, workers: u32) -> bool {
        (0..workers).any(|other| other != worker && self.awaits(other))
    }

    /// Whether `worker` has been taken out.
    pub(super) fn is_out(&self, worker: u32) -> bool {
        self.decisions.values().any(|decision| decision.view.out.contains_key(&worker))
    }

    /// Whether `worker` has left in good order, and has not been let in since.
    pub(crate) fn has_left(&self, worker: u32) -> bool {
        self.left.contains(&worker)
    }

    /// The number of the newest view that `decider` has told.
    pub(crate) fn view_of(&self, decider: u32) -> u32 {
        self.decisions.get(&decider).map_or(0, |decision| decision.view.number)
    }

    /// Whether a view has let `worker` in again.
    pub(crate) fn lets_in(&self, worker: u32) -> bool {
        self.decisions.values().any(|decision| decision.view.back.contains_key(&worker))
    }

    /// Whether no round may be made, since a change of the view is under way.
    pub(crate) fn is_held(&self) -> bool {
        self.decisions.values().any(|decision| decision.change.is_some())
    }

    /// Whether `worker` is being taken out.
    pub(crate) fn is_leaving(&self, worker: u32) -> bool {
        let takes_out = |decision: &Decision| {
            decision.change.as_ref().is_some_and(|(_, out)| out.contains(&worker))
        };
        self.decisions.values().any(takes_out)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// `worker` has left in good order.
    pub(crate) fn leave(&mut self, worker: u32) {
        self.left.insert(worker);
        self.revision += 1;
    }

    /// Of those who have left, those that `is_back` holds of take part at once: nobody has to let
    /// them in.
    pub(crate) fn readmit(&mut self, is_back: impl Fn(u32) -> bool) {
        self.left.retain(|worker| !is_back(*worker));
        self.revision += 1;
    }

    fn of(&mut self, Decider { task, incarnation }: Decider) -> &mut Decision {
        let decision = self.decisions.entry(task).or_default();
        if decision.incarnation.is_some()
            && incarnation.is_some()
            && decision.incarnation != incarnation
        {
            *decision = Decision::default();
            self.revision += 1;
        }
        decision.incarnation = incarnation.or(decision.incarnation);
        decision
    }

    /// Begins the change of that number, told by `decider`; returns whether it is to be answered.
    pub(crate) fn flush(&mut self, decider: Decider, number: u32, out: Vec<u32>) -> bool {
        let decision = self.of(decider);
        let newest = decision.change.as_ref().map_or(decision.view.number, |(number, _)| *number);
        if number < newest || number == decision.view.number {
            return false;
        }
        decision.change = Some((number, out));
        true
    }

    /// Takes over a view; returns the workers that are out, unless it is old.
    pub(crate) fn install(&mut self, decider: Decider, view: View) -> BTreeMap<u32, Fate> {
        let decision = self.of(decider);
        if view.number <= decision.view.number {
            return BTreeMap::new();
        }
        decision.change.take_if(|(number, _)| *number <= view.number);
        let out = view.out.clone();
        let before = std::mem::replace(&mut decision.view, view);
        let is_new = |(_, back): &(&u32, &Return)| back.view > before.number;
        let back: Vec<u32> =
            decision.view.back.iter().filter(is_new).map(|(worker, _)| *worker).collect();
        for worker in back {
            self.left.remove(&worker);
        }
        self.revision += 1;
        out
    }

    /// `decider` has restarted as `incarnation`, and knows nothing of what it has told before.
    /// Returns whether it had told something.
    pub(crate) fn forget_earlier_life(&mut self, decider: u32, incarnation: u64) -> bool {
        let is_earlier =
            |decision: &Decision| decision.incarnation.is_some_and(|own| own < incarnation);
        let has_told = self.decisions.get(&decider).is_some_and(is_earlier);
        if has_told {
            self.decisions.remove(&decider);
            self.revision += 1;
        }
        has_told
    }

    /// Begins another training, in which all take part.
    pub(crate) fn begin_anew(&mut self) {
        self.left.clear();
        for decision in self.decisions.values_mut() {
            decision.view.out.clear();
            decision.view.back.clear();
            decision.change = None;
        }
        self.revision += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Epoch;

    /// The task 0, in its life of that number; in any of them without one.
    fn decider(incarnation: impl Into<Option<u64>>) -> Decider {
        Decider { task: 0, incarnation: incarnation.into() }
    }

    /// A round of the first epoch.
    fn round(updates: u64) -> Version {
        Version { epoch: Epoch(1), updates }
    }

    fn view<const N: usize>(number: u32, out: [u32; N]) -> View {
        let out = out.into_iter().map(|worker| (worker, Fate::Dropped)).collect();
        View { number, out, ..View::default() }
    }

    #[test]
    fn rounds_are_held_from_the_flush_to_the_view_and_older_messages_change_nothing() {
        let mut part = Participation::default();
        let decider = decider(1);
        assert!(part.flush(decider, 2, vec![1]) && part.is_held() && part.is_leaving(1));
        assert!(part.has(1, round(9)), "until the view comes");
        assert!(!part.flush(decider, 1, vec![]));
        assert_eq!(part.install(decider, view(2, [1])).len(), 1);
        assert!(!part.has(1, round(9)) && !part.is_held());
        assert!(!part.flush(decider, 2, vec![1]) && part.install(decider, view(1, [])).is_empty());
        assert!(!part.has(1, round(9)) && part.has(0, round(9)));
        assert!(!part.awaits_others(0, 2) && part.awaits_others(1, 2));
    }

    #[test]
    fn who_has_left_takes_part_again_once_it_is_let_in() {
        let mut part = Participation::default();
        part.leave(1);
        assert!(!part.has(1, round(9)));
        part.install(decider(None), view(1, []));
        assert!(!part.has(1, round(9)));
        part.install(
            decider(None),
            View { back: [(1, Return { view: 2, round: round(8) })].into(), ..view(2, []) },
        );
        assert!(
            part.has(1, round(9)) && !part.has(1, round(7)),
            "its earlier life had a place in round 7"
        );
        part.leave(1);
        part.install(
            decider(None),
            View { back: [(1, Return { view: 2, round: round(8) })].into(), ..view(3, []) },
        );
        assert!(!part.has(1, round(9)), "it has left since");
    }

    #[test]
    fn who_was_let_in_takes_part_in_all_rounds_of_a_later_epoch() {
        let mut part = Participation::default();
        let back = View { back: [(1, Return { view: 2, round: round(8) })].into(), ..view(2, []) };
        part.install(decider(None), back);
        let first_after_a_restore = Version { epoch: Epoch(2), updates: 0 };
        assert!(part.has(1, first_after_a_restore) && !part.has(1, round(7)));
        part.begin_anew();
        assert!(!part.lets_in(1), "nobody is let in again in another training");
    }

    #[test]
    fn what_an_earlier_life_has_told_is_forgotten() {
        let mut part = Participation::default();
        part.install(decider(1), view(7, [1, 2]));
        part.install(decider(2), view(1, [1]));
        assert!(!part.has(1, round(9)) && part.has(2, round(9)));
        assert!(!part.forget_earlier_life(0, 2) && !part.has(1, round(9)));
        assert!(part.forget_earlier_life(0, 3) && part.has(1, round(9)));
        part.flush(decider(3), 2, vec![1]);
        assert!(!part.forget_earlier_life(0, 3) && part.is_held());
        assert!(part.forget_earlier_life(0, 4) && !part.is_held() && !part.is_leaving(1));
    }
}
