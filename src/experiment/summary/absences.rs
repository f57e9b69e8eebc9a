//! The steps that a training took without one of its tasks.

use std::collections::BTreeMap;

use crate::cluster::TaskName;
use crate::experiment::Trial;
use crate::training::{Recording, Unheard};
use crate::units::Time;

/// The number of applied steps that the training of `trial` took without each task that was lost
/// meanwhile: the formations of an all-reduce say so, or the rounds in which a worker's gradient is
/// missing. The `recording` is of all workers.
pub(super) fn steps_without(trial: &Trial, recording: &Recording) -> BTreeMap<TaskName, u64> {
    if trial.settings.all_reduce.is_some() {
        formed_without(recording)
    } else if trial.mode.needs().is_barrier() {
        rounds_without(trial, recording)
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
#[derive(Default)]
struct Taken {
    last: u64,
    count: usize,
}

/// The rounds that lack a worker's gradient. One that only the last round of all lacks has ended
/// with the others: a limit of time lets some take one more. Rounds that ended before the death of
/// a killed process have the gradients that it had yet to tell of; its last step may be one that
/// nobody heard of.
fn rounds_without(trial: &Trial, recording: &Recording) -> BTreeMap<TaskName, u64> {
    let mut made: BTreeMap<u64, Time> = BTreeMap::new();
    let all = trial.cluster.spec.workers();
    let mut workers: BTreeMap<TaskName, Taken> = all.map(|it| (it, Taken::default())).collect();
    for step in recording.steps().filter(|step| step.applied && !step.is_local) {
        let ended = made.entry(step.global_step).or_insert(step.ended);
        *ended = step.ended.min(*ended);
        let taken = workers.entry(step.worker).or_default();
        taken.last = taken.last.max(step.global_step);
        taken.count += 1;
    }
    let untold = |worker: &TaskName| {
        let spans = recording.unheard.iter().filter(|unheard| unheard.worker == *worker);
        let ended_in = |span: &Unheard| {
            made.values().filter(|ended| span.since < **ended && **ended <= span.until).count()
        };
        spans.map(ended_in).sum::<usize>()
    };
    let missed = |(worker, taken): (TaskName, Taken)| {
        let missed = made.len().saturating_sub(taken.count + untold(&worker));
        let is_at_the_end = made.range(taken.last + 1..).count() == 1;
        let missed = missed.saturating_sub(usize::from(is_at_the_end));
        (worker, missed as u64)
    };
    workers.into_iter().map(missed).filter(|(_, rounds)| *rounds > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::observed::Observed;
    use crate::experiment::summary::tests::step;
    use crate::training::{Fact, SharedRecording, StepStats};

    /// What a run of three workers reports that took `steps`: worker and round.
    fn reported(mode: &str, steps: &[(u32, u64)]) -> BTreeMap<TaskName, u64> {
        reported_with(mode, steps, Vec::new())
    }

    /// The same with times that a killed worker did not tell of.
    fn reported_with(
        mode: &str,
        steps: &[(u32, u64)],
        unheard: Vec<Unheard>,
    ) -> BTreeMap<TaskName, u64> {
        let text = format!("[cluster]\nps = 1\nworker = 3\n[[run]]\nname = 'a'\nmode = {mode}\n");
        let trial = Experiment::parse(&text).unwrap().trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        for (worker, round) in steps {
            shared.record(Fact::Step(step(*worker, *round, *round, 10 * *round)));
        }
        let late = StepStats { applied: false, ..step(1, 9, 4, 95) };
        shared.record(Fact::Step(late));
        let observed = Observed::deployed(Time(6_000_000_000), BTreeMap::new());
        let mut recording = shared.finish();
        recording.unheard = unheard;
        trial.summarise(&recording, &observed, Duration::from_secs(6)).steps_without
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

    #[test]
    fn a_worker_that_never_took_a_step_is_missed_in_all_rounds() {
        let two = (1..=4).flat_map(|round| [(0, round), (2, round)]).collect::<Vec<_>>();
        let lost = BTreeMap::from([(TaskName::new("worker", 1), 4)]);
        assert_eq!(reported("'sync'", &two), lost);
        assert_eq!(reported("'sync'", &two[..2]), BTreeMap::new(), "it ended with the others");
        assert_eq!(reported("'sync'", &[]), BTreeMap::new());
    }

    #[test]
    fn rounds_that_ended_before_a_killed_worker_could_tell_of_them_have_its_gradient() {
        let two = (4..=9).flat_map(|round| [(0, round), (2, round)]);
        let steps: Vec<(u32, u64)> = all(1..=3).into_iter().chain(two).collect();
        let ended = |round| step(0, round, round, 10 * round).ended;
        let worker = TaskName::new("worker", 1);
        let killed = Unheard { worker: worker.clone(), since: ended(3), until: ended(5) };
        let lost = |count| BTreeMap::from([(worker.clone(), count)]);
        assert_eq!(reported("'sync'", &steps), lost(6));
        assert_eq!(reported_with("'sync'", &steps, vec![killed]), lost(4));
    }
}
