//! Trainings in simulation keep the laws that queueing theory has for them.
//!
//! Computation takes a drawn time and the network next to none, so that the closed forms hold: the
//! mean staleness of asynchronous training is conserved (every update sees the open steps of the n
//! − 1 others, whatever their law), and a synchronous step takes as long as the slowest of n draws.

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use super::rounds::updates;
use crate::support::checkers::check;
use crate::support::simulated::{Simulated, Trained, assert_near, mean};

/// The mean computation of a step \[s\].
const MEAN: f64 = 0.1;
const EXPONENTIAL: Law = Law::Exponential { mean: MEAN };
const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };

/// The laws that a straggler can have, each of mean [`MEAN`].
fn laws() -> [Law; 8] {
    [
        Law::Constant { value: MEAN },
        Law::Uniform { low: 0.5 * MEAN, high: 1.5 * MEAN },
        EXPONENTIAL,
        Law::ShiftedExponential { shift: 0.5 * MEAN, mean: 0.5 * MEAN },
        Law::Lognormal { mean: MEAN, sigma: 0.5 },
        Law::Pareto { scale: MEAN * 1.5 / 2.5, shape: 2.5 },
        Law::Weibull { scale: MEAN / 2.0, shape: 0.5 },
        Law::Empirical { values: vec![0.4 * MEAN, 0.6 * MEAN, 2.0 * MEAN] },
    ]
}

fn train(mode: Mode, workers: u32, law: Law, steps: u64) -> Trained {
    let training = Simulated::new(1, workers, mode).step_time(law).steps(steps);
    let trained = training.run_staggered(Duration::from_secs_f64(MEAN));
    check(&training, &trained);
    trained
}

fn staleness(trained: &Trained, warm_up: u64, last: u64) -> impl Iterator<Item = f64> + Clone {
    trained.applied(warm_up, last).map(|step| step.staleness as f64)
}

/// The `n`-th harmonic number.
fn harmonic(n: u32) -> f64 {
    (1..=n).map(|i| 1.0 / f64::from(i)).sum()
}

#[test]
fn asynchronous_training_has_mean_staleness_n_minus_1_and_throughput_n_over_the_mean_for_every_law()
{
    const WORKERS: u32 = 6;
    const WARM_UP: u64 = 100;
    const STEPS: u64 = 6000;
    for law in laws() {
        assert_near("the mean of the law", law.mean(), MEAN, 1e-9);
        let what = format!("{law:?}");
        let trained = train(Mode::Async, WORKERS, law, STEPS);
        assert_near(
            &what,
            mean(staleness(&trained, WARM_UP, STEPS)),
            f64::from(WORKERS - 1),
            0.001,
        );
        let rate = (STEPS - WARM_UP) as f64 / (trained.reached(STEPS) - trained.reached(WARM_UP));
        assert_near(&what, rate, f64::from(WORKERS) / MEAN, 0.06);
    }
}

/// Every second worker takes four times as long. While one of those takes a step, the three fast
/// ones take twelve and the two slow ones two.
#[test]
fn asynchronous_training_has_mean_staleness_n_minus_1_where_half_of_the_workers_are_slow() {
    const WORKERS: u32 = 6;
    const WARM_UP: u64 = 100;
    const STEPS: u64 = 15_000;
    for law in [Law::Constant { value: MEAN }, EXPONENTIAL] {
        let what = format!("{law:?}");
        let equal = Simulated::new(1, WORKERS, Mode::Async).step_time(law).steps(STEPS);
        let training = [1, 3, 5].into_iter().fold(equal, |rest, worker| rest.slow(worker, 4.0));
        let trained = training.run_staggered(Duration::from_secs_f64(MEAN));
        check(&training, &trained);
        let all = mean(staleness(&trained, WARM_UP, STEPS));
        assert_near(&what, all, f64::from(WORKERS - 1), 0.001);
        let slow = trained.applied(WARM_UP, STEPS).filter(|step| step.worker.index() % 2 == 1);
        let of_slow = mean(slow.map(|step| step.staleness as f64));
        assert_near(&format!("{what}, of the slow ones"), of_slow, 14.0, 0.06);
    }
}

