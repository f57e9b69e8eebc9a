//! Trainings without arithmetic: the same times, bytes and events as with it, and no memory for
//! tensors.

use std::process::Command;

use trainyard::graph::{
    ConditionalAccumulator, FifoQueue, InitialRows, Partitioner, RandomLaw, Reduction,
    ShardStrategy, embedding_lookup,
};
use trainyard::models::Model;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::tensor::Shape;
use trainyard::training::Session;

use crate::support::fixture::assert_error;
use crate::support::simulated::Simulated;

const MODES: [Mode; 4] = [
    Mode::Async,
    Mode::Sync { backups: 0, cancel: false },
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 2 },
];

/// Asserts that `training` is the same in all that can be seen from outside with and without
/// arithmetic.
fn assert_alike(training: &Simulated) {
    let (real, shapes) = (training.run(), training.clone().shapes().run());
    let mode = training.mode();
    let seen = |outcome: &trainyard::simulation::Outcome<()>| {
        (outcome.ended, outcome.events, outcome.digest)
    };
    assert_eq!(seen(&real.outcome), seen(&shapes.outcome), "{mode}");
    assert_eq!(real.outcome.sent, shapes.outcome.sent, "{mode}");
    assert_eq!(real.steps.len(), shapes.steps.len(), "{mode}");
    for (real, shape) in real.steps.iter().zip(&shapes.steps) {
        let without_loss = trainyard::training::StepStats { loss: None, ..real.clone() };
        assert_eq!(*shape, without_loss, "{mode}");
    }
    assert!(
        real.ending.unwrap().weights_digest.is_some()
            && shapes.ending.unwrap().weights_digest.is_none()
    );
}

#[test]
fn times_bytes_and_events_are_those_of_the_real_training() {
    for mode in MODES {
        assert_alike(&Simulated::new(2, 4, mode).steps(20));
        assert_alike(
            &Simulated::new(2, 4, mode)
                .digits()
                .model(Model::Mlp { hidden: vec![24, 16] })
                .steps(20),
        );
    }
}

