//! Several devices a task: placed by name, computing at the same time, with the numbers of one
//! device.

use std::num::NonZeroU32;
use std::rc::Rc;

use trainyard::clock::WallClock;
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::prelude::*;
use trainyard::runtime::{ComputeModel, Encoding, Processor, ServerDef, ServerWorld};
use trainyard::sync::Mode;
use trainyard::training::Session;
use trainyard::transport::InMemoryNetwork;

use crate::support::fixture::{assert_error, matrix, on_actix};
use crate::support::simulated::{Simulated, Trained, assert_near};

/// The one server of a cluster of one task that has two devices.
fn two_devices() -> Server {
    let cluster = ClusterSpec::simulated([("worker", 1)]).unwrap();
    Server::create_cluster_with_devices(&cluster, NonZeroU32::new(2).unwrap()).remove(0)
}

fn device(index: u32) -> String {
    format!("/job:worker/task:0/device:CPU:{index}")
}

#[test]
fn values_and_the_order_of_operations_cross_between_the_devices_of_a_task() {
    on_actix(async {
        let server = two_devices();
        assert_eq!(
            server.devices().map(|name| name.to_string()).last().unwrap(),
            "/job:worker/replica:0/task:0/device:CPU:1"
        );
        let g = Graph::new();
        let v = g.with_device(&device(1), |g| g.variable("v", &g.constant(1f32)))?;
        let more = g.with_device(&device(0), |g| v.assign_add(&g.constant(2f32).identity()))?;
        let after = g.with_device(&device(0), |g| {
            g.with_control_dependencies(&[&more], |_| v.read_again().add(&v.read_again()))
        })?;
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        for step in 1..=5 {
            let fetched = session.run().fetch(&after).await?;
            assert_eq!(fetched.scalar::<f32>(0)?, 2.0 * (1.0 + 2.0 * step as f32));
        }
        Ok(())
    });
}

#[test]
fn a_device_that_does_not_exist_is_refused_with_those_that_do() {
    on_actix(async {
        let server = two_devices();
        let g = Graph::new();
        let x = g.with_device("/device:CPU:2", |g| Ok(g.constant(1f32).identity()))?;
        let session = Session::new(&server.target(), &g).await?;
        let outcome = session.run().fetch(&x).await;
        assert_error(
            outcome,
            Code::InvalidArgument,
            &["CPU:2", "task:0/device:CPU:0, ", "task:0/device:CPU:1 ]"],
        );
        Ok(())
    });
}

/// A cluster's tasks should have equally many devices; one that has fewer says so.
#[test]
fn a_task_with_fewer_devices_than_the_master_takes_it_to_have_says_which_it_has() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("worker", 2)]).unwrap();
        let network = InMemoryNetwork::new(&cluster);
        let server = |index, devices| {
            let (task, clock) = (TaskName::new("worker", index), Rc::new(WallClock::new()));
            let devices = (0..devices)
                .map(|_| Rc::new(Processor::default()) as Rc<dyn ComputeModel>)
                .collect();
            let (transport, encoding) = (network.endpoint(&task).unwrap(), Encoding::Exact);
            let world = ServerWorld { transport, encoding, clock, devices };
            let server = Server::new(ServerDef { cluster: cluster.clone(), task }, world);
            server.start().map(|()| server)
        };
        let (master, _other) = (server(0, 2)?, server(1, 1)?);
        let g = Graph::new();
        let place = "/job:worker/task:1/device:CPU:1";
        let x = g.with_device(place, |g| Ok(g.constant(1f32).identity()))?;
        let session = Session::new(&master.target(), &g).await?;
        let outcome = session.run().fetch(&x).await;
        assert_error(
            outcome,
            Code::InvalidArgument,
            &["there is no", "task:1/device:CPU:1", "task:1/device:CPU:0"],
        );
        Ok(())
    });
}

#[test]
fn an_error_on_one_device_ends_the_step_on_all_and_the_next_step_is_none_the_worse() {
    on_actix(async {
        let server = two_devices();
        let g = Graph::new();
        let labels = g.placeholder("labels", DType::I32, [Some(2)])?;
        let logits = g.constant(matrix(2, 3, &[0.0; 6]));
        let loss = g.with_device(&device(1), |_| sparse_softmax_cross_entropy(&logits, &labels))?;
        let mean = g.with_device(&device(0), |_| Ok(loss.mean()))?;
        let session = Session::new(&server.target(), &g).await?;
        let run = |last: i32| {
            session.run().feed(&labels, Tensor::new([2], &[0, last]).unwrap()).fetch(&mean)
        };
        for _ in 0..3 {
            assert_error(run(12).await, Code::InvalidArgument, &["label", "12"]);
            assert!((run(2).await?.scalar::<f32>(0)? - 3f32.ln()).abs() < 1e-6);
        }
        Ok(())
    });
}

