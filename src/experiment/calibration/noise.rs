//! What takes this machine's cores away now and then, as threads find out that only read a clock.
//!
//! Between two readings that are further apart than a reading takes, the core did something else
//! (the *selfish* benchmark of Hoefler et al. 2010). Interruptions of like length are one kind.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::clock::{Clock, WallClock};
use crate::experiment::parallel::joined;
use crate::simulation::Noise;

/// The least time between two readings that is an interruption.
const INTERRUPTED: Duration = Duration::from_micros(2);
/// The time at the beginning that is left out: the system has yet to give each thread its core.
const SETTLES: Duration = Duration::from_millis(20);

/// The interruptions that threads have met.
#[derive(Default)]
pub(super) struct Listened {
    /// The time between interruptions, of all cores together.
    worked: Duration,
    /// By kind, the binary logarithm of a length in ns: how many there were, and their whole time.
    kinds: BTreeMap<u32, (u32, Duration)>,
}

impl Listened {
    /// Listens for so long on each of the cores.
    pub(super) fn listen(&mut self, cores: NonZeroU32, lasts: Duration) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores.get()).map(|_| scope.spawn(|| heard(lasts))).collect();
            for thread in threads {
                self.add(lasts, &joined(thread.join()));
            }
        });
    }

    /// Adds the interruptions of one core in so much time.
    fn add(&mut self, lasts: Duration, spans: &[Duration]) {
        self.worked += lasts.saturating_sub(spans.iter().sum());
        for span in spans {
            let (count, total) = self.kinds.entry(span.as_nanos().ilog2()).or_default();
            *count += 1;
            *total += *span;
        }
    }

    /// The interruptions by kind, the short ones first.
    pub(super) fn kinds(&self) -> Vec<Noise> {
        let kind = |(count, total): &(u32, Duration)| Noise {
            every: self.worked / *count,
            span: *total / *count,
        };
        self.kinds.values().map(kind).filter(|kind| kind.span < kind.every).collect()
    }
}

/// The interruptions that a thread meets in so much time.
fn heard(lasts: Duration) -> Vec<Duration> {
    let clock = WallClock::new();
    let mut spans = Vec::new();
    let mut last = clock.now();
    let begins = last.after(SETTLES);
    let ends = begins.after(lasts);
    while last < ends {
        let now = clock.now();
        let span = now.since(last);
        if span >= INTERRUPTED && last >= begins {
            spans.push(span);
        }
        last = now;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_of_like_length_are_one_kind_and_none_is_lost() {
        let us = Duration::from_micros;
        let mut listened = Listened::default();
        listened.add(us(1_000), &[us(3), us(40), us(3), us(5)]);
        listened.add(us(1_000), &[us(50)]);
        let worked = us(1_899);
        let kind = |count, span| Noise { every: worked / count, span };
        let expected = [kind(2, us(3)), kind(1, us(5)), kind(2, us(45))];
        assert_eq!(listened.kinds(), expected);
    }

    #[test]
    fn a_machine_is_listened_to_on_all_its_cores() {
        let mut listened = Listened::default();
        listened.listen(NonZeroU32::new(2).expect("two"), Duration::from_millis(3));
        let interrupted: Duration = listened.kinds.values().map(|(_, total)| *total).sum();
        assert!(listened.worked + interrupted >= Duration::from_millis(6));
        let spans = heard(Duration::from_millis(3));
        assert!(spans.iter().all(|span| *span >= INTERRUPTED), "{spans:?}");
    }
}
