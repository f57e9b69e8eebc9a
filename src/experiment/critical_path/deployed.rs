//! What a deployed run's time was spent on, from the waits that its workers have noted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Extent, Stretches, how_ended};
use crate::cluster::TaskName;
use crate::report::{CriticalPath, TimeCause};
use crate::simulation::StepEnd;
use crate::training::StepStats;
use crate::units::Time;

/// What a lap's time is spent on: its steps as [`StepStats::phases`] has them, its pauses, and what
/// a session took that was lost, until the next one went on.
const CAUSES: [TimeCause; 5] = [
    TimeCause::Parameters,
    TimeCause::Compute,
    TimeCause::Update,
    TimeCause::Other,
    TimeCause::Faults,
];

/// A worker's lap, as a simulation has them, too: to the end of a step whose result others have.
#[derive(Clone)]
struct Lap {
    worker: TaskName,
    /// The global step that it has led to.
    global_step: u64,
    /// When the last of its kernels ended.
    computed: Time,
    /// The seconds of each of [`CAUSES`].
    seconds: [f64; CAUSES.len()],
}

/// The same as [`simulated`](super::simulated) for a deployed run, of which nobody has noted whom a
/// worker waited for. Where workers wait for each other, the lap counts of the one whose kernels
/// ended last, since it has decided when the global step was made. Else all laps count. At the
/// times `restored` the training went back to a checkpoint.
pub(crate) fn deployed(
    steps: impl Iterator<Item = StepStats> + Clone,
    restored: &[Time],
    run: Extent,
) -> Option<CriticalPath> {
    let stretches = Stretches::of(steps.clone(), run);
    let mut laps = laps(steps, restored);
    if !run.workers_are_free {
        laps = last_of_each_global_step(laps);
    }
    let mut of_workers: BTreeMap<Option<TaskName>, (f64, [f64; CAUSES.len()])> = BTreeMap::new();
    for lap in &laps {
        let worker = run.workers_are_free.then(|| lap.worker.clone());
        let (number, all) = of_workers.entry(worker).or_default();
        *number += 1.0;
        all.iter_mut().zip(lap.seconds).for_each(|(all, seconds)| *all += seconds);
    }
    let mut causes = BTreeMap::new();
    for (number, seconds) in of_workers.values() {
        let weight = number / laps.len() as f64 / seconds.iter().sum::<f64>();
        for (cause, seconds) in CAUSES.into_iter().zip(seconds) {
            *causes.entry(cause).or_default() += weight * seconds * stretches.training;
        }
    }
    (!laps.is_empty()).then(|| stretches.add_to(causes, Vec::new()))
}

/// The laps of a worker so far.
#[derive(Default)]
struct Own {
    /// When its last step ended.
    last: Option<Time>,
    /// The seconds of the lap under way.
    seconds: [f64; CAUSES.len()],
}

impl Own {
    /// Adds the time since the last step, until `step` began.
    fn pause(&mut self, step: &StepStats, restored: &[Time]) {
        let [_, _, _, other, faults] = &mut self.seconds;
        let Some(last) = self.last else { return };
        let is_way_back = restored.iter().any(|at| (last..step.started).contains(at));
        *(if is_way_back { faults } else { other }) += step.started.since(last).as_secs_f64();
    }
}

/// The laps of `steps`, of each worker in order.
fn laps(steps: impl Iterator<Item = StepStats>, restored: &[Time]) -> Vec<Lap> {
    let (mut workers, mut laps) = (BTreeMap::<TaskName, Own>::new(), Vec::new());
    for step in steps {
        let how = how_ended(&step);
        let own = workers.entry(step.worker.clone()).or_default();
        own.pause(&step, restored);
        let [parameters, compute, update] = step.phases().map(|phase| phase.as_secs_f64());
        let seconds = match how {
            StepEnd::GivenUp => [0.0, 0.0, 0.0, 0.0, parameters + compute + update],
            _ => [parameters, compute, update, 0.0, 0.0],
        };
        own.seconds.iter_mut().zip(seconds).for_each(|(sum, seconds)| *sum += seconds);
        own.last = Some(step.ended);
        if matches!(how, StepEnd::Local | StepEnd::GivenUp) {
            continue;
        }
        let seconds = std::mem::take(&mut own.seconds);
        if how == StepEnd::Applied && seconds.iter().sum::<f64>() > 0.0 {
            let computed = step.computed.map_or(step.started, |(_, until)| until);
            laps.push(Lap {
                worker: step.worker,
                global_step: step.global_step,
                computed,
                seconds,
            });
        }
    }
    laps
}