const TOWERS: u32 = 2;
const ROWS: usize = 1024;

/// A matrix of numbers from -0.1 to 0.1.
fn weights(rows: usize, columns: usize) -> Tensor {
    let value = |i: usize| ((i * 37 + 11) % 101) as f32 / 500.0 - 0.1;
    matrix(rows, columns, &(0..rows * columns).map(value).collect::<Vec<_>>())
}

/// Trains a model in towers, each with a share of the batch, on the first `spread` devices of its
/// task; the weights are at `home`, and so are the mean of the towers' gradients and the updates.
async fn train_in_towers(task: Task, home: &'static str, spread: u32) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let build = |g: &Graph| {
        let shared = [
            g.variable("w1", &g.constant(weights(64, 128)))?,
            g.variable("w2", &g.constant(weights(128, 10)))?,
        ];
        Ok((shared, g.global_step()?))
    };
    let (shared, _) = g.with_device(home, build)?;
    let (mut fed, mut gradients) = (Vec::new(), Vec::new());
    for tower in 0..TOWERS {
        let build = |g: &Graph| {
            let x = g.placeholder(&format!("x{tower}"), DType::F32, [None, Some(64)])?;
            let y = g.placeholder(&format!("y{tower}"), DType::I32, [None])?;
            let [w1, w2] = [shared[0].read(), shared[1].read()];
            let loss =
                sparse_softmax_cross_entropy(&x.matmul(&w1)?.relu().matmul(&w2)?, &y)?.mean();
            fed.push((x, y));
            trainyard::graph::gradients(&loss, &[w1, w2])
        };
        gradients.push(g.with_device(&device(tower % spread), build)?);
    }
    let train = g.with_device(home, |g| {
        let mean = |at: usize| -> Result<_> {
            let of = |tower: usize| {
                gradients[tower][at].clone().expect("the loss depends on all weights")
            };
            Ok((shared[at].clone(), of(0).add(&of(1))?.mul(&g.constant(0.5f32))?))
        };
        task.apply_gradients(GradientDescent::new(0.1), &[mean(0)?, mean(1)?])
    })?;
    let mut session =
        MonitoredSession::builder(&task, g).hook(StopAtStep::last_step(5)).open().await?;
    while !session.should_stop() {
        let mut run = session.run().target(&train);
        for (tower, (x, y)) in fed.iter().enumerate() {
            let labels: Vec<i32> = (0..ROWS).map(|row| ((row * 7 + tower) % 10) as i32).collect();
            run = run.feed(x, weights(ROWS, 64)).feed(y, Tensor::new([ROWS], &labels)?);
        }
        run.await?;
    }
    session.close().await
}

fn towers(home: &'static str, spread: u32) -> Trained {
    let one_worker = Simulated::new(1, 1, Mode::Async).devices(spread);
    let trained = one_worker.run_program(move |task| train_in_towers(task, home, spread));
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    trained
}

#[test]
fn towers_on_two_devices_give_the_weights_of_one_device_in_half_the_time() {
    let home = "/job:worker/task:0/device:CPU:0";
    let (one, two) = (towers(home, 1), towers(home, 2));
    assert_eq!(one.ending, two.ending);
    assert!(one.ending.unwrap().weights_digest.is_some());
    let step =
        |trained: &Trained| trained.steps[3].ended.since(trained.steps[3].started).as_secs_f64();
    assert_near("the speed of two devices", step(&one) / step(&two), 2.0, 0.05);
    assert_eq!(two.digests(), towers(home, 2).digests(), "it repeats");
}

#[test]
fn what_both_devices_of_a_task_need_crosses_the_network_once() {
    let home = "/job:ps/task:0";
    let (one, two) = (towers(home, 1), towers(home, 2));
    assert_eq!(one.ending, two.ending);
    let sent = |trained: &Trained| trained.outcome.sent[&TaskName::new("ps", 0)].total as f64;
    assert_near("bytes to two devices", sent(&two), sent(&one), 0.01);
}
