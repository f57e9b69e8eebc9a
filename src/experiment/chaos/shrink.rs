//! Shrinks a timeline of faults to the fewest that still break a promise.

use super::judge::{Breach, Promise};
use crate::simulation::Fault;

/// What is left of a timeline that broke a promise.
pub(super) struct Shrunk {
    /// The faults that are left.
    pub(super) fewest: Vec<Fault>,
    /// What these break.
    pub(super) breaches: Vec<Breach>,
    /// Whether the user asked to stop before all shorter timelines had been tried.
    pub(super) is_cut_short: bool,
}

/// The fewest of `faults` that break one of the promises that all of them break. Leaves out one
/// fault after the other until none can be spared, or until `try_them` gives none, since the user
/// has asked to stop.
pub(super) fn shrink(
    faults: &[Fault],
    breaches: Vec<Breach>,
    try_them: impl Fn(&[Fault]) -> Option<Vec<Breach>>,
) -> Shrunk {
    let broken: Vec<Promise> = breaches.iter().map(|breach| breach.promise).collect();
    let mut shrunk = Shrunk { fewest: faults.to_vec(), breaches, is_cut_short: false };
    let mut spared = 0;
    while spared < shrunk.fewest.len() && shrunk.fewest.len() > 1 {
        let mut fewest = shrunk.fewest.clone();
        fewest.remove(spared);
        let Some(breaches) = try_them(&fewest) else {
            shrunk.is_cut_short = true;
            break;
        };
        if breaches.iter().any(|breach| broken.contains(&breach.promise)) {
            (shrunk.fewest, shrunk.breaches, spared) = (fewest, breaches, 0);
        } else {
            spared += 1;
        }
    }
    shrunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;
    use crate::simulation::{FaultKind, Trigger};

    fn crash(index: u32) -> Fault {
        let task = TaskName::new("ps", index);
        Fault { at: Trigger::Event(0), kind: FaultKind::Crash { task, restart_after: None } }
    }

    #[test]
    fn what_is_left_breaks_the_promise_and_nothing_of_it_can_be_spared() {
        let all: Vec<Fault> = (0..6).map(crash).collect();
        let needed = [crash(1), crash(4)];
        let try_them = |faults: &[Fault]| {
            let breaks = needed.iter().all(|fault| faults.contains(fault));
            let breach = || Breach { promise: Promise::Ends, how: String::new() };
            Some(breaks.then(breach).into_iter().collect())
        };
        let shrunk = shrink(&all, try_them(&all).unwrap(), try_them);
        assert_eq!(shrunk.fewest, needed);
        assert_eq!((shrunk.breaches.len(), shrunk.is_cut_short), (1, false));
    }

    #[test]
    fn a_timeline_that_breaks_another_promise_is_not_the_same_failure() {
        let all: Vec<Fault> = (0..2).map(crash).collect();
        let breach = |promise| vec![Breach { promise, how: String::new() }];
        let try_them = |_: &[Fault]| Some(breach(Promise::Explains));
        let shrunk = shrink(&all, breach(Promise::Weights), try_them);
        assert_eq!((shrunk.fewest.len(), shrunk.breaches[0].promise), (2, Promise::Weights));
    }
}
