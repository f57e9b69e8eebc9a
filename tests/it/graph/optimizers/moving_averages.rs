//! Moving averages of variables: TensorFlow's numbers, and where the averages are.

use trainyard::cluster::ClusterSpec;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use super::Trained;
use crate::support::alone::Seen;
use crate::support::fixture::on_actix;
use crate::support::simulated::Simulated;

/// Asserts that averages move by `decay`, as `moving_averages_test.py` has it: once after each step
/// of a training that takes 1 and 2 from the variables.
fn assert_decay(averages: impl Fn(&Graph) -> ExponentialMovingAverage, decay: f32) {
    on_actix(async {
        let apply = |pairs: &[_], step: &_| {
            Ok(vec![GradientDescent::new(1.0).apply_gradients(pairs, step)?])
        };
        let (trained, ops) = Trained::new([([10.0, 30.0], [1.0, 2.0])], apply).await?;
        let averages = averages(&trained.graph);
        let both = averages.apply(&trained.variables, ops[0].target())?;
        let average = averages.average(&trained.variables[0]).unwrap();
        trained.session.run().target(trained.graph.initializer()).await?;
        let mut expected = [10.0, 30.0];
        assert_eq!(
            trained.value(&average.read()).await?,
            expected,
            "it begins with the first value"
        );
        for step in 1..=3 {
            trained.session.run().target(&both).await?;
            let now = [10.0 - step as f32, 30.0 - 2.0 * step as f32];
            trained.assert_values(&[now]).await?;
            expected = [0, 1].map(|i| expected[i] * decay + now[i] * (1.0 - decay));
            let found = trained.value(&average.read()).await?;
            let far =
                found.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 1e-5);
            assert!(!far, "step {step}: {found:?}, not {expected:?}");
        }
        Ok(())
    });
}

#[test]
fn an_average_keeps_a_part_of_itself_and_takes_the_rest_from_the_variable_as_it_is_after_the_step()
{
    assert_decay(|_| ExponentialMovingAverage::new(0.25), 0.25);
}

#[test]
fn a_count_of_updates_makes_the_first_averages_follow_faster() {
    let counted = |count: i64| {
        move |g: &Graph| ExponentialMovingAverage::new(0.25).num_updates(&g.constant(count))
    };
    assert_decay(counted(1), 0.181818);
    assert_decay(counted(5), 0.25);
}

#[test]
fn averages_are_beside_their_variables_and_are_not_trained() {
    let g = Graph::new();
    let setter =
        ReplicaDeviceSetter::new(&ClusterSpec::simulated([("ps", 2), ("worker", 1)]).unwrap());
    let averages = ExponentialMovingAverage::new(0.9);
    g.with_device_fn(setter, |g| {
        let (w, v) = (g.variable("w", &g.zeros([2]))?, g.variable("v", &g.zeros([2]))?);
        let train_op = GradientDescent::new(0.1)
            .minimize(&w.read().mul(&v.read())?.sum(), &g.global_step()?)?;
        assert!(averages.average(&w).is_none());
        averages.apply(&[w.clone(), v.clone()], train_op.target())?;
        averages.apply(&[w], train_op.target()) // the second takes the averages that are there
    })
    .unwrap();
    let def = g.snapshot().unwrap();
    let device =
        |name: &str| def.operation(g.operation(name).expect(name).op_id()).device.to_string();
    assert_eq!(device("w/ExponentialMovingAverage"), "/job:ps/task:0");
    assert_eq!(device("v/ExponentialMovingAverage"), "/job:ps/task:1");
    let trained: Vec<String> = g.trainable_variables().iter().map(Variable::name).collect();
    assert_eq!(trained, ["w", "v"]);
    assert!(g.operation("w/ExponentialMovingAverage_1").is_none());
}

#[test]
fn a_checkpoint_is_read_for_evaluation_with_each_trained_variable_under_the_name_of_its_average() {
    let g = Graph::new();
    g.variable("w", &g.zeros([2])).unwrap();
    g.global_step().unwrap();
    let restored = ExponentialMovingAverage::new(0.9).variables_to_restore(&g);
    let names: Vec<(String, String)> =
        restored.into_iter().map(|(name, of)| (name, of.name())).collect();
    let pair = |name: &str, of: &str| (name.to_owned(), of.to_owned());
    assert_eq!(
        names,
        [pair("global_step", "global_step"), pair("w/ExponentialMovingAverage", "w")]
    );
}

#[test]
fn a_variable_that_is_averaged_and_not_trained_is_read_under_the_name_of_its_average() {
    let g = Graph::new();
    let w = g.variable("w", &g.zeros([2])).unwrap();
    let train_op =
        GradientDescent::new(0.1).minimize(&w.read().sum(), &g.global_step().unwrap()).unwrap();
    let mean = g.untrainable_variable("mean", &g.zeros([2])).unwrap();
    let averages = ExponentialMovingAverage::new(0.9);
    averages.apply(&[w, mean], train_op.target()).unwrap();
    let restored = averages.variables_to_restore(&g);
    let of = |name: &str| restored.get(name).map(Variable::name);
    assert_eq!(of("mean/ExponentialMovingAverage").as_deref(), Some("mean"));
    assert_eq!(of("w/ExponentialMovingAverage").as_deref(), Some("w"));
    assert_eq!((of("global_step").as_deref(), of("mean")), (Some("global_step"), None));
}

#[test]
fn a_variable_of_another_graph_is_refused() {
    let (g, other) = (Graph::new(), Graph::new());
    let w = g.variable("w", &g.zeros([2])).unwrap();
    let train_op =
        GradientDescent::new(0.1).minimize(&w.read().sum(), &g.global_step().unwrap()).unwrap();
    let foreign = other.variable("foreign", &other.zeros([2])).unwrap();
    let error =
        ExponentialMovingAverage::new(0.9).apply(&[foreign], train_op.target()).unwrap_err();
    assert!(error.to_string().contains("`foreign` belongs to another graph"), "{error}");
}

/// Three workers whose steps add 1 to `v`, in rounds; the first tells the average at the end.
#[test]
fn an_average_moves_once_a_step_of_a_synchronous_training() {
    let seen = Seen::default();
    let sync = Mode::Sync { backups: 0, cancel: false };
    let trained = Simulated::new(1, 3, sync).run_program(|task| {
        let seen = seen.clone();
        async move {
            let Some(replica) = task.replica() else { return task.join().await };
            let g = Graph::new();
            let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
            let averages = ExponentialMovingAverage::new(0.5);
            let (v, train) = g.with_device_fn(setter, |g| {
                let v = g.variable("v", &g.constant(0f32))?;
                let pairs = [(v.clone(), g.constant(-1f32))];
                let train_op = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
                let train = averages.apply(std::slice::from_ref(&v), train_op.target())?;
                Ok((v, train))
            })?;
            let average = averages.average(&v).unwrap().read();
            let hook = StopAtStep::last_step(3);
            let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
            while !session.should_stop() {
                session.run().target(&train).await?;
            }
            if replica.worker == 0 {
                let end = session.raw().run().fetch(&v.read()).fetch(&average).await?;
                seen.add((end.scalar::<f32>(0)?, end.scalar::<f32>(1)?));
            }
            session.close().await
        }
    });
    trained.outcome.result.unwrap();
    assert_eq!(seen.all(), [(3.0, 2.125)], "0.5, 1.25, and then 2.125");
}
