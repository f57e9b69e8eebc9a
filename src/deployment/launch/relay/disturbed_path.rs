//! The fate of the datagrams from one task to another: lost, late, or carried at once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::units::{Time, seconds};

/// The capacity of a slow link's queue, as the time that it takes to send it; further datagrams are
/// lost.
const QUEUE: Duration = Duration::from_millis(250);

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disturbance {
    /// Nothing comes through.
    Cut,
    /// A datagram is lost with this chance.
    Loses(f64),
    /// A link of this latency and this rate \[bytes/s\] is slower by `factor`, in both.
    Slow { latency: Duration, rate: f64, factor: f64 },
}

/// The additional latency and the rate \[bytes/s\] of a link of `latency` and `rate` that is slower
/// by `factor`.
fn slowed(latency: Duration, rate: f64, factor: f64) -> (Duration, f64) {
    (latency.mul_f64(factor - 1.0), rate / factor)
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("nothing comes"),
            Self::Loses(chance) => write!(f, "{:.0} % of the packets are lost", 100.0 * chance),
            Self::Slow { latency, rate, factor } => {
                let (longer, rate) = slowed(*latency, *rate, *factor);
                write!(f, "packets take {longer:?} longer, at {:.1} MB/s,", rate / 1e6)
            }
        }
    }
}

/// The way from one task to another.
#[derive(Debug, Default)]
pub(super) struct DisturbedPath {
    disturbances: BTreeMap<usize, Disturbance>,
    /// The time at which all that came before is sent.
    free: Time,
    /// The arrival of what came last: nothing overtakes it.
    last: Time,
}

impl DisturbedPath {
    pub(super) fn disturb(&mut self, number: usize, how: Disturbance) {
        self.disturbances.insert(number, how);
    }

    pub(super) fn settle(&mut self, number: usize) {
        self.disturbances.remove(&number);
    }

    /// When a datagram of `length` bytes that comes `now` arrives; none if it is lost, which `draw`
    /// in 0..1 decides.
    pub(super) fn carry(&mut self, now: Time, length: usize, draw: f64) -> Option<Time> {
        let (mut kept, mut factor, mut slow) = (1.0, 1.0, None);
        for disturbance in self.disturbances.values() {
            match disturbance {
                Disturbance::Cut => return None,
                Disturbance::Loses(chance) => kept *= 1.0 - chance,
                Disturbance::Slow { latency, rate, factor: by } => {
                    factor *= by; // as in a simulation
                    slow = Some((*latency, *rate));
                }
            }
        }
        let (longer, rate) = slow.map_or((Duration::ZERO, f64::INFINITY), |(latency, rate)| {
            slowed(latency, rate, factor)
        });
        let begins = self.free.max(now);
        if draw >= kept || begins.since(now) > QUEUE {
            return None;
        }
        self.free = begins.after(seconds(length as f64 / rate));
        self.last = self.free.after(longer).max(self.last);
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO.after(Duration::from_millis(millis))
    }

    /// A link of 10 ms and 200 kB/s is slower by `factor`.
    fn slow(factor: f64) -> Disturbance {
        Disturbance::Slow { latency: Duration::from_millis(10), rate: 2e5, factor }
    }

    #[test]
    fn an_undisturbed_link_carries_at_once_and_a_cut_one_nothing() {
        let mut path = DisturbedPath::default();
        assert_eq!(path.carry(at(5), 1000, 0.99), Some(at(5)));
        path.disturb(1, Disturbance::Cut);
        path.disturb(2, Disturbance::Cut);
        path.settle(1);
        assert_eq!(path.carry(at(6), 1000, 0.0), None);
        path.settle(2);
        assert_eq!(path.carry(at(7), 1000, 0.99), Some(at(7)));
    }

    #[test]
    fn losses_of_two_disturbances_are_independent() {
        let mut path = DisturbedPath::default();
        path.disturb(1, Disturbance::Loses(0.5));
        path.disturb(2, Disturbance::Loses(0.5));
        assert_eq!(path.carry(at(1), 1, 0.24), Some(at(1)));
        assert_eq!(path.carry(at(1), 1, 0.26), None);
    }

    #[test]
    fn of_two_disturbances_that_slow_a_link_the_factors_multiply() {
        let mut path = DisturbedPath::default();
        path.disturb(1, slow(2.0));
        path.disturb(2, slow(5.0));
        assert_eq!(path.carry(at(0), 1000, 0.0), Some(at(50 + 90)));
        path.settle(1);
        assert_eq!(path.carry(at(200), 1000, 0.0), Some(at(200 + 25 + 40)));
    }

    #[test]
    fn a_slow_link_sends_one_after_the_other_keeps_a_quarter_of_a_second_and_their_order() {
        let mut path = DisturbedPath::default();
        path.disturb(1, slow(2.0));
        assert_eq!(path.carry(at(0), 10_000, 0.0), Some(at(110)));
        assert_eq!(path.carry(at(0), 10_000, 0.0), Some(at(210)));
        assert_eq!(path.carry(at(0), 10_000, 0.0), Some(at(310)));
        assert_eq!(path.carry(at(0), 10_000, 0.0), None, "it keeps no more");
        path.settle(1);
        assert_eq!(path.carry(at(305), 10_000, 0.0), Some(at(310)), "it overtakes nothing");
        assert_eq!(path.carry(at(311), 10_000, 0.0), Some(at(311)));
    }
}
