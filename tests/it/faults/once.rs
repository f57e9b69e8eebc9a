//! Each gradient counts once, or is reported as dropped: told by a variable that is a sum of powers
//! of two, one for each step of a worker that is cut off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;

use crate::support::simulated::{Simulated, Trained};
use crate::support::thorough::spread;

const STEPS: u64 = 40;

/// The gradient of step `number` of the worker that is cut off.
fn power(number: usize) -> f32 {
    2f32.powi(number as i32 % 20)
}

/// Worker 1 adds a power of two to the variable with each step, the others nothing.
async fn add_powers(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [0usize; 0])?;
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(0f32)))?;
    g.with_device("/job:ps/task:1", |g| g.global_step())?;
    let train = task.apply_gradients(GradientDescent::new(1.0), &[(v, -&x)])?;
    let checkpointing = task.checkpointing().expect("the training keeps checkpoints").clone();
    let builder = MonitoredSession::builder(&task, g.clone()).checkpointing(checkpointing);
    let mut session = builder.hook(StopAtStep::last_step(STEPS)).open().await?;
    let is_cut_off = task.index() == 1;
    for number in 0.. {
        if session.should_stop() {
            break;
        }
        let value = if is_cut_off { power(number) } else { 0.0 };
        if let Err(error) = session.run().feed(&x, Tensor::scalar(value)).target(&train).await {
            return session.close_after(Err(error)).await;
        }
    }
    session.close().await
}

/// Asserts that the variable has each gradient of worker 1 that is told as applied once, in a round
/// of `size`, and no other.
#[track_caller]
fn assert_each_is_once(trained: &Trained, store: &Memory, size: f32, case: &str) {
    assert!(trained.outcome.result.is_ok(), "{case}: {:?}", trained.outcome.result);
    let mut saver = Saver::new(Arc::new(store.clone()), Retention::default());
    let restored = saver.latest().unwrap().checkpoint.unwrap();
    let last = restored.global_step;
    let own = trained.steps.iter().filter(|step| step.worker.index() == 1);
    let applied = own.filter(|step| step.applied && step.global_step <= last);
    let applied: Vec<usize> = applied.map(|step| step.local_step as usize).collect();
    let expected: f32 = applied.iter().map(|number| power(*number)).sum();
    let found = restored.variables["v"].item::<f32>().unwrap() * size;
    assert_eq!(found, expected, "{case}: {applied:?} are applied");
}

#[test]
fn a_worker_that_is_cut_off_at_any_time_has_no_gradient_counted_twice() {
    let modes = [
        (Mode::Sync { backups: 0, cancel: false }, 2.0),
        (Mode::Sync { backups: 1, cancel: false }, 1.0),
        (Mode::Sync { backups: 1, cancel: true }, 1.0),
        (Mode::KAsync { k: 2 }, 2.0),
    ];
    let (ps, worker) = (|index| TaskName::new("ps", index), TaskName::new("worker", 1));
    for (mode, size) in modes {
        let training = |store: &Memory| {
            Simulated::new(2, 2, mode)
                .step_time(Law::Constant { value: 0.1 })
                .slow(0, 3.0)
                .steps(STEPS)
                .checkpoints(store, 1000)
        };
        let plain = training(&Memory::default()).run_program(add_powers);
        let cuts = [
            (vec![ps(0)], false),
            (vec![ps(1)], false),
            (vec![ps(0), ps(1)], false),
            (vec![ps(0), ps(1)], true),
        ];
        let deliveries = (20..plain.outcome.deliveries / 2).step_by(3);
        let cases = deliveries.flat_map(|delivery| cuts.iter().map(move |cut| (delivery, cut)));
        for (delivery, (from, is_back_too)) in spread(cases, 7) {
            let store = Memory::default();
            let case = format!("{mode}, cut off from {from:?} at delivery {delivery}");
            let cut = |from: &TaskName, to: &TaskName| FaultKind::OneWay {
                from: from.clone(),
                to: to.clone(),
                lasts: Duration::from_secs(7),
            };
            let mut cut_off = training(&store);
            for ps in from {
                cut_off = cut_off.fault(Trigger::Delivery(delivery), cut(ps, &worker));
                if *is_back_too {
                    cut_off = cut_off.fault(Trigger::Delivery(delivery), cut(&worker, ps));
                }
            }
            assert_each_is_once(&cut_off.run_program(add_powers), &store, size, &case);
        }
    }
}

/// Each update adds 1 to the variable. The loss of a step is what it has read of it: the updates
/// that there were.
async fn count_updates(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(0f32)))?;
    g.with_device("/job:ps/task:0", |g| g.global_step())?;
    let read = v.read();
    let less = read.mul(&g.constant(0f32))?.sub(&g.constant(1f32))?;
    let train = task.apply_gradients(GradientDescent::new(1.0), &[(v, less)])?;
    let builder = MonitoredSession::builder(&task, g.clone());
    let mut session = builder.hook(StopAtStep::last_step(STEPS)).open().await?;
    while !session.should_stop() {
        if let Err(error) = session.run().fetch(&read).target(&train).await {
            return session.close_after(Err(error)).await;
        }
    }
    session.close().await
}

/// Asserts that each update is told with `size` gradients, and that their losses are of the values
/// that they are told to have read. Returns the number of those whose loss is not known.
#[track_caller]
fn assert_losses_are_of_what_counts(trained: &Trained, size: usize, case: &str) -> usize {
    assert!(trained.outcome.result.is_ok(), "{case}: {:?}", trained.outcome.result);
    let applied: Vec<_> = trained.steps.iter().filter(|step| step.applied).collect();
    let mut updates: BTreeMap<u64, usize> = BTreeMap::new();
    for step in &applied {
        *updates.entry(step.global_step).or_default() += 1;
        let read = step.global_step - 1 - step.staleness;
        assert!(step.loss.is_none_or(|loss| loss == read as f32), "{case}: {step:?}");
    }
    assert_eq!(updates, (1..=STEPS).map(|update| (update, size)).collect(), "{case}");
    applied.iter().filter(|step| step.loss.is_none()).count()
}

#[test]
fn of_a_step_that_is_taken_again_the_attempt_whose_gradient_counts_is_told() {
    let modes = [
        (Mode::Sync { backups: 0, cancel: false }, 3),
        (Mode::Sync { backups: 1, cancel: false }, 2),
        (Mode::KAsync { k: 2 }, 2),
    ];
    for (mode, size) in modes {
        let training =
            || Simulated::new(1, 3, mode).step_time(Law::Exponential { mean: 0.1 }).steps(STEPS);
        let plain = training().run_program(count_updates);
        let unknown = assert_losses_are_of_what_counts(&plain, size, &mode.to_string());
        assert_eq!(unknown, 0, "{mode}");
        let (task, lasts) = (TaskName::new("worker", 1), Duration::from_secs(2));
        let deliveries = (20..plain.outcome.deliveries / 2).step_by(3);
        let mut unknown = 0;
        for delivery in spread(deliveries, 7) {
            let freeze = FaultKind::Freeze { task: task.clone(), lasts };
            let frozen = training().fault(Trigger::Delivery(delivery), freeze);
            let (trained, case) =
                (frozen.run_program(count_updates), format!("{mode}, {delivery}"));
            unknown += assert_losses_are_of_what_counts(&trained, size, &case);
        }
        assert!(unknown > 0, "{mode}: no earlier attempt has counted");
    }
}
