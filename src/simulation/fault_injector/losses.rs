//! Lost packets: how late a message comes that is sent again, and when nothing gets through.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::random;
use crate::transport::BEATS;

/// The longest that a peer may delay an acknowledgement (`max_ack_delay`: RFC 9000, 18.2).
const ACK_DELAY: Duration = Duration::from_millis(25);

/// What decides which packets are lost.
pub(super) struct Losses(Pcg64);

impl Losses {
    /// Those that are drawn from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(random::stream(seed, &["losses"]))
    }

    /// The delay of a message by losses, over a link of `latency` on which a packet `gets_through`
    /// with this chance: a probe timeout for its first loss, and twice as long for each further one
    /// (RFC 9002, 6.2). `None` if it does not come for a whole limit of `silence`, and none of the
    /// keep-alives of that time does.
    pub(super) fn delay(
        &mut self,
        gets_through: f64,
        latency: Duration,
        silence: Duration,
    ) -> Option<Duration> {
        let (mut late, mut timeout) = (Duration::ZERO, 6 * latency + ACK_DELAY);
        if gets_through == 1.0 {
            return Some(late);
        }
        while self.0.random::<f64>() >= gets_through {
            late += timeout;
            timeout *= 2;
            if late >= silence {
                let is_heard = (0..BEATS).any(|_| self.0.random::<f64>() < gets_through);
                return is_heard.then_some(silence);
            }
        }
        Some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_comes_one_probe_timeout_later_or_more_and_others_in_time() {
        let mut losses = Losses::new(1);
        let (latency, silence) = (Duration::from_millis(1), Duration::from_secs(5));
        let mut delay = |gets_through| losses.delay(gets_through, latency, silence);
        assert_eq!(delay(1.0), Some(Duration::ZERO));
        let all: Vec<u128> = (0..1000).map(|_| delay(0.5).unwrap().as_millis()).collect();
        let share = |wanted| all.iter().filter(|late| **late == wanted).count() as f64 / 1000.0;
        assert!((share(0) - 0.5).abs() < 0.05 && (share(31) - 0.25).abs() < 0.05);
    }

    #[test]
    fn nothing_gets_through_when_all_packets_of_a_limit_of_silence_are_lost() {
        let mut losses = Losses::new(1);
        let silence = Duration::from_millis(500);
        let mut delay = || losses.delay(0.1, Duration::from_millis(1), silence);
        let all: Vec<Option<Duration>> = (0..10_000).map(|_| delay()).collect();
        // 31 (2^5 - 1) ms is beyond the limit: five losses, and those of five keep-alives.
        let share = all.iter().filter(|late| late.is_none()).count() as f64 / 10_000.0;
        assert!((share - 0.9f64.powi(10)).abs() < 0.02, "{share}");
        assert!(all.iter().flatten().all(|late| *late <= silence));
    }
}