#[test]
fn a_fetched_value_without_numbers_is_an_error_that_says_why() {
    let trained = Simulated::new(1, 1, Mode::Async).shapes().run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        let total = g.constant(Tensor::new([2], &[1f32, 2.0])?).sum();
        let session = Session::new(&task.target(), &g).await?;
        let fetched = session.run().fetch(&total).await?;
        assert!(fetched[0].is_hollow());
        assert_error(
            fetched.scalar::<f32>(0),
            Code::InvalidArgument,
            &["no numbers", "numerics", "real"],
        );
        g.global_step()?;
        let session = MonitoredSession::builder(&task, g).open().await?;
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

/// Where only shapes are computed, integers still are: a loop of a program's own counts.
#[test]
fn a_variable_of_integers_counts_and_one_of_floats_is_hollow() {
    let trained = Simulated::new(1, 1, Mode::Async).shapes().run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        let (count, weight) =
            (g.variable("count", &g.constant(3i64))?, g.variable("weight", &g.constant(0.5f32))?);
        let more = count.assign_add(&g.constant(4i64))?;
        let heavier = weight.assign_add(&g.constant(0.5f32))?;
        g.global_step()?;
        let session = MonitoredSession::builder(&task, g).open().await?;
        session.raw().run().target(&more).target(&heavier).await?;
        let fetched = session.raw().run().fetch(&count.read()).fetch(&weight.read()).await?;
        assert_eq!(fetched.scalar::<i64>(0)?, 7);
        assert!(fetched[1].is_hollow());
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

/// What waits for a gradient or an element is served also where these have no numbers.
#[test]
fn queues_and_accumulators_hand_on_hollow_values() {
    let trained = Simulated::new(1, 1, Mode::Async).shapes().run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        g.global_step()?;
        let shape = Shape::from([1 << 16, 1 << 12]);
        let queue =
            FifoQueue::new(&g, "queue", None, &[(DType::F32, shape), (DType::I64, Shape::SCALAR)])?;
        let huge = g.zeros(shape);
        let (enqueue, pair) = (queue.enqueue(&[&huge, &g.constant(5i64)])?, queue.dequeue_many(2));
        let held = ConditionalAccumulator::new(&g, "held", DType::F32, shape, Reduction::Mean)?;
        let (apply, take) =
            (held.apply_grad(&huge, &g.constant(0i64))?, held.take_grad(&g.constant(2i32))?);
        let session = MonitoredSession::builder(&task, g).open().await?;
        for _ in 0..2 {
            session.raw().run().target(&enqueue).target(&apply).await?;
        }
        let fetched = session.raw().run().fetch(&pair[0]).fetch(&pair[1]).fetch(&take).await?;
        assert_eq!((fetched[0].byte_len(), fetched[2].byte_len()), (2 << 30, 1 << 30));
        assert!(fetched[0].is_hollow() && fetched[2].is_hollow());
        assert_eq!(fetched[1].values::<i64>()?, [5, 5]);
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

/// Ids are real where only shapes are computed, and so are their shards: what travels are their
/// rows alone.
#[test]
fn rows_of_a_table_of_sixteen_gigabytes_are_looked_up_and_updated() {
    let trained = Simulated::new(4, 1, Mode::Async).shapes().run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
        let (ids, train) = g.with_device_fn(setter, |g| {
            let rows = InitialRows::Random(RandomLaw::Normal { mean: 0.0, deviation: 1.0 });
            let table =
                g.partitioned_variable("table", [1 << 26, 64], rows, Partitioner::FixedSize(4))?;
            let ids = g.placeholder("ids", DType::I64, [None])?;
            let loss = embedding_lookup(&table, &ids, ShardStrategy::Mod)?.square().mean();
            let train = task.minimize(GradientDescent::new(0.1), &loss)?;
            Ok((ids, train))
        })?;
        let mut session =
            MonitoredSession::builder(&task, g).hook(StopAtStep::last_step(3)).open().await?;
        while !session.should_stop() {
            let drawn: Vec<i64> = (0..32).map(|i| (i * 7_919_113) % (1 << 26)).collect();
            session.run().feed(&ids, Tensor::new([32], &drawn)?).target(&train).await?;
        }
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    let sent: u64 = trained.outcome.sent.values().map(|sent| sent.total).sum();
    let in_steps = sent - (16 << 30);
    assert!(
        (6 * 32 * 256..100_000).contains(&in_steps),
        "beside the table read at the end: {in_steps}"
    );
}

/// Five layers of 16384 units make four matrices of 1 GiB, each on a parameter server of its own;
/// with Adam's slots they are 12 GiB. The process may have 900 MiB of addresses, threads and
/// program included.
#[test]
#[cfg(target_os = "linux")]
fn a_model_of_four_gigabytes_is_trained_in_the_memory_of_a_small_one() {
    let scenario = format!("{}/shapes.toml", env!("CARGO_TARGET_TMPDIR"));
    let text = "[cluster]\nps = 4\nworker = 2\n[compute]\nnumerics = \"shapes\"\n[program]\n\
                model = \"mlp\"\n\
                hidden = [16384, 16384, 16384, 16384, 16384]\noptimizer = { rule = \"adam\" }\n\
                [stop]\nsteps = 10\n";
    std::fs::write(&scenario, text).unwrap();
    let limited = "ulimit -v 921600 && exec \"$0\" sim \"$1\" --json";
    let output = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_trainyard"), &scenario])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &result["runs"][0];
    assert!(run["parameters"].as_u64().unwrap() > 1 << 30);
    let sent: u64 = (0..4).map(|ps| run["bytes_sent"][format!("ps:{ps}")].as_u64().unwrap()).sum();
    assert!(sent > 10 << 32, "each of ten steps reads the 4 GiB: {sent}");
    for nothing in ["final_loss", "test_accuracy", "weights_digest"] {
        assert!(run[nothing].is_null(), "{nothing}: {run}");
    }
    assert!(run["wall_seconds"].as_f64().unwrap() < 10.0, "{run}");
}
