//! Collects the gradients of a variable, round by round, until a round's update can be applied.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{Contributors, Epoch, Participation, Progress, RoundPosition, Version};

/// Collects the gradients of one variable until a round is complete.
///
/// TensorFlow's `ConditionalAccumulator` counts gradients, whoever sent them. Here each gradient
/// has a place in its round, which also fixes the order in which they are summed. `G` is the type
/// of a gradient.
#[derive(Debug)]
pub(crate) struct Accumulator<G> {
    replicas: u32,
    /// The epoch of its rounds; 0 behind a barrier.
    epoch: Epoch,
    /// The round that it began with.
    first: u64,
    /// The round under way, and so the variable's version.
    round: u64,
    /// The gradients of this round and of later ones, by place and worker: a place that a lost
    /// voter had goes to another, and both may have sent theirs.
    offered: BTreeMap<(RoundPosition, u32), G>,
    contributors: Expected,
    complete: Complete,
}

/// The number of contributors of the round under way, from the first on, that are known to have
/// offered or to be gone. The check after each gradient resumes there, so that a round costs one
/// look at each contributor rather than one for each gradient and contributor.
#[derive(Debug, Default)]
struct Complete {
    contributors: usize,
    /// The participation's revision at that check.
    revision: u64,
}

/// The workers whose gradients make a round.
#[derive(Debug)]
enum Expected {
    /// Every worker that takes part.
    Everyone,
    /// The workers that the coordinator names, by place; kept for the round under way and for later
    /// ones.
    Named(BTreeMap<u64, Contributors>),
}

/// The result of offering a gradient to an [`Accumulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer<G> {
    /// The gradient is held for its round.
    Held,
    /// The gradient's round is over; the gradient is dropped.
    Stale,
    /// The gradient is held and replaces this one, which the worker offered earlier for the same
    /// place: the worker has restarted, or has given up that step.
    Replaced(G),
    /// The worker takes no part; the gradient is dropped.
    Departed,
}

/// A complete round: the gradients of one update of the variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Round<G> {
    /// The round's number, from 0: the version of the variable that it updates.
    pub(crate) number: u64,
    /// The gradients with their workers, by place. Empty only if every contributor of a closed
    /// round left before its gradient came: the variable then keeps its value.
    pub(crate) gradients: Vec<(u32, G)>,
}

impl Expected {
    /// The number of contributors to `round`; 0 if the round is not closed.
    fn of(&self, round: u64, replicas: u32) -> usize {
        match self {
            Self::Everyone => replicas as usize,
            Self::Named(closed) => closed.get(&round).map_or(0, Contributors::len),
        }
    }
}

impl<G> Accumulator<G> {
    /// Creates an accumulator for a variable that has had `round` updates before. All workers
    /// `0..replicas` contribute to every round that they take part in.
    pub(crate) fn of_all(replicas: u32, round: u64) -> Self {
        Self {
            replicas,
            epoch: Epoch(0),
            first: round,
            round,
            offered: BTreeMap::new(),
            contributors: Expected::Everyone,
            complete: Complete::default(),
        }
    }

    /// Creates an accumulator for workers `0..replicas` that vote, in this `epoch` of the votes: a
    /// round is complete only after [`Accumulator::close_on`] has named its contributors.
    pub(crate) fn of_voters(replicas: u32, epoch: Epoch) -> Self {
        let contributors = Expected::Named(BTreeMap::new());
        Self { epoch, contributors, ..Self::of_all(replicas, 0) }
    }