#[test]
fn steps_of_one_constant_length_all_have_staleness_n_minus_1() {
    for mode in [Mode::Async, Mode::StalenessAware, Mode::DelayCompensated { lambda: 0.04 }] {
        let trained = train(mode, 5, Law::Constant { value: MEAN }, 200);
        assert!(staleness(&trained, 10, 200).all(|staleness| staleness == 4.0), "{mode}");
    }
}

#[test]
fn exponential_steps_have_geometric_staleness() {
    const WORKERS: u32 = 4;
    let n = f64::from(WORKERS);
    // For standard errors of at most a third of a per cent.
    let updates = updates(Mode::Async, WORKERS, &EXPONENTIAL, 1_000_000);
    let seen = updates.staleness.iter().skip(100).map(|staleness| *staleness as f64);
    let share = |of: f64| mean(seen.clone().map(|staleness| f64::from(u8::from(staleness == of))));
    assert_near("P(0)", share(0.0), 1.0 / n, 0.01);
    assert_near("P(1)", share(1.0), (1.0 - 1.0 / n) / n, 0.01);
    assert_near("P(2)", share(2.0), (1.0 - 1.0 / n).powi(2) / n, 0.01);
    let variance = mean(seen.clone().map(|staleness| (staleness - (n - 1.0)).powi(2)));
    assert_near("variance", variance, n * (n - 1.0), 0.01);
}

#[test]
fn a_synchronous_step_takes_as_long_as_the_slowest_of_n_draws() {
    const WORKERS: u32 = 8;
    let step = updates(SYNC, WORKERS, &EXPONENTIAL, 40_000).mean_time();
    assert_near("the mean step", step, harmonic(WORKERS) * MEAN, 0.01);
}

/// The mean time of a round in which `fresh` workers compute its gradients and `late` ones still
/// those of an earlier round, and which closes when `open` workers are left: a worker that has
/// voted waits, a late one comes too late and then begins anew, and draws are exponential, so that
/// what has passed does not count.
fn mean_round(fresh: u32, late: u32, open: u32) -> f64 {
    if fresh + late == open {
        return 0.0;
    }
    let voted = if fresh > 0 { f64::from(fresh) * mean_round(fresh - 1, late, open) } else { 0.0 };
    let begun =
        if late > 0 { f64::from(late) * mean_round(fresh + 1, late - 1, open) } else { 0.0 };
    (MEAN + voted + begun) / f64::from(fresh + late)
}

#[test]
fn with_backups_a_round_takes_as_long_as_its_workers_that_go_on_when_late_make_it() {
    const WORKERS: u32 = 8;
    for backups in [1, 3] {
        const STEPS: u64 = 300;
        let mode = Mode::Sync { backups, cancel: false };
        let step = updates(mode, WORKERS, &EXPONENTIAL, 40_000).mean_time();
        let counted = WORKERS - backups;
        assert_near("the mean round", step, mean_round(counted, backups, backups), 0.01);
        // Were the late ones stopped and begun anew with the round, as by a cancelled step, it
        // would be shorter.
        let order_statistic = (harmonic(WORKERS) - harmonic(backups)) * MEAN;
        assert!(step > order_statistic && step < harmonic(WORKERS) * MEAN, "{step}");
        let trained = train(mode, WORKERS, EXPONENTIAL, STEPS);
        let dropped = trained.steps.iter().filter(|step| !step.applied).count();
        assert!(
            dropped > 0 && trained.steps.len() == dropped + STEPS as usize * counted as usize,
            "{dropped} dropped"
        );
    }
}

