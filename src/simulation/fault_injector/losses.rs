//! Lost packets: how late a message comes that is sent again.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::factors::Factors;
use crate::random;

/// The longest that a peer may delay an acknowledgement (`max_ack_delay`: RFC 9000, 18.2).
const ACK_DELAY: Duration = Duration::from_millis(25);
/// The most times that one message is lost: less than a limit of silence in all.
const MOST_LOSSES: u32 = 4;

/// The links that lose packets.
pub(super) struct LossyLinks {
    draws: Pcg64,
    /// The chance that a packet gets through.
    getting_through: Factors,
}

impl LossyLinks {
    /// Links that lose nothing yet; what they lose later is drawn from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self { draws: random::stream(seed, &["losses"]), getting_through: Factors::default() }
    }

    /// From now on `tasks` lose packets of each other, each with the chance `rate`.
    pub(super) fn begin(&mut self, tasks: Vec<usize>, rate: f64) {
        self.getting_through.begin(tasks, 1.0 - rate);
    }

    /// Ends what [`Self::begin`] of the same began.
    pub(super) fn end(&mut self, tasks: &[usize], rate: f64) {
        self.getting_through.end(tasks, 1.0 - rate);
    }

    /// How much later a message comes over a link of `latency`: a probe timeout for its first loss,
    /// and twice as long for each further one (RFC 9002, 6.2).
    pub(super) fn delay(&mut self, from: usize, to: usize, latency: Duration) -> Duration {
        let gets_through = self.getting_through.between(from, to);
        let (mut late, mut timeout) = (Duration::ZERO, 6 * latency + ACK_DELAY);
        if gets_through == 1.0 {
            return late;
        }
        for _ in 0..MOST_LOSSES {
            if self.draws.random::<f64>() < gets_through {
                break;
            }
            late += timeout;
            timeout *= 2;
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_comes_one_probe_timeout_later_or_more_and_others_in_time() {
        let mut links = LossyLinks::new(1);
        let latency = Duration::from_millis(1);
        assert_eq!(links.delay(0, 1, latency), Duration::ZERO);
        links.begin(vec![0, 1], 0.5);
        assert_eq!(links.delay(0, 2, latency), Duration::ZERO);
        let all: Vec<u128> = (0..1000).map(|_| links.delay(0, 1, latency).as_millis()).collect();
        let share = |wanted| all.iter().filter(|late| **late == wanted).count() as f64 / 1000.0;
        assert!((share(0) - 0.5).abs() < 0.05 && (share(31) - 0.25).abs() < 0.05);
        assert_eq!(all.iter().max(), Some(&(31 * 15)));
        links.end(&[0, 1], 0.5);
        assert_eq!(links.delay(0, 1, latency), Duration::ZERO);
    }
}
