//! The workers whose gradients make a round.

use std::fmt;

use smallvec::SmallVec;

/// The workers whose gradients make a round, by place: as runs of consecutive workers.
///
/// Each vote's answer and each variable holds them. Behind backups almost all workers contribute,
/// in order, so that the size here does not grow with their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Contributors {
    runs: SmallVec<[Run; 2]>,
}

/// Consecutive workers in consecutive places.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The place of the first.
    place: u32,
    worker: u32,
    count: u32,
}

impl Contributors {
    /// The number of contributors.
    pub(crate) fn len(&self) -> usize {
        self.runs.last().map_or(0, |last| (last.place + last.count) as usize)
    }

    /// The worker in `place`; none if there are not as many.
    pub(crate) fn get(&self, place: usize) -> Option<u32> {
        let after = self.runs.partition_point(|run| run.place as usize <= place);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let within = place as u32 - run.place;
        (within < run.count).then_some(run.worker + within)
    }

    /// Whether all are among the first `workers`.
    pub(crate) fn are_among(&self, workers: u32) -> bool {
        self.runs.iter().all(|run| run.worker.saturating_add(run.count) <= workers)
    }

    /// The workers, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|run| (0..run.count).map(|within| run.worker + within))
    }
}

impl FromIterator<u32> for Contributors {
    fn from_iter<I: IntoIterator<Item = u32>>(workers: I) -> Self {
        let mut all = Self::default();
        for (worker, place) in workers.into_iter().zip(0..) {
            match all.runs.last_mut() {
                Some(last) if last.worker.checked_add(last.count) == Some(worker) => {
                    last.count += 1;
                }
                _ => all.runs.push(Run { place, worker, count: 1 }),
            }
        }
        all
    }
}

/// The list of all workers, by place.
impl fmt::Debug for Contributors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_worker_has_its_place(workers in proptest::collection::vec(0u32..9, 0..20)) {
            let all: Contributors = workers.iter().copied().collect();
            let found: Vec<u32> = (0..=all.len()).filter_map(|place| all.get(place)).collect();
            prop_assert_eq!(&found, &workers);
            prop_assert!(all.iter().eq(workers.iter().copied()));
            prop_assert_eq!(all.are_among(8), workers.iter().all(|worker| *worker < 8));
        }
    }

    #[test]
    fn all_but_one_of_a_thousand_are_two_runs() {
        let all: Contributors = (0..1000).filter(|worker| *worker != 7).collect();
        assert_eq!(all.runs.len(), 2);
        assert_eq!((all.len(), all.get(7)), (999, Some(8)));
    }
}
