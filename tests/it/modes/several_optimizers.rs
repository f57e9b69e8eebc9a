//! One training operation with an optimizer for each list of variables.

use std::sync::Arc;

use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::graph::Gradient;
use trainyard::prelude::*;
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use crate::support::simulated::{Simulated, Trained, assert_near};

const STEPS: u64 = 12;

/// Trains `v` by gradient descent of rate 1, and `u` by momentum of rate 10 that forgets at once;
/// all gradients are -1.
async fn train(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let train = g.with_device_fn(setter, |g| {
        let pairs = |name: &str| -> Result<Vec<(Variable, Gradient)>, GraphError> {
            let variable = g.variable(name, &g.constant(0f32))?;
            let gradient = variable.read().mul(&g.constant(0f32))?.sub(&g.constant(1f32))?;
            Ok(vec![(variable, gradient.into())])
        };
        let descent = Optimizer::from(GradientDescent::new(1.0));
        let momentum = Momentum::new(10.0, 0.0).into();
        task.apply_gradients_by(&[(descent, pairs("v")?), (momentum, pairs("u")?)])
    })?;
    let hook = StopAtStep::last_step(STEPS);
    let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
    while !session.should_stop() {
        session.run().target(&train).await?;
    }
    session.close().await
}

/// Three workers that train in `mode`, and the variables of the last checkpoint: its step, and
/// those called `names`.
fn trained(mode: Mode, names: [&str; 2]) -> (Trained, u64, [f64; 2]) {
    let store = Memory::default();
    let training = Simulated::new(2, 3, mode).step_time(Law::Uniform { low: 0.01, high: 0.05 });
    let trained = training.steps(STEPS).checkpoints(&store, 1000).run_program(train);
    assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    let mut saver = Saver::new(Arc::new(store), Retention::default());
    let restored = saver.latest().unwrap().checkpoint.unwrap();
    let value = |name: &str| f64::from(restored.variables[name].item::<f32>().unwrap());
    (trained, restored.global_step, names.map(value))
}

#[test]
fn a_step_counts_once_and_updates_each_variable_by_its_own_optimizer_in_every_mode() {
    for mode in [
        Mode::Async,
        Mode::BoundedStaleness { slack: 1 },
        Mode::Sync { backups: 0, cancel: false },
        Mode::Sync { backups: 1, cancel: false },
        Mode::Sync { backups: 1, cancel: true },
        Mode::KAsync { k: 2 },
        Mode::KBatchSync { k: 2, cancel: false },
        Mode::KBatchAsync { k: 2 },
    ] {
        let (_, step, values) = trained(mode, ["v", "u"]);
        assert!(step >= STEPS, "{mode}: {step}");
        assert_eq!(values, [step as f64, 10.0 * step as f64], "{mode}");
    }
}

#[test]
fn a_step_counts_once_where_updates_depend_on_staleness() {
    for mode in [Mode::StalenessAware, Mode::DelayCompensated { lambda: 0.04 }] {
        let (trained, ..) = trained(mode, ["v", "u"]);
        let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
        let reached = trained.steps.iter().map(|step| step.global_step).max();
        assert_eq!(reached, Some(applied), "{mode}");
    }
}

#[test]
fn copies_are_trained_each_by_its_own_optimizer() {
    for mode in [
        Mode::LocalSgd { every: 2, backups: 0 },
        Mode::DiLoCo { every: 2, backups: 1, outer_learning_rate: 0.7, outer_momentum: 0.9 },
        Mode::ElasticAveraging { every: 2, alpha: 0.5 },
    ] {
        let (_, step, [v, u]) = trained(mode, ["v/center", "u/center"]);
        assert!(step >= STEPS && v > 1.0, "{mode}: {step}, {v}");
        assert_near(&format!("{mode}: all is linear in the rate"), u, 10.0 * v, 1e-4);
    }
}
