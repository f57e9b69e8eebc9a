//! Noise: what takes a core away from tasks for a while, again and again.
//!
//! The system, other programs and other users of the same machine do so. A step is longer by each
//! interruption that hits it, and a synchronous one by the longest that hits any worker (Petrini
//! et al. 2003; Hoefler et al. 2010).

use std::time::Duration;

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

/// Interruptions of one kind, at random times (a Poisson process).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// The mean time that a core works between two of them.
    pub every: Duration,
    /// For how long each takes the core.
    pub span: Duration,
}

/// The interruptions of one task's threads.
pub(super) struct Interruptions {
    /// By kind: the rate of it and of those before it \[1/ns\], and for how long it lasts \[ns\].
    kinds: Vec<(f64, f64)>,
    /// The work that the task has left until the next one \[ns\].
    until: f64,
    rng: Pcg64,
}

impl Interruptions {
    /// Those of all kinds of `noise`, drawn from `rng`.
    pub(super) fn new(noise: &[Noise], mut rng: Pcg64) -> Self {
        let mut rate = 0.0;
        let kinds: Vec<(f64, f64)> = noise
            .iter()
            .map(|kind| {
                rate += 1.0 / kind.every.as_nanos() as f64;
                (rate, kind.span.as_nanos() as f64)
            })
            .collect();
        let until = Self::next(rate, &mut rng);
        Self { kinds, until, rng }
    }

    /// For how long so much `work` \[ns\] is interrupted \[ns\].
    pub(super) fn during(&mut self, work: f64) -> f64 {
        self.until -= work;
        let mut interrupted = 0.0;
        while self.until < 0.0 {
            let rate = self.kinds.last().map_or(0.0, |(rate, _)| *rate);
            let drawn = rate * self.rng.random::<f64>();
            let kind = self.kinds.partition_point(|(up_to, _)| *up_to <= drawn);
            interrupted += self.kinds[kind.min(self.kinds.len() - 1)].1;
            self.until += Self::next(rate, &mut self.rng);
        }
        interrupted
    }

    /// The work until the next interruption; without noise there is none.
    fn next(rate: f64, rng: &mut Pcg64) -> f64 {
        let drawn: f64 = Exp1.sample(rng);
        if rate > 0.0 { drawn / rate } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    fn noise(kinds: &[(u64, u64)]) -> Interruptions {
        let kind = |(every, span): &(u64, u64)| Noise {
            every: Duration::from_nanos(*every),
            span: Duration::from_nanos(*span),
        };
        let kinds: Vec<Noise> = kinds.iter().map(kind).collect();
        Interruptions::new(&kinds, stream(1, &["noise"]))
    }

    #[test]
    fn work_is_interrupted_by_each_kind_in_proportion_however_it_is_cut_into_pieces() {
        let work = 1e9;
        for pieces in [1, 1_000_000] {
            let mut noise = noise(&[(1_000, 10), (10_000, 500)]);
            let total: f64 = (0..pieces).map(|_| noise.during(work / f64::from(pieces))).sum();
            let expected = work * (10.0 / 1_000.0 + 500.0 / 10_000.0);
            assert!((total / expected - 1.0).abs() < 0.01, "{total} in {pieces} pieces");
        }
    }

    #[test]
    fn most_short_pieces_are_not_interrupted_and_some_are_for_long() {
        let mut noise = noise(&[(100_000, 3_000)]);
        let spans: Vec<f64> = (0..100_000).map(|_| noise.during(1_000.0)).collect();
        let share = spans.iter().filter(|span| **span > 0.0).count() as f64 / 1e5;
        assert!((share - 0.01).abs() < 0.001, "1 - exp(-1/100) = {share}");
        assert!(spans.iter().all(|span| span % 3_000.0 == 0.0), "each is there whole");
    }

    #[test]
    fn without_noise_nothing_is_interrupted() {
        assert_eq!(noise(&[]).during(1e18), 0.0);
    }
}
