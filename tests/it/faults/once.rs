//! Each gradient counts once, or is reported as dropped: told by a variable that is a sum of powers
//! of two, one for each step of a worker that is cut off.

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
