//! Elastic averaging: workers and a center that pull each other.

use trainyard::models::{Model, Null};
use trainyard::optimizer::LocalTrainOp;
use trainyard::prelude::*;
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use crate::support::binary::{scenario, trainyard};
use crate::support::simulated::Simulated;

fn mode(every: u32) -> Mode {
    Mode::ElasticAveraging { every, alpha: 0.25 }
}

/// A worker that is alone with the center of `w`: the graph, the steps, the worker's own `w`, and
/// the center.
fn alone(task: &Task) -> Result<(Graph, LocalTrainOp, Output, Output)> {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (train, own, center) = g.with_device_fn(setter, |g| {
        let own = g.with_local_variables(|g| g.variable("w", &g.constant(1f32)))?;
        let pairs = [(own.clone(), g.constant(4f32))];
        let outer = GradientDescent::new(1.0).coordinated(mode(2), 0, 1);
        let local = LocalSgd::new(GradientDescent::new(0.1), outer, 2);
        let train = local.apply_gradients(&pairs, &g.global_step()?)?;
        let center = g.variables().into_iter().find(|v| v.name() == "w/center");
        Ok((train, own.read(), center.expect("there is a center of each variable").read()))
    })?;
    Ok((g, train, own, center))
}

#[test]
fn a_worker_and_the_center_move_a_quarter_of_their_distance_towards_each_other() {
    let training = Simulated::new(1, 1, mode(2)).model(Model::Null(Null::scalars(1)));
    let trained = training.run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let (g, train, own, center) = alone(&task)?;
        let mut session = MonitoredSession::builder(&task, g).open().await?;
        let mut values = Vec::new();
        for number in 0..4 {
            session.run().target(train.at(number)).await?;
            let now = session.raw().run().fetch(&own).fetch(&center).await?;
            values.push((now.scalar::<f32>(0)?, now.scalar::<f32>(1)?));
        }
        // A step moves the worker by -0.4. After the second it is at 0.2, and the center at 1.
        let close =
            |(a, b): (f32, f32), c: f32, d: f32| (a - c).abs() < 1e-6 && (b - d).abs() < 1e-6;
        assert!(close(values[0], 0.6, 1.0), "{values:?}");
        assert!(close(values[1], 0.4, 0.8), "{values:?}");
        assert!(close(values[2], 0.0, 0.8), "{values:?}");
        assert!(close(values[3], -0.1, 0.5), "{values:?}");
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

#[test]
fn a_program_of_its_own_has_the_center_measured() {
    let training = Simulated::new(1, 1, mode(2)).model(Model::Null(Null::scalars(1)));
    let trained = training.run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let (g, train, own, _) = alone(&task)?;
        // The look after the first exchange ends the training, so that it is the last.
        let evaluator = InMemoryEvaluator::new(&own, &own).every_steps(1).stop_at_accuracy(0.0);
        let mut session = MonitoredSession::builder(&task, g).hook(evaluator).open().await?;
        for number in 0..2 {
            session.run().target(train.at(number)).await?;
        }
        assert!(session.should_stop(), "it was measured");
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    let measured = trained.evaluation.expect("it was measured");
    assert!((measured.loss - 0.8).abs() < 1e-6, "the worker's own is at 0.4: {measured:?}");
}

#[test]
fn a_look_during_the_training_measures_the_model_that_is_saved() {
    // A center that hardly moves never gets there; the copies, which hardly feel it, soon do.
    let reached = |alpha: &str| {
        let text = format!(
            "seed = 3\n[cluster]\nps = 2\nworker = 2\n[program]\nmodel = 'softmax'\nbatch = 32\n\
             optimizer = {{ rule = 'adam', learning_rate = 0.01 }}\n[stop]\nsteps = 200\n\
             accuracy = 0.8\nevaluate_every = 20\n[[run]]\nname = 'only'\n\
             mode = {{ elastic_averaging = {{ every = 4, alpha = {alpha} }} }}\n"
        );
        let said = trainyard(&["sim", &scenario("looks_at_the_center", &text), "--json"]);
        let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        (said.code, result["runs"][0]["seconds_to_target"].is_number())
    };
    assert_eq!([reached("1e-6"), reached("0.45")], [(3, false), (0, true)]);
}

#[test]
fn workers_of_different_speeds_do_not_wait_for_each_other() {
    let training = Simulated::new(1, 2, mode(3)).step_time(Law::Constant { value: 0.1 });
    let trained = training.slow(1, 3.0).steps(40).run();
    let own = |worker| trained.steps.iter().filter(move |step| step.worker.index() == worker);
    let (fast, slow) = (own(0).count(), own(1).count());
    assert!((2 * slow..=4 * slow).contains(&fast), "{fast} and {slow} steps");
}

#[test]
fn the_staleness_of_an_exchange_counts_from_its_reading_of_the_center() {
    let training = Simulated::new(1, 4, mode(1)).step_time(Law::Exponential { mean: 0.1 });
    let trained = training.steps(400).run();
    // The network takes next to no time, so that hardly anyone comes between the reading and the
    // exchange, while three others exchange in the mean during a step.
    let stale = trained.steps.iter().filter(|step| step.staleness > 0).count();
    assert!(trained.steps.len() >= 400 && stale <= 4, "{stale} of {}", trained.steps.len());
}

#[test]
fn the_digits_are_learnt_in_simulation_and_deployed() {
    let simulated = Simulated::new(2, 4, mode(4)).digits().model(Model::Mlp { hidden: vec![64] });
    let accuracy = simulated.adam(0.002).batch(32).steps(1200).run().evaluation.unwrap().accuracy;
    assert!(accuracy >= 0.95, "{accuracy}");
    let text = "seed = 3\n[cluster]\nps = 2\nworker = 2\n[program]\nmodel = 'softmax'\nbatch = 32\n\
                optimizer = { rule = 'adam', learning_rate = 0.01 }\n[stop]\nsteps = 2000\n\
                accuracy = 0.9\n[[run]]\nname = 'only'\n\
                mode = { elastic_averaging = { every = 4, alpha = 0.25 } }\n";
    let said = trainyard(&["launch", &scenario("elastic_averaging", text), "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert!(result["runs"][0]["seconds_to_target"].as_f64().is_some(), "{}", said.out);
}