    /// Whether all workers that take part contribute to every round.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self.contributors, Expected::Everyone)
    }

    /// The epoch of its rounds; 0 behind a barrier.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The round under way, and so the variable's version.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Whether `worker` takes part in `round`.
    fn has(&self, part: &Participation, worker: u32, round: u64) -> bool {
        part.has(worker, Version { epoch: self.epoch, updates: round })
    }

    /// Offers `worker`'s gradient for `place`. Behind a barrier of all workers the round is the
    /// version of the worker's step: the least version that it read, if its variables differ. There
    /// it is refused if the worker takes no part; of a voter the place counts.
    ///
    /// # Panics
    /// If the worker does not exist or, behind a barrier, the version does not exist yet.
    pub(crate) fn offer(
        &mut self,
        part: &Participation,
        worker: u32,
        place: RoundPosition,
        gradient: G,
    ) -> Offer<G> {
        self.assert_is_replica(worker);
        let is_barrier = self.is_barrier();
        let exists = place.round <= self.round || !is_barrier;
        assert!(
            exists,
            "a gradient comes of a version that exists: {}, not {}",
            place.round, self.round
        );
        if is_barrier && (!self.has(part, worker, place.round) || part.is_leaving(worker)) {
            Offer::Departed
        } else if place.round < self.round {
            Offer::Stale
        } else {
            let before = self.offered.insert((place, worker), gradient);
            before.map_or(Offer::Held, Offer::Replaced)
        }
    }

    /// Whether the coordinator has closed a round that is not made here yet.
    pub(crate) fn lags_behind(&self) -> bool {
        matches!(&self.contributors, Expected::Named(closed) if !closed.is_empty())
    }

    /// Whether `contributors` can be those of `round`: they are all workers, and the same ones as
    /// were named before, if any were.
    pub(crate) fn can_close_on(&self, round: u64, contributors: &Contributors) -> bool {
        let Expected::Named(closed) = &self.contributors else { return false };
        let is_same = closed.get(&round).is_none_or(|named| named == contributors);
        is_same && contributors.are_among(self.replicas)
    }

    /// Names the contributors of `round`, as the coordinator has decided. The call may be repeated,
    /// also once the round is over.
    ///
    /// # Panics
    /// If the round was closed with other contributors, or if nobody votes.
    pub(crate) fn close_on(&mut self, round: u64, contributors: &Contributors) {
        let replicas = self.replicas;
        assert!(
            contributors.are_among(replicas),
            "workers are replicas 0..{replicas}, not {contributors:?}"
        );
        let Expected::Named(closed) = &mut self.contributors else {
            panic!("only a training with votes names the contributors of a round");
        };
        if round >= self.round {
            let named = closed.entry(round).or_insert_with(|| contributors.clone());
            assert_eq!(named, contributors, "a round closes once, round {round} too");
        }
    }

    /// Ends the training and returns the held gradients, which will not be applied.
    pub(crate) fn finish(&mut self) -> Vec<G> {
        self.complete = Complete::default();
        std::mem::take(&mut self.offered).into_values().collect()
    }

    /// The first gradient of the round under way if all of them are here, unless it has none.
    pub(crate) fn first_of_ready(&mut self, part: &Participation) -> Option<&G> {
        if part.is_held() || !self.is_ready(part) {
            return None;
        }
        let (first, next) = (RoundPosition { round: self.round, index: 0 }, self.round + 1);
        let own = self.offered.range((first, 0)..(RoundPosition { round: next, index: 0 }, 0));
        own.map(|(_, gradient)| gradient).next()
    }

    /// Takes the round under way if all its gradients are here, and begins the next one.
    ///
    /// Call it until it returns `None`: the next round can be complete too.
    pub(crate) fn take_ready(&mut self, part: &Participation) -> Option<Round<G>> {
        if part.is_held() || !self.is_ready(part) {
            return None;
        }
        self.complete = Complete::default();
        let number = self.round;
        self.round += 1;
        let later = self.offered.split_off(&(RoundPosition { round: self.round, index: 0 }, 0));
        let mut offered = std::mem::replace(&mut self.offered, later);
        if let Expected::Named(closed) = &mut self.contributors
            && let Some(named) = closed.remove(&number)
        {
            offered.retain(|(place, worker), _| named.get(place.index as usize) == Some(*worker));
        }
        let gradients = offered.into_iter().map(|((_, worker), gradient)| (worker, gradient));
        Some(Round { number, gradients: gradients.collect() })
    }

    /// Removes the held gradients that `is_void` marks as not counting.
    pub(crate) fn withdraw(&mut self, mut is_void: impl FnMut(&G) -> bool) {
        self.complete = Complete::default();
        self.offered.retain(|_, gradient| !is_void(gradient));
    }

    /// Removes and returns the gradients of `worker` that are held behind a barrier.
    pub(crate) fn withdraw_of(&mut self, worker: u32) -> Vec<G> {
        self.complete = Complete::default();
        if !self.is_barrier() {
            return Vec::new();
        }
        let own: Vec<(RoundPosition, u32)> =
            self.offered.keys().filter(|(_, other)| *other == worker).copied().collect();
        own.iter().filter_map(|key| self.offered.remove(key)).collect()
    }

    /// Behind a barrier: how many rounds have been made here and, with the one under way, how many
    /// of these have the gradient of `worker`, if it has taken part in all.
    pub(crate) fn progress(&self, worker: u32) -> Option<Progress> {
        if !self.is_barrier() {
            return None;
        }
        let made = self.round - self.first;
        let place = RoundPosition { round: self.round, index: worker };
        let own = made + u64::from(self.offered.contains_key(&(place, worker)));
        Some(Progress { least: own, most: own, made })
    }

    /// The workers whose gradients the round under way lacks, by ascending index; empty if it waits
    /// for the coordinator to close it.
    pub(crate) fn waiting_for(&self, part: &Participation) -> Vec<u32> {
        let all = 0..self.contributors.of(self.round, self.replicas);
        let missing = all.filter_map(|index| self.missing(part, index));
        missing.collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// The contributor in place `index` of the round under way, if its gradient is still missing.
    fn missing(&self, part: &Participation, index: usize) -> Option<u32> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        let worker = match &self.contributors {
            Expected::Everyone => index as u32,
            Expected::Named(closed) => closed[&self.round].get(index)?,
        };
        let place = RoundPosition { round: self.round, index: index as u32 };
        let is_here = self.offered.contains_key(&(place, worker));
        (self.has(part, worker, self.round) && !is_here).then_some(worker)
    }

    fn is_ready(&mut self, part: &Participation) -> bool {
        let can_be = match &self.contributors {
            Expected::Everyone => !self.offered.is_empty(),
            Expected::Named(closed) => closed.contains_key(&self.round),
        };
        if !can_be {
            return false;
        }
        if self.complete.revision != part.revision() {
            self.complete = Complete { contributors: 0, revision: part.revision() };
        }
        for index in self.complete.contributors..self.contributors.of(self.round, self.replicas) {
            self.complete.contributors = index;
            if self.missing(part, index).is_some() {
                return false;
            }
        }
        true
    }

    fn assert_is_replica(&self, worker: u32) {
        assert!(worker < self.replicas, "workers are replicas 0..{}, not {worker}", self.replicas);
    }
}