/// Two workers, of whom the first that has taken two steps from a center moves it. The other is
/// then late with none or one of its steps taken: with its second it begins again, in vain. The
/// states of such a round make a Markov chain, of which 23/14 steps is the mean.
#[test]
fn with_a_backup_local_sgd_takes_as_long_as_moves_from_centers_that_have_not_moved_since_make_it() {
    const ROUNDS: u64 = 4000; // for a standard error of one per cent
    let mode = Mode::LocalSgd { every: 2, backups: 1 };
    let training = Simulated::new(1, 2, mode).step_time(EXPONENTIAL).steps(ROUNDS);
    let trained = training.run_staggered(Duration::from_secs_f64(MEAN));
    let round = (trained.reached(ROUNDS) - trained.reached(100)) / (ROUNDS - 100) as f64;
    // Did a move count that began at the center before, it would be 10/7 of a step.
    assert_near("the mean round", round, 23.0 / 14.0 * MEAN, 0.03);
}

#[test]
fn with_backups_a_move_of_local_sgd_counts_if_the_center_is_where_it_began() {
    const EVERY: u64 = 4;
    let backups = 4;
    for mode in [
        Mode::LocalSgd { every: 4, backups },
        Mode::DiLoCo { every: 4, backups, outer_learning_rate: 0.7, outer_momentum: 0.9 },
    ] {
        let training = Simulated::new(1, 16, mode).step_time(EXPONENTIAL).steps(300);
        let trained = training.run_staggered(Duration::from_secs_f64(MEAN));
        let mut began: BTreeMap<&TaskName, u64> = BTreeMap::new();
        let (mut applied, mut dropped) = (0, 0);
        for step in trained.steps.iter().filter(|step| step.local_step % EVERY == EVERY - 1) {
            let before = began.insert(&step.worker, step.global_step).unwrap_or(0);
            if step.applied {
                assert_eq!((before + 1, step.staleness), (step.global_step, 0), "{mode}: {step:?}");
                applied += 1;
            } else if step.global_step < 300 {
                let moved = step.global_step - before;
                assert!((1..=moved).contains(&step.staleness), "{mode}: {step:?}");
                dropped += 1;
            }
        }
        assert!(applied == 12 * 300 && dropped > 100, "{mode}: {applied}, {dropped} dropped");
    }
}

#[test]
fn an_update_of_k_async_takes_as_long_as_the_first_k_of_n_draws_and_is_n_over_k_minus_1_stale() {
    const WORKERS: u32 = 6;
    for k in [1, 3, 5] {
        let updates = updates(Mode::KAsync { k }, WORKERS, &EXPONENTIAL, 100_000);
        // Each update finds all workers at work again, and exponential draws forget what has
        // passed.
        assert_near(
            "the mean update",
            updates.mean_time(),
            (harmonic(WORKERS) - harmonic(WORKERS - k)) * MEAN,
            0.01,
        );
        let stale = f64::from(WORKERS) / f64::from(k) - 1.0;
        assert_near("the mean staleness", updates.mean_staleness(), stale, 0.01);
    }
}

#[test]
fn k_batch_async_has_n_over_k_updates_a_step_of_mean_staleness_n_minus_1_over_k() {
    const WORKERS: u32 = 6;
    const K: u32 = 2;
    const UPDATES: u64 = 1500;
    for law in laws() {
        let what = format!("{law:?}");
        let trained = train(Mode::KBatchAsync { k: K }, WORKERS, law, UPDATES);
        let stale = f64::from(WORKERS - 1) / f64::from(K);
        assert_near(&what, mean(staleness(&trained, 50, UPDATES)), stale, 0.03);
        let rate = (UPDATES - 50) as f64 / (trained.reached(UPDATES) - trained.reached(50));
        assert_near(&what, rate, f64::from(WORKERS) / (f64::from(K) * MEAN), 0.06);
    }
}

#[test]
fn updates_come_every_k_nth_of_a_mean_step_where_nobody_waits() {
    const WORKERS: u32 = 6;
    for k in [1, 4] {
        for law in [
            Law::Uniform { low: 0.5 * MEAN, high: 1.5 * MEAN },
            EXPONENTIAL,
            Law::ShiftedExponential { shift: 0.5 * MEAN, mean: 0.5 * MEAN },
        ] {
            let what = format!("{law:?}, {k} of {WORKERS}");
            let mode = if k == 1 { Mode::Async } else { Mode::KBatchAsync { k } };
            let update = updates(mode, WORKERS, &law, 100_000).mean_time();
            assert_near(&what, update, f64::from(k) * MEAN / f64::from(WORKERS), 0.01);
        }
    }
}