/// Of `laps`, for each global step that of the worker that came last.
fn last_of_each_global_step(laps: Vec<Lap>) -> Vec<Lap> {
    let mut last: BTreeMap<u64, Lap> = BTreeMap::new();
    for lap in laps {
        match last.entry(lap.global_step) {
            Entry::Vacant(none) => drop(none.insert(lap)),
            Entry::Occupied(mut other) if other.get().computed < lap.computed => {
                other.insert(lap);
            }
            Entry::Occupied(_) => {}
        }
    }
    last.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITING: Extent = Extent { start: 0.0, seconds: 10.0, workers_are_free: false };
    const FREE: Extent = Extent { workers_are_free: true, ..WAITING };

    /// A step of `worker` that computes for so many of its seconds; times in seconds.
    fn step(worker: u32, from: u64, until: u64, computing: u64) -> StepStats {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let computed = Some((at(from), at(from + computing)));
        let times = (at(from), at(until));
        StepStats { computed, ..StepStats::applied(worker, (from, until), times) }
    }

    #[track_caller]
    fn assert_spends(steps: &[StepStats], run: Extent, expected: &[(TimeCause, f64)]) {
        let path = deployed(steps.iter().cloned(), &[], run).expect("gradients are applied");
        for (cause, seconds) in expected {
            let own = path.causes.get(cause).copied().unwrap_or(0.0);
            assert!((own - seconds).abs() < 1e-9, "{cause:?} {seconds}: {path:?}");
        }
        assert!((path.seconds() - run.seconds).abs() < 1e-9, "{path:?}");
    }

    #[test]
    fn a_worker_counts_by_its_laps_where_none_waits_for_another() {
        let fast = (0..9).map(|number| step(0, number, number + 1, 0));
        let steps: Vec<StepStats> = fast.chain([step(1, 0, 10, 10)]).collect();
        assert_spends(&steps, FREE, &[(TimeCause::Compute, 1.0), (TimeCause::Update, 9.0)]);
    }

    #[test]
    fn the_worker_that_came_last_has_decided_the_time_of_a_round() {
        let rounds = [step(0, 0, 5, 1), step(1, 0, 5, 4), step(0, 5, 10, 3), step(1, 5, 10, 2)];
        assert_spends(&rounds, WAITING, &[(TimeCause::Compute, 7.0), (TimeCause::Update, 3.0)]);
    }

    #[test]
    fn the_steps_of_a_slow_workers_own_copy_have_decided_the_time_of_an_average() {
        let local = |step: StepStats| StepStats { is_local: true, ..step };
        let fast = [local(step(0, 0, 1, 1)), step(0, 1, 10, 1)];
        let slow = [local(step(1, 0, 4, 4)), step(1, 4, 10, 5)];
        let steps = [fast, slow].concat();
        assert_spends(&steps, WAITING, &[(TimeCause::Compute, 9.0), (TimeCause::Update, 1.0)]);
    }

    #[test]
    fn a_pause_of_the_chief_counts_though_the_other_worker_has_a_step_under_way() {
        let chief = [step(0, 0, 2, 2), step(0, 8, 10, 2)];
        let other = [step(1, 0, 2, 2), step(1, 2, 10, 2)];
        let steps = [chief, other].concat();
        assert_spends(&steps, WAITING, &[(TimeCause::Compute, 4.0), (TimeCause::Other, 6.0)]);
    }

    #[test]
    fn what_is_under_way_after_the_last_applied_gradient_is_a_late_workers_last_step() {
        let vain = StepStats { applied: false, ..step(1, 2, 9, 7) };
        let path =
            deployed([step(0, 1, 4, 3), vain].into_iter(), &[], Extent { start: 1.0, ..FREE });
        let expected = [
            (TimeCause::Start, 1.0),
            (TimeCause::Compute, 3.0),
            (TimeCause::LateSteps, 5.0),
            (TimeCause::Other, 1.0),
        ];
        assert_eq!(path.unwrap().causes, BTreeMap::from(expected));
    }

    #[test]
    fn the_time_of_an_attempt_that_was_given_up_is_that_of_the_fault_that_ended_it() {
        let lost = StepStats { applied: false, computed: None, ..step(0, 2, 7, 0) };
        let steps = [step(0, 0, 2, 2), lost, step(0, 7, 10, 3)];
        assert_spends(&steps, FREE, &[(TimeCause::Compute, 5.0), (TimeCause::Faults, 5.0)]);
    }

    #[test]
    fn a_pause_in_which_the_training_went_back_to_a_checkpoint_is_that_of_a_fault() {
        let steps = [step(0, 0, 2, 2), step(0, 3, 4, 1), step(0, 8, 10, 2)];
        let path = deployed(steps.into_iter(), &[Time(7_000_000_000)], FREE).unwrap();
        let expected =
            [(TimeCause::Compute, 5.0), (TimeCause::Faults, 4.0), (TimeCause::Other, 1.0)];
        assert_eq!(path.causes, BTreeMap::from(expected));
    }
}
