//! Who takes part in the rounds of a task's variables, as far as the task has been told.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fate, Return, View};

/// The workers in the rounds of a task's variables: all but those who have left, and those whom the
/// task of the global step has taken out. A shard decides nothing by itself.
#[derive(Debug, Default)]
pub struct Participation {
    /// The workers that have left in good order, unless they have been let in since.
    left: BTreeSet<u32>,
    /// By the task that decides: what it has told. Empty while nobody has ever been taken out.
    told: BTreeMap<u32, Told>,
    /// A counter that rises whenever somebody may take part who did not, or the reverse.
    revision: u64,
}

/// The task that decides who takes part, in one of its lives.
#[derive(Clone, Copy, Debug)]
pub struct Decider {
    /// The task.
    pub task: u32,
    /// The incarnation of the task, if that is known.
    pub incarnation: Option<u64>,
}

/// What one task has told.
#[derive(Debug, Default)]
struct Told {
    /// The incarnation of the task, if that is known.
    incarnation: Option<u64>,
    view: View,
    /// The change of the view that is under way: its number, and who is out by it.
    change: Option<(u32, Vec<u32>)>,
}

impl Participation {
    /// Whether `worker` takes part in `round` of the votes; behind a barrier, in any round to come.
    pub fn has(&self, worker: u32, round: u64) -> bool {
        let takes_part = |told: &Told| {
            let back = told.view.back.get(&worker);
            !told.view.out.contains_key(&worker) && back.is_none_or(|back| back.round <= round)
        };
        !self.left.contains(&worker) && self.told.values().all(takes_part)
    }

    /// Whether rounds behind a barrier wait for `worker` from now on.
    pub(crate) fn awaits(&self, worker: u32) -> bool {
        self.has(worker, u64::MAX) && !self.is_leaving(worker)
    }

    /// Whether `worker` has been taken out.
    pub(super) fn is_out(&self, worker: u32) -> bool {
        self.told.values().any(|told| told.view.out.contains_key(&worker))
    }

    /// Whether a view has let `worker` in again.
    pub(crate) fn lets_in(&self, worker: u32) -> bool {
        self.told.values().any(|told| told.view.back.contains_key(&worker))
    }

    /// Whether no round may be made, since a change of the view is under way.
    pub fn is_held(&self) -> bool {
        self.told.values().any(|told| told.change.is_some())
    }

    /// Whether `worker` is being taken out.
    pub fn is_leaving(&self, worker: u32) -> bool {
        let takes_out =
            |told: &Told| told.change.as_ref().is_some_and(|(_, out)| out.contains(&worker));
        self.told.values().any(takes_out)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// `worker` has left in good order.
    pub fn leave(&mut self, worker: u32) {
        self.left.insert(worker);
        self.revision += 1;
    }

    fn of(&mut self, Decider { task, incarnation }: Decider) -> &mut Told {
        let told = self.told.entry(task).or_default();
        if told.incarnation.is_some() && incarnation.is_some() && told.incarnation != incarnation {
            *told = Told::default();
            self.revision += 1;
        }
        told.incarnation = incarnation.or(told.incarnation);
        told
    }

    /// Begins the change of that number, told by `decider`; returns whether it is to be answered.
    pub fn flush(&mut self, decider: Decider, number: u32, out: Vec<u32>) -> bool {
        let told = self.of(decider);
        let newest = told.change.as_ref().map_or(told.view.number, |(number, _)| *number);
        if number < newest || number == told.view.number {
            return false;
        }
        told.change = Some((number, out));
        true
    }

    /// Takes over a view; returns the workers that are out, unless it is old.
    pub fn install(&mut self, decider: Decider, view: View) -> BTreeMap<u32, Fate> {
        let told = self.of(decider);
        if view.number <= told.view.number {
            return BTreeMap::new();
        }
        told.change.take_if(|(number, _)| *number <= view.number);
        let out = view.out.clone();
        let before = std::mem::replace(&mut told.view, view);
        let is_new = |(_, back): &(&u32, &Return)| back.view > before.number;
        let back: Vec<u32> =
            told.view.back.iter().filter(is_new).map(|(worker, _)| *worker).collect();
        for worker in back {
            self.left.remove(&worker);
        }
        self.revision += 1;
        out
    }

    /// `decider` has restarted as `incarnation`, and knows nothing of what it has told before.
    /// Returns whether it had told something.
    pub fn forget_earlier_life(&mut self, decider: u32, incarnation: u64) -> bool {
        let is_earlier = |told: &Told| told.incarnation.is_some_and(|own| own < incarnation);
        let has_told = self.told.get(&decider).is_some_and(is_earlier);
        if has_told {
            self.told.remove(&decider);
            self.revision += 1;
        }
        has_told
    }

    /// Begins another training, in which all take part.
    pub fn begin_anew(&mut self) {
        self.left.clear();
        for told in self.told.values_mut() {
            told.view.out.clear();
            told.change = None;
        }
        self.revision += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The task 0, in its life of that number; in any of them without one.
    fn decider(incarnation: impl Into<Option<u64>>) -> Decider {
        Decider { task: 0, incarnation: incarnation.into() }
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
        assert!(part.has(1, 9), "until the view is told");
        assert!(!part.flush(decider, 1, vec![]));
        assert_eq!(part.install(decider, view(2, [1])).len(), 1);
        assert!(!part.has(1, 9) && !part.is_held());
        assert!(!part.flush(decider, 2, vec![1]) && part.install(decider, view(1, [])).is_empty());
        assert!(!part.has(1, 9) && part.has(0, 9));
    }

    #[test]
    fn who_has_left_takes_part_again_once_it_is_let_in() {
        let mut part = Participation::default();
        part.leave(1);
        assert!(!part.has(1, 9));
        part.install(decider(None), view(1, []));
        assert!(!part.has(1, 9));
        part.install(
            decider(None),
            View { back: [(1, Return { view: 2, round: 8 })].into(), ..view(2, []) },
        );
        assert!(part.has(1, 9) && !part.has(1, 7), "its earlier life had a place in round 7");
        part.leave(1);
        part.install(
            decider(None),
            View { back: [(1, Return { view: 2, round: 8 })].into(), ..view(3, []) },
        );
        assert!(!part.has(1, 9), "it has left since");
    }

    #[test]
    fn what_an_earlier_life_has_told_is_forgotten() {
        let mut part = Participation::default();
        part.install(decider(1), view(7, [1, 2]));
        part.install(decider(2), view(1, [1]));
        assert!(!part.has(1, 9) && part.has(2, 9));
        assert!(!part.forget_earlier_life(0, 2) && !part.has(1, 9));
        assert!(part.forget_earlier_life(0, 3) && part.has(1, 9));
        part.flush(decider(3), 2, vec![1]);
        assert!(!part.forget_earlier_life(0, 3) && part.is_held());
        assert!(part.forget_earlier_life(0, 4) && !part.is_held() && !part.is_leaving(1));
    }
}