#[test]
fn k_batch_sync_waits_for_nobody_and_drops_what_is_of_an_older_version() {
    const WORKERS: u32 = 6;
    let trained = train(Mode::KBatchSync { k: 4, cancel: false }, WORKERS, EXPONENTIAL, 1000);
    let (applied, dropped): (Vec<_>, Vec<_>) = trained.steps.iter().partition(|step| step.applied);
    assert!(!dropped.is_empty() && applied.len().abs_diff(4 * 1000) <= 4 + WORKERS as usize);
    // Were the late ones stopped and begun anew, an update would take K/n of a step.
    let update = (trained.reached(1000) - trained.reached(100)) / 900.0;
    assert!(update > 4.0 / 6.0 * MEAN && update < harmonic(WORKERS) * MEAN, "{update}");
}

#[test]
fn bounded_staleness_lies_between_synchronous_and_asynchronous_in_speed_and_in_staleness() {
    let gradients = |mode, steps| {
        let trained = train(mode, 6, EXPONENTIAL, steps);
        let last = trained.steps.iter().map(|step| step.ended).max().unwrap().as_secs_f64();
        (trained.steps.len() as f64 / last, mean(staleness(&trained, steps / 10, steps)))
    };
    let modes = [0, 2, 8].map(|slack| (Mode::BoundedStaleness { slack }, 1800));
    let all = [&[(SYNC, 300)], &modes[..], &[(Mode::Async, 1800)]].concat();
    let seen: Vec<(f64, f64)> =
        all.into_iter().map(|(mode, steps)| gradients(mode, steps)).collect();
    // Steps of slack 0 are rounds like synchronous ones, though their gradients are applied one by
    // one.
    assert_near("slack 0 against sync", seen[1].0, seen[0].0, 0.06);
    for pair in seen[1..].windows(2) {
        assert!(pair[0].0 < pair[1].0, "more slack is faster: {seen:?}");
        assert!(pair[0].1 < pair[1].1, "more slack is staler: {seen:?}");
    }
}

/// The rate is 1 in the first 8 steps and then 0, so that the variable has the number of updates
/// with the first one. The chief's loss is that variable.
async fn count_early_rates(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(0f32)))?;
    g.with_device("/job:ps/task:0", |g| g.global_step())?;
    let read = v.read();
    let less = read.mul(&g.constant(0f32))?.sub(&g.constant(1f32))?;
    let early = Schedule::PiecewiseConstant { until: vec![(7, 1.0)], last: 0.0 };
    let train = task.apply_gradients(GradientDescent::new(early), &[(v, less)])?;
    let builder = MonitoredSession::builder(&task, g.clone());
    let mut session = builder.hook(StopAtStep::last_step(60)).open().await?;
    while !session.should_stop() {
        session.run().fetch(&read).target(&train).await?;
    }
    session.close().await
}

#[test]
fn an_update_of_several_gradients_has_the_rate_of_the_latest_whoever_sends_it() {
    for (mode, slow) in [
        (Mode::KAsync { k: 2 }, 0),
        (Mode::KAsync { k: 2 }, 2),
        (Mode::KBatchAsync { k: 2 }, 0),
        (Mode::KBatchAsync { k: 2 }, 2),
    ] {
        let law = Law::Uniform { low: 0.9 * MEAN, high: 1.1 * MEAN };
        let training = Simulated::new(1, 3, mode).step_time(law).slow(slow, 20.0);
        let trained = training.run_program(count_early_rates);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let stale = trained.steps.iter().filter(|step| step.staleness > 8 && step.applied);
        assert!(stale.count() > 0, "{mode}: the slow one had the early rate late");
        let last = trained.steps.iter().max_by_key(|step| (step.global_step, step.ended)).unwrap();
        assert_eq!(last.loss, Some(8.0), "{mode}, worker {slow} is slow");
    }
}
