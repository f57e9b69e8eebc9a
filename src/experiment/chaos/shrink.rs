//! Shrinks a timeline of faults to the fewest that still break a promise.

use super::judge::{Breach, Promise};
use crate::simulation::Fault;

/// The fewest of `faults` that break one of the promises that all of them break, and what these
/// break. Leaves out one fault after the other until none can be spared.
pub(super) fn shrink(
    faults: &[Fault],
    breaches: Vec<Breach>,
    try_them: impl Fn(&[Fault]) -> Vec<Breach>,
) -> (Vec<Fault>, Vec<Breach>) {
    let broken: Vec<Promise> = breaches.iter().map(|breach| breach.promise).collect();
    let (mut fewest, mut breaches) = (faults.to_vec(), breaches);
    let mut spared = 0;
    while spared < fewest.len() && fewest.len() > 1 {
        let mut fewer = fewest.clone();
        fewer.remove(spared);
        let found = try_them(&fewer);
        if found.iter().any(|breach| broken.contains(&breach.promise)) {
            (fewest, breaches, spared) = (fewer, found, 0);
        } else {
            spared += 1;
        }
    }
    (fewest, breaches)
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
            breaks.then(breach).into_iter().collect()
        };
        let (fewest, breaches) = shrink(&all, try_them(&all), try_them);
        assert_eq!(fewest, needed);
        assert_eq!(breaches.len(), 1);
    }

    #[test]
    fn a_timeline_that_breaks_another_promise_is_not_the_same_failure() {
        let all: Vec<Fault> = (0..2).map(crash).collect();
        let breach = |promise| vec![Breach { promise, how: String::new() }];
        let try_them = |_: &[Fault]| breach(Promise::Explains);
        let (fewest, breaches) = shrink(&all, breach(Promise::Weights), try_them);
        assert_eq!((fewest.len(), breaches[0].promise), (2, Promise::Weights));
    }
}
