//! The steps that a training took without one of its tasks.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::TaskName;
use crate::experiment::Trial;
use crate::training::Recording;

/// The number of applied steps that the training of `trial` took without each task that was lost
/// meanwhile: the formations of an all-reduce say so, or the rounds in which a worker's gradient is
/// missing. The `recording` is of all workers.
pub(super) fn steps_without(trial: &Trial, recording: &Recording) -> BTreeMap<TaskName, u64> {
    if trial.settings.all_reduce.is_some() {
        formed_without(recording)
    } else if trial.mode.needs().is_barrier() {
        rounds_without(recording)
    } else {
        BTreeMap::new() // a step takes no gradient of each worker
    }
}

fn formed_without(recording: &Recording) -> BTreeMap<TaskName, u64> {
    let mut steps: BTreeMap<TaskName, u64> = BTreeMap::new();
    for step in recording.steps().filter(|step| step.applied) {
        let formed = recording.formation_of(&step);
        for task in formed.into_iter().flat_map(|formed| &formed.without) {
            *steps.entry(task.clone()).or_default() += 1;
        }
    }
    steps
}

/// The rounds of a worker that are known to have its gradient.
struct Taken {
    first: u64,
    last: u64,
    count: u64,
}

/// The rounds after a worker's first that lack its gradient. One that only the last round of all
/// lacks has ended with the others: a limit of time lets some take one more. The last step of a
/// killed process may be one that nobody heard of.
fn rounds_without(recording: &Recording) -> BTreeMap<TaskName, u64> {
    let mut made: BTreeSet<u64> = BTreeSet::new();
    let mut workers: BTreeMap<TaskName, Taken> = BTreeMap::new();
    for step in recording.steps().filter(|step| step.applied && !step.is_local) {
        let round = step.global_step;
        made.insert(round);
        let begun = Taken { first: round, last: round, count: 0 };
        let taken = workers.entry(step.worker).or_insert(begun);
        taken.first = taken.first.min(round);
        taken.last = taken.last.max(round);
        taken.count += 1;
    }
    let missed = |taken: &Taken| {
        let of_all = made.range(taken.first..).count() as u64;
        let missed = of_all.saturating_sub(taken.count);
        let is_at_the_end = made.range(taken.last..).count() == 2; // its own last, and one more
        missed - u64::from(is_at_the_end && missed > 0)
    };
    let missed = workers.iter().map(|(worker, taken)| (worker.clone(), missed(taken)));
    missed.filter(|(_, rounds)| *rounds > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::observed::Observed;
    use crate::experiment::summary::tests::step;
    use crate::training::{Fact, SharedRecording, StepStats};
    use crate::units::Time;

    /// What a run of three workers reports that took `steps`: worker and round.
    fn reported(mode: &str, steps: &[(u32, u64)]) -> BTreeMap<TaskName, u64> {
        let text = format!("[cluster]\nps = 1\nworker = 3\n[[run]]\nname = 'a'\nmode = {mode}\n");
        let trial = Experiment::parse(&text).unwrap().trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        for (worker, round) in steps {
            shared.record(Fact::Step(step(*worker, *round, *round, 10 * *round)));
        }
        let late = StepStats { applied: false, ..step(1, 9, 4, 95) };
        shared.record(Fact::Step(late));
        let observed = Observed::deployed(Time(6_000_000_000), BTreeMap::new());
        trial.summarise(&shared.finish(), &observed, Duration::from_secs(6)).steps_without
    }

    fn all(rounds: std::ops::RangeInclusive<u64>) -> Vec<(u32, u64)> {
        rounds.flat_map(|round| (0..3).map(move |worker| (worker, round))).collect()
    }

    #[test]
    fn the_rounds_that_lack_a_lost_workers_gradient_are_counted_until_it_is_back() {
        let two = |rounds: std::ops::RangeInclusive<u64>| {
            rounds.flat_map(|round| [(0, round), (2, round)]).collect::<Vec<_>>()
        };
        let lost = |count| BTreeMap::from([(TaskName::new("worker", 1), count)]);
        assert_eq!(reported("'sync'", &all(1..=6)), BTreeMap::new());
        let for_good = [all(1..=3), two(4..=8)].concat();
        assert_eq!(reported("'sync'", &for_good), lost(5));
        let back = [all(1..=3), two(4..=5), all(6..=8)].concat();
        assert_eq!(reported("'sync'", &back), lost(2));
        let at_the_end = [all(1..=3), two(4..=4)].concat();
        assert_eq!(reported("'sync'", &at_the_end), BTreeMap::new(), "it ended with the others");
        assert_eq!(reported("'async'", &for_good), BTreeMap::new(), "there are no rounds");
        let backups = "{ sync = { backups = 1 } }";
        assert_eq!(reported(backups, &for_good), BTreeMap::new(), "a round waits for two");
    }
}
