//! Rounds whose late workers are stopped and begin anew with the next round (Dutta et al. 2018),
//! and the same rounds when late workers go on.
//!
//! Computation takes a drawn time and the network next to none, so that the closed forms hold.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::units::Time;

use super::rounds::{assert_follows, updates};
use crate::support::simulated::{Simulated, Trained, assert_near};

const WORKERS: u32 = 16;
/// The mean of an exponential computation \[s\].
const MEAN: f64 = 0.1;
const EXPONENTIAL: Law = Law::Exponential { mean: MEAN };

fn train(mode: Mode, law: Law, steps: u64) -> Trained {
    Simulated::new(1, WORKERS, mode).step_time(law).steps(steps).run()
}

/// The mean time of an update \[s\], of so many that its standard error is below a third of one per
/// cent.
fn update_time(mode: Mode, law: &Law) -> f64 {
    updates(mode, WORKERS, law, 40_000).mean_time()
}

/// The mean of the `k`-th of [`WORKERS`] exponential times \[s\].
fn order_statistic(k: u32) -> f64 {
    (WORKERS - k + 1..=WORKERS).map(|left| MEAN / f64::from(left)).sum()
}

#[test]
fn a_round_with_backups_takes_as_long_as_the_first_k_of_n_draws() {
    for backups in [4, 1] {
        let k = WORKERS - backups;
        let round = update_time(Mode::Sync { backups, cancel: true }, &EXPONENTIAL);
        assert_near(&format!("{k} of {WORKERS}"), round, order_statistic(k), 0.01);
    }
}

#[test]
fn a_shift_of_every_draw_shifts_the_round() {
    let shift = MEAN / 2.0;
    let law = Law::ShiftedExponential { shift, mean: MEAN };
    let round = update_time(Mode::Sync { backups: 4, cancel: true }, &law);
    assert_near("12 of 16", round, shift + order_statistic(12), 0.01);
}

#[test]
fn an_update_of_k_batch_sync_takes_k_nths_of_a_draw() {
    let update = update_time(Mode::KBatchSync { k: 8, cancel: true }, &EXPONENTIAL);
    assert_near("8 of 16", update, 8.0 / 16.0 * MEAN, 0.01);
}

#[test]
fn every_step_that_is_stopped_is_reported_as_dropped_and_every_round_is_whole() {
    const STEPS: u64 = 200;
    let trained = train(Mode::Sync { backups: 4, cancel: true }, EXPONENTIAL, STEPS);
    for step in 1..=STEPS {
        assert_eq!(trained.applied(step - 1, step).count(), 12, "{step}");
    }
    assert!(trained.steps.iter().all(|step| !(step.is_stopped && step.computed.is_some())));
    let stopped = trained.steps.iter().filter(|step| step.is_stopped).count() as u64;
    assert!(stopped >= 4 * (STEPS - 1), "{stopped}");
    let dropped = trained.steps.iter().filter(|step| !step.applied).count() as u64;
    // At the end each learns of it by a step that does not count.
    assert!((4 * (STEPS - 1)..=4 * STEPS + u64::from(WORKERS)).contains(&dropped), "{dropped}");
}

#[test]
fn a_worker_that_is_late_for_the_last_round_does_not_compute_beyond_it() {
    const STEPS: u64 = 60;
    const STEP: f64 = 0.01;
    // Who goes on after its vote, as the chief may, learns of the round's end with its next one.
    for (mode, more) in [
        (Mode::Sync { backups: 1, cancel: true }, 0.0),
        (Mode::KBatchSync { k: 4, cancel: true }, STEP),
    ] {
        let training = Simulated::new(1, 8, mode).step_time(Law::Constant { value: STEP });
        let trained = training.slow(7, 100.0).steps(STEPS).run();
        let ended = trained.steps.iter().map(|step| step.ended.as_secs_f64()).fold(0.0, f64::max);
        let end = trained.reached(STEPS);
        assert!(
            ended < end + more + 0.001,
            "{mode}: round {STEPS} closed at {end} s, a step at {ended}"
        );
    }
}

#[test]
fn a_device_that_stops_a_step_is_free_after_the_time_that_the_scenario_says() {
    const STEPS: u64 = 400;
    let cost = Duration::from_millis(20);
    let time = |cost| {
        let mode = Mode::Sync { backups: 8, cancel: true };
        let training = Simulated::new(1, WORKERS, mode).step_time(EXPONENTIAL).stop_cost(cost);
        training.steps(STEPS).run().reached(STEPS)
    };
    let (free, costly) = (time(Duration::ZERO), time(cost));
    let most = free + STEPS as f64 * cost.as_secs_f64();
    assert!(1.05 * free < costly && costly < most, "{free} s, {costly} s");
}

#[test]
fn a_chief_that_is_late_for_every_round_saves_now_and_then_and_ends_the_training() {
    for mode in [Mode::Sync { backups: 1, cancel: true }, Mode::KBatchSync { k: 2, cancel: true }] {
        let store = Memory::default();
        let training = Simulated::new(1, 3, mode)
            .step_time(Law::Constant { value: 0.005 })
            .slow(0, 4.0)
            .checkpoints(&store, 2)
            .keep_all_checkpoints()
            .until(Duration::from_secs(1));
        let trained = training.steps(2000).run();
        let last = trained.steps.iter().map(|step| step.global_step).max();
        assert!(last < Some(400), "{mode}: its time ends it, not its last step, at {last:?}");
        let saved = Saver::new(Arc::new(store), Retention::default()).checkpoints().unwrap();
        assert!(saved.len() > 4, "{mode}: {saved:?}");
    }
}

#[test]
fn a_chief_that_is_late_for_every_round_and_is_asked_to_stop_saves_before_its_next_step() {
    let (store, task) = (Memory::default(), TaskName::new("worker", 0));
    let asked = Trigger::Time(Time::ZERO.after(Duration::from_millis(60)));
    let stop = FaultKind::Stop { task, restart_after: Some(Duration::from_millis(50)) };
    let training = Simulated::new(1, 3, Mode::Sync { backups: 1, cancel: true })
        .step_time(Law::Constant { value: 0.005 })
        .slow(0, 4.0)
        .checkpoints(&store, 100_000)
        .keep_all_checkpoints();
    training.fault(asked, stop).run();
    let saved = Saver::new(Arc::new(store), Retention::default()).checkpoints().unwrap();
    let steps: Vec<u64> = saved.iter().map(|checkpoint| checkpoint.global_step).collect();
    assert!(steps.iter().any(|step| (1..25).contains(step)), "{steps:?}");
}

/// Parameter servers are cut off from each other in such a way that a version comes to the other
/// one after the gradient that it was for: the step begins and ends there at one time.
#[test]
fn a_step_ends_even_if_its_beginning_comes_as_late_as_its_end() {
    let cut = r#"fault=[{ at = "61931us", partition = ["ps:0", "ps:1"], for = "85103us" }]"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["sim", "sims/chaos.toml", "--seed", "31", "--chaos", "0", "--set", cut]);
    let output = command.args(["--run", "sync, 1 backup, cancelling"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn without_cancelling_updates_come_when_a_model_of_the_same_draws_makes_them() {
    for law in [
        Law::Uniform { low: 0.5 * MEAN, high: 1.5 * MEAN },
        Law::Lognormal { mean: MEAN, sigma: 0.5 },
    ] {
        for mode in
            [Mode::Sync { backups: 4, cancel: false }, Mode::KBatchSync { k: 8, cancel: false }]
        {
            assert_follows(mode, WORKERS, &law);
        }
    }
}
