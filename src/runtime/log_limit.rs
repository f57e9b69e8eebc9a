//! Limits the lines of the log about each peer: one that causes many does not fill the log.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::transport::PeerId;
use crate::units::Time;

/// The time between two lines about one peer.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts what is to be logged, by peer, and says when a line is due.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(BTreeMap<PeerId, Unlogged>);

/// What there was of a peer since the last line about it.
#[derive(Debug)]
struct Unlogged {
    count: u64,
    logged_at: Time,
}

impl LogLimit {
    /// Counts `more` of `from`. If a line is due, it returns how many there were since the last.
    pub(crate) fn count(&mut self, from: PeerId, more: u64, now: Time) -> Option<u64> {
        let Some(of) = self.0.get_mut(&from) else {
            self.0.insert(from, Unlogged { count: 0, logged_at: now });
            return Some(more);
        };
        of.count += more;
        if now.since(of.logged_at) < PERIOD {
            return None;
        }
        of.logged_at = now;
        Some(std::mem::take(&mut of.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_sends_much_in_vain_has_a_line_at_once_and_one_a_period() {
        let mut limit = LogLimit::default();
        let mut at = |peer: u32, seconds: u64| {
            limit.count(PeerId(peer), 2, Time(0).after(Duration::from_secs(seconds)))
        };
        assert_eq!([at(0, 5), at(0, 6), at(0, 14)], [Some(2), None, None]);
        assert_eq!(at(1, 14), Some(2), "another peer has a line of its own");
        assert_eq!([at(0, 15), at(0, 16)], [Some(6), None]);
    }
}
