//! Learning rates that follow the global step: where they are computed, and what training makes of
//! them.

use trainyard::cluster::ClusterSpec;
use trainyard::graph::{GraphProblem, Op};
use trainyard::prelude::*;
use trainyard::sync::Mode;

use super::Trained;
use crate::support::fixture::{all, cluster, on_actix};

/// 0.5 at the steps 0 and 1, then 0.25, from step 3 on 0.125.
fn stairs() -> Schedule {
    Schedule::PiecewiseConstant { until: vec![(1, 0.5), (2, 0.25)], last: 0.125 }
}

#[test]
fn each_step_has_the_rate_of_the_global_step_that_it_began_at() {
    on_actix(async {
        let optimizer = GradientDescent::new(LearningRate::from(stairs()).warmup_steps(2));
        let apply = |pairs: &[_], step: &_| Ok(vec![optimizer.apply_gradients(pairs, step)?]);
        let (trained, ops) = Trained::new([([8.0, 9.0], [1.0, -1.0])], apply).await?;
        let mut moved = 0.0;
        for rate in [0.25, 0.5, 0.25, 0.125, 0.125] {
            trained.session.run().target(&ops[0]).await?;
            moved += rate;
            trained.assert_values(&[[8.0 - moved, 9.0 + moved]]).await?;
        }
        Ok(())
    });
}

#[test]
fn a_rate_is_computed_once_a_step_by_the_worker_and_a_constant_one_is_beside_its_variable() {
    let built = |rate: LearningRate| {
        let g = Graph::new();
        let setter =
            ReplicaDeviceSetter::new(&ClusterSpec::simulated([("ps", 2), ("worker", 1)]).unwrap());
        g.with_device_fn(setter, |g| {
            let (w, v) = (g.variable("w", &g.zeros([2]))?, g.variable("v", &g.zeros([2]))?);
            Adagrad::new(rate).minimize(&w.read().mul(&v.read())?.sum(), &g.global_step()?)
        })
        .unwrap();
        let def = g.snapshot().unwrap();
        let computed =
            def.operations.iter().filter(|operation| matches!(operation.op, Op::LearningRate(_)));
        let named =
            def.operations.iter().filter(|operation| operation.name.starts_with("learning_rate"));
        let device = |operation: &trainyard::graph::Operation| operation.device.to_string();
        (computed.count(), named.map(device).collect::<Vec<_>>())
    };
    assert_eq!(built(stairs().into()), (1, vec!["/job:worker".to_owned()]));
    assert_eq!(
        built(0.1.into()),
        (0, vec!["/job:ps/task:0".to_owned(), "/job:ps/task:1".to_owned()])
    );
}

/// Two workers' gradients are 1 and 3: each round takes their mean, 2, times the rate of its global
/// step.
#[test]
fn all_gradients_of_a_synchronous_round_have_one_rate() {
    on_actix(async {
        let servers = cluster(1, 2);
        let mut clients = Vec::new();
        for worker in 0..2 {
            let server = &servers[1 + worker];
            let g = Graph::new();
            let setter = ReplicaDeviceSetter::new(
                &ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap(),
            );
            let setter =
                setter.worker_device(format!("/job:worker/task:{worker}").parse().unwrap());
            let (w, train_op) = g.with_device_fn(setter, |g| {
                let w = g.variable("w", &g.constant(100f32))?;
                let gradient = g.constant(1.0 + 2.0 * worker as f32);
                let optimizer = GradientDescent::new(stairs()).coordinated(
                    Mode::Sync { backups: 0, cancel: false },
                    worker as u32,
                    2,
                );
                let train_op =
                    optimizer.apply_gradients(&[(w.clone(), gradient)], &g.global_step()?)?;
                Ok((w, train_op))
            })?;
            let session = Session::new(&server.target(), &g).await?;
            if worker == 0 {
                session.run().target(g.initializer()).await?;
            }
            clients.push((session, w, train_op));
        }
        for _ in 0..4 {
            all(clients
                .iter()
                .map(|(session, _, train_op)| session.run().target(train_op).into_future()))
            .await?;
        }
        let value = clients[0].0.run().fetch(&clients[0].1.read()).await?.scalar::<f32>(0)?;
        assert_eq!(value, 100.0 - 2.0 * (0.5 + 0.5 + 0.25 + 0.125));
        Ok(())
    });
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused_when_the_graph_is_built() {
    let g = Graph::new();
    let (w, step) = (g.variable("w", &g.zeros([2])).unwrap(), g.global_step().unwrap());
    let refuse = |schedule: Schedule| {
        let refused = GradientDescent::new(schedule).minimize(&w.read().sum(), &step).unwrap_err();
        assert!(matches!(refused.problem, GraphProblem::Schedule(_)), "{refused}");
        refused.to_string()
    };
    let none = refuse(Schedule::CosineDecay { initial: 0.1, decay_steps: 0, alpha: 0.0 });
    assert!(
        none.contains("learning_rate") && none.contains("`decay_steps` must be at least 1"),
        "{none}"
    );
    let turned = refuse(Schedule::PiecewiseConstant { until: vec![(5, 0.1), (5, 0.2)], last: 0.3 });
    assert!(turned.contains("must ascend"), "{turned}");
    let endless = refuse(Schedule::Constant(f32::INFINITY));
    assert!(endless.contains("must be finite"), "{endless}");
}
