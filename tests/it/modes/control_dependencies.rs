//! Models and training operations that are built to run after something of the step.

use trainyard::graph::BatchNorm;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::simulated::Simulated;

/// Trains a layer with batch normalisation, all of which is built to run after a check of what is
/// fed; its training operation also after the update of the moving moments.
async fn train(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, train) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
        let is_right = x.less(&g.constant(9f32))?.assert_all("the samples are small")?;
        let (loss, update) = g.with_control_dependencies(&[&is_right], |g| {
            let (y, update) = BatchNorm::new(g, 3)?.train(&dense(&x, 3)?)?;
            Ok(((y - 1.0).square().mean(), update))
        })?;
        let optimizer = GradientDescent::new(0.1);
        let train = g.with_control_dependencies(&[&update], |_| task.minimize(optimizer, &loss))?;
        Ok((x, train))
    })?;
    let hook = StopAtStep::last_step(6);
    let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
    while !session.should_stop() {
        let batch = Tensor::new([3, 2], &[0.1f32, 0.9, -0.4, 0.3, 0.7, -0.2]).expect("six");
        session.run().feed(&x, batch).target(&train).await?;
    }
    session.close().await
}

#[test]
fn first_values_and_exchanges_do_not_wait_for_what_a_step_is_fed_in_any_mode() {
    for mode in [
        Mode::Async,
        Mode::Sync { backups: 0, cancel: false },
        Mode::KBatchAsync { k: 2 },
        Mode::LocalSgd { every: 2, backups: 0 },
        Mode::LocalSgd { every: 2, backups: 1 },
        Mode::DiLoCo { every: 2, backups: 0, outer_learning_rate: 0.7, outer_momentum: 0.9 },
        Mode::ElasticAveraging { every: 2, alpha: 0.5 },
    ] {
        let trained = Simulated::new(1, 2, mode).steps(6).run_program(train);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    }
}
