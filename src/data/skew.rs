//! Shares of a split whose mix of labels differs from worker to worker.

use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64;

use super::DataError;
use crate::random;

/// The samples of one worker, by their position in the split.
pub(super) type Share = Arc<[usize]>;

/// What shares depend on, beside the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Skew {
    /// The concentration of the Dirichlet distribution that each worker's mix is drawn from.
    pub(super) concentration: f64,
    pub(super) seed: u64,
    pub(super) workers: u32,
}

/// The shares that were drawn last from a split. All clones of the split keep them together, so
/// that the workers of a simulation draw them once.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<Option<Drawn>>>);

/// The shares of all workers, and what they were drawn by.
type Drawn = (Skew, Vec<Share>);

impl Shares {
    /// The share of `worker` of the samples with these `labels`, from 0 to `classes - 1`.
    ///
    /// Each worker has as many samples, and none has another's. Its mix of labels is drawn from a
    /// symmetric Dirichlet distribution; the workers take samples in turn, each by its mix, as long
    /// as there are any of the label (Hsu, Qi and Brown 2019, "Measuring the Effects of
    /// Non-Identical Data Distribution for Federated Visual Classification").
    ///
    /// # Errors
    /// If the concentration is not above 0, there are fewer samples than workers, or there is no
    /// such `worker`.
    pub(super) fn of_worker(
        &self,
        skew: Skew,
        (labels, classes): (&[i32], usize),
        worker: u32,
    ) -> Result<Share, DataError> {
        let Skew { concentration, workers, .. } = skew;
        if worker >= workers {
            return Err(DataError::NoSuchWorker { worker, workers });
        }
        let law = Gamma::new(concentration, 1.0);
        let law = law.map_err(|_| DataError::Concentration { concentration })?;
        if labels.len() < workers as usize {
            return Err(DataError::Empty { what: "samples in a worker's share" });
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shares = match &mut *kept {
            Some((of, shares)) if *of == skew => shares,
            other => &mut other.insert((skew, drawn(skew, law, labels, classes))).1,
        };
        Ok(Arc::clone(&shares[worker as usize]))
    }
}

fn drawn(skew: Skew, law: Gamma<f64>, labels: &[i32], classes: usize) -> Vec<Share> {
    let Skew { seed, workers, .. } = skew;
    let mut left = vec![Vec::new(); classes];
    labels.iter().enumerate().for_each(|(sample, label)| left[*label as usize].push(sample));
    let mut order = random::stream(seed, &["data", "skew", "order"]);
    left.iter_mut().for_each(|samples| samples.shuffle(&mut order));
    // Gamma variates divided by their sum are Dirichlet's; a draw needs no division.
    let mix = |worker: u32| -> Vec<f64> {
        let mut draws = random::stream(seed, &["data", "skew", &format!("worker:{worker}")]);
        (0..classes).map(|_| law.sample(&mut draws)).collect()
    };
    let mixes: Vec<Vec<f64>> = (0..workers).map(mix).collect();
    let mut shares = vec![Vec::new(); mixes.len()];
    let mut draws = random::stream(seed, &["data", "skew", "deal"]);
    for _ in 0..labels.len() / mixes.len() {
        for (share, mix) in shares.iter_mut().zip(&mixes) {
            let label = next_label(mix, &left, &mut draws);
            share.extend(left[label].pop());
        }
    }
    shares.into_iter().map(Into::into).collect()
}

/// A label of which there are samples `left`, by `mix`, or by what is left where the mix has none
/// of these.
fn next_label(mix: &[f64], left: &[Vec<usize>], draws: &mut Pcg64) -> usize {
    let of_mix = |label: usize| if left[label].is_empty() { 0.0 } else { mix[label] };
    let total: f64 = (0..left.len()).map(of_mix).sum();
    let weight = |label: usize| if total > 0.0 { of_mix(label) } else { left[label].len() as f64 };
    let whole: f64 = (0..left.len()).map(weight).sum();
    let mut rest = draws.random::<f64>() * whole;
    let mut found = 0;
    for label in (0..left.len()).filter(|label| weight(*label) > 0.0) {
        found = label;
        rest -= weight(label);
        if rest < 0.0 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: usize = 10;

    /// The shares of eight workers, of 100 samples of each of [`CLASSES`] labels.
    fn shares(concentration: f64, seed: u64) -> Vec<Share> {
        let labels: Vec<i32> = (0..1000).map(|sample| sample % CLASSES as i32).collect();
        let skew = Skew { concentration, seed, workers: 8 };
        let shares = Shares::default();
        (0..8).map(|worker| shares.of_worker(skew, (&labels, CLASSES), worker).unwrap()).collect()
    }

    /// The share of a worker's samples that have its most frequent label, on average.
    fn greatest(concentration: f64) -> f64 {
        let of = |share: &Share| {
            let count = |label| share.iter().filter(|sample| **sample % CLASSES == label).count();
            (0..CLASSES).map(count).max().unwrap() as f64 / share.len() as f64
        };
        let all: Vec<Share> = (0..5).flat_map(|seed| shares(concentration, seed)).collect();
        all.iter().map(of).sum::<f64>() / all.len() as f64
    }

    #[test]
    fn workers_have_as_many_samples_each_and_none_twice() {
        for concentration in [1e-3, 0.1, 100.0] {
            let shares = shares(concentration, 7);
            assert!(shares.iter().all(|share| share.len() == 125), "{concentration}");
            let mut all: Vec<usize> = shares.iter().flat_map(|share| share.to_vec()).collect();
            all.sort_unstable();
            assert_eq!(all, Vec::from_iter(0..1000), "{concentration}");
        }
    }

    #[test]
    fn the_smaller_the_concentration_the_fewer_labels_a_worker_has() {
        let [few, some, all] = [0.05, 1.0, 1000.0].map(greatest);
        assert!(few > 0.4 && (0.2..0.35).contains(&some) && all < 0.16, "{few} {some} {all}");
    }

    #[test]
    fn shares_repeat_by_seed_and_what_is_no_concentration_is_refused() {
        assert_eq!(shares(0.1, 3), shares(0.1, 3));
        assert_ne!(shares(0.1, 3), shares(0.1, 4));
        for concentration in [0.0, -1.0, f64::NAN] {
            let skew = Skew { concentration, seed: 1, workers: 1 };
            let found = Shares::default().of_worker(skew, (&[0], 1), 0);
            assert!(matches!(found, Err(DataError::Concentration { .. })), "{concentration}");
        }
    }
}
