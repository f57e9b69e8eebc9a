//! Who has sent how much to whom, and how fast.

use std::collections::{BTreeMap, VecDeque};

/// The number of looks that a rate is taken over, with the first.
const LOOKS: usize = 6;

/// Sender and receiver.
pub(super) type Pair = (String, String);

/// What tasks have sent to each other, at the last few looks.
#[derive(Debug)]
pub(super) struct Traffic {
    /// The time of each look \[s\], and what each task had sent to each other by then \[bytes\].
    looks: VecDeque<(f64, BTreeMap<Pair, u64>)>,
}

/// What a task has sent to another.
#[derive(Debug, PartialEq)]
pub(super) struct PairTraffic<'a> {
    pub(super) pair: &'a Pair,
    /// All of it \[bytes\].
    pub(super) sent: u64,
    /// How fast it was lately \[bytes/s\].
    pub(super) rate: f64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { looks: [(0.0, BTreeMap::new())].into() }
    }
}

impl Traffic {
    /// Looks at what has been `sent` by `now` \[s\], on the run's clock. Looks at one time are one.
    pub(super) fn look(&mut self, now: f64, sent: BTreeMap<Pair, u64>) {
        match self.looks.back_mut() {
            Some((last, before)) if now <= *last => *before = sent,
            _ => self.looks.push_back((now, sent)),
        }
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// What each task has sent to each other, the fastest lately first.
    pub(super) fn fastest(&self) -> Vec<PairTraffic<'_>> {
        let (Some((began, before)), Some((now, sent))) = (self.looks.front(), self.looks.back())
        else {
            return Vec::new();
        };
        let seconds = now - began;
        let mut traffic: Vec<PairTraffic<'_>> = sent
            .iter()
            .map(|(pair, sent)| {
                let more = sent.saturating_sub(before.get(pair).copied().unwrap_or(0));
                let rate = if seconds > 0.0 { more as f64 / seconds } else { 0.0 };
                PairTraffic { pair, sent: *sent, rate }
            })
            .collect();
        traffic.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(a.pair.cmp(b.pair)));
        traffic
    }
}

/// The rates between jobs \[bytes/s\].
pub(super) fn by_job(traffic: &[PairTraffic<'_>]) -> BTreeMap<Pair, f64> {
    let job = |task: &String| task.split(':').next().unwrap_or_default().to_owned();
    let mut rates = BTreeMap::new();
    for PairTraffic { pair: (from, to), rate, .. } in traffic {
        *rates.entry((job(from), job(to))).or_default() += rate;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(from: &str, to: &str) -> Pair {
        (from.to_owned(), to.to_owned())
    }

    fn sent(up: u64, down: u64) -> BTreeMap<Pair, u64> {
        [(pair("worker:0", "ps:0"), up), (pair("ps:0", "worker:0"), down)].into()
    }

    fn rates(traffic: &Traffic) -> Vec<f64> {
        traffic.fastest().iter().map(|one| one.rate).collect()
    }

    #[test]
    fn rates_are_of_the_last_looks_alone_and_the_first_look_is_since_the_beginning() {
        let mut traffic = Traffic::default();
        assert!(traffic.fastest().is_empty());
        traffic.look(2.0, sent(10, 40));
        assert_eq!(rates(&traffic), [20.0, 5.0]);
        assert_eq!(*traffic.fastest()[0].pair, pair("ps:0", "worker:0"));
        for second in 3_u32..20 {
            traffic.look(f64::from(second), sent(10 + 100 * u64::from(second), 40));
        }
        assert_eq!(rates(&traffic), [100.0, 0.0]);
        assert_eq!(traffic.fastest()[1].sent, 40);
    }

    #[test]
    fn a_second_look_at_one_time_and_a_count_that_began_anew_are_no_rate_of_their_own() {
        let mut traffic = Traffic::default();
        traffic.look(1.0, sent(10, 10));
        traffic.look(1.0, sent(20, 20));
        assert_eq!(rates(&traffic), [20.0, 20.0]);
        (2..8).for_each(|second| traffic.look(f64::from(second), sent(20, 20)));
        traffic.look(8.0, sent(5, 20));
        assert_eq!(rates(&traffic), [0.0, 0.0]);
    }

    #[test]
    fn the_rates_between_jobs_are_the_sums_of_those_between_their_tasks() {
        let mut traffic = Traffic::default();
        let of = |from, to| (pair(from, to), 8);
        traffic.look(2.0, [of("worker:0", "ps:0"), of("worker:1", "ps:0")].into());
        assert_eq!(by_job(&traffic.fastest()), [(pair("worker", "ps"), 8.0)].into());
    }
}
