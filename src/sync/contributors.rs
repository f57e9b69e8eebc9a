//! The workers whose gradients make a round.

use std::fmt;

use smallvec::SmallVec;

/// The workers whose gradients make a round, by place: as runs of consecutive workers.
///
/// It travels with every gradient of the round. Behind backups almost all workers contribute, in
/// order, so that its size does not grow with their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contributors {
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
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |last| (last.place + last.count) as usize)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The worker in `place`.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn worker_at(&self, place: usize) -> u32 {
        let after = self.runs.partition_point(|run| run.place as usize <= place);
        let run = self.runs[after - 1];
        let within = place as u32 - run.place;
        assert!(within < run.count, "there are {} contributors, not {place}", self.len());
        run.worker + within
    }

    /// Whether all are among the first `workers`.
    pub fn are_among(&self, workers: u32) -> bool {
        self.runs.iter().all(|run| run.worker.saturating_add(run.count) <= workers)
    }

    /// The first worker and the number of workers of each run.
    pub(crate) fn runs(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.runs.iter().map(|run| (run.worker, run.count))
    }

    /// The contributors in `runs` of a first worker and a number of workers. What is more than
    /// numbers of workers can be is left out.
    pub(crate) fn of_runs(runs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all = Self::default();
        for (worker, count) in runs {
            let place = all.len() as u32;
            let most = u32::MAX - place.max(worker);
            match all.runs.last_mut() {
                _ if count == 0 || most < count => {}
                Some(last) if last.worker + last.count == worker => last.count += count,
                _ => all.runs.push(Run { place, worker, count }),
            }
        }
        all
    }
}

impl<'a> FromIterator<&'a u32> for Contributors {
    fn from_iter<I: IntoIterator<Item = &'a u32>>(workers: I) -> Self {
        Self::of_runs(workers.into_iter().map(|worker| (*worker, 1)))
    }
}

/// The list of all workers, by place.
impl fmt::Debug for Contributors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len()).map(|place| self.worker_at(place))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_worker_has_its_place(workers in proptest::collection::vec(0u32..9, 0..20)) {
            let all: Contributors = workers.iter().collect();
            let found: Vec<u32> = (0..all.len()).map(|place| all.worker_at(place)).collect();
            prop_assert_eq!(&found, &workers);
            prop_assert_eq!(all.are_among(8), workers.iter().all(|worker| *worker < 8));
            prop_assert_eq!(&Contributors::of_runs(all.runs()), &all);
        }
    }

    #[test]
    fn all_but_one_of_a_thousand_are_two_runs() {
        let all: Contributors =
            (0..1000u32).filter(|worker| *worker != 7).collect::<Vec<_>>().iter().collect();
        assert_eq!(all.runs().collect::<Vec<_>>(), [(0, 7), (8, 992)]);
        assert_eq!((all.len(), all.worker_at(7)), (999, 8));
    }

    #[test]
    fn runs_beyond_all_numbers_are_left_out() {
        let all = Contributors::of_runs([(3, u32::MAX), (u32::MAX, 5), (1, 0), (4, 2)]);
        assert_eq!(all.runs().collect::<Vec<_>>(), [(4, 2)]);
    }
}
