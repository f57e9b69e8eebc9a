//! The workers of a task's trainings: the state of each, found by its index.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of a worker, beside its state.
#[derive(Debug, Default)]
pub(super) struct Member {
    state: State,
    /// The masters that order the worker's steps.
    pub(super) masters: BTreeSet<u64>,
    /// The number of the silence in which the worker has been missed, while it is still waited for.
    pub(super) missed_in: Option<u64>,
}

/// Whether a worker takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The worker is waited for, but has not made ready to train.
    #[default]
    Expected,
    /// The worker has made ready to train.
    Training,
    /// The worker takes no more steps: its training has ended in good order.
    Done,
    /// The worker takes no more steps: it has left before the end, and may come back.
    Stopped,
    /// The worker's task or master is lost, perhaps for a while.
    Lost,
}

impl State {
    pub(super) fn is_waited_for(self) -> bool {
        matches!(self, Self::Expected | Self::Training)
    }

    /// Whether the worker has said that it takes no more steps.
    pub(super) fn has_left(self) -> bool {
        matches!(self, Self::Done | Self::Stopped)
    }
}

impl Member {
    pub(super) fn has_one_of(&self, masters: &[u64]) -> bool {
        masters.iter().any(|one| self.masters.contains(one))
    }
}

/// The workers. Of one without an entry nothing is known: it is expected.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: BTreeMap<u32, Member>,
    /// The workers that are not waited for.
    departed: BTreeSet<u32>,
}

impl Members {
    /// The workers of which something is known that `is_meant` holds of.
    pub(super) fn known(
        &self,
        is_meant: impl Fn(&Member) -> bool,
    ) -> impl DoubleEndedIterator<Item = u32> {
        let meant = self.known.iter().filter(move |(_, member)| is_meant(member));
        meant.map(|(worker, _)| *worker)
    }

    pub(super) fn get(&self, worker: u32) -> Option<&Member> {
        self.known.get(&worker)
    }

    pub(super) fn get_mut(&mut self, worker: u32) -> Option<&mut Member> {
        self.known.get_mut(&worker)
    }

    /// The entry of `worker`, made if there is none.
    pub(super) fn note(&mut self, worker: u32) -> &mut Member {
        self.known.entry(worker).or_default()
    }

    pub(super) fn state(&self, worker: u32) -> State {
        self.known.get(&worker).map_or(State::Expected, |member| member.state)
    }

    pub(super) fn set_state(&mut self, worker: u32, state: State) {
        self.note(worker).state = state;
        match state.is_waited_for() {
            true => self.departed.remove(&worker),
            false => self.departed.insert(worker),
        };
    }

    /// The workers in `state` below `workers`, by ascending index.
    pub(super) fn in_state(&self, state: State, workers: u32) -> impl Iterator<Item = u32> {
        let members = self.known.range(..workers);
        members.filter(move |(_, member)| member.state == state).map(|(worker, _)| *worker)
    }

    /// The workers that are not waited for, by ascending index.
    pub(super) fn departed(&self) -> &BTreeSet<u32> {
        &self.departed
    }

    /// Forgets everything.
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.departed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_waited_for_has_departed_until_it_is_waited_for_again() {
        let mut members = Members::default();
        for (state, departed) in [
            (State::Training, false),
            (State::Lost, true),
            (State::Done, true),
            (State::Stopped, true),
            (State::Expected, false),
        ] {
            members.set_state(3, state);
            assert_eq!((members.state(3), members.departed().contains(&3)), (state, departed));
        }
        members.set_state(3, State::Lost);
        members.forget_all();
        assert!(members.departed().is_empty() && members.state(3) == State::Expected);
    }
}
