//! How a step is asked for besides its feeds and fetches: callables, time limits, records of its
//! operations, soft placement.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::runtime::{OperationTime, ServerTarget};
use trainyard::sync::Mode;
use trainyard::training::{RunMetadata, RunOptions, TraceLevel};

use crate::support::fixture::{SOON, assert_error, cluster, matrix, on_actix};
use crate::support::log::Log;
use crate::support::simulated::Simulated;

const TRACED: RunOptions = RunOptions { timeout: None, trace: TraceLevel::Full };

/// The last server's own master, and that of the first.
fn targets(servers: &[Server]) -> Result<[ServerTarget; 2]> {
    let last = &servers[servers.len() - 1];
    Ok([last.target(), last.target_of(&TaskName::new("ps", 0))?])
}

#[test]
fn a_callable_runs_a_step_again_with_other_values() {
    on_actix(async {
        let servers = cluster(1, 1);
        for target in targets(&servers)? {
            let g = Graph::new();
            let [x, y] = ["x", "y"].map(|name| g.placeholder(name, DType::F32, [0usize; 0]));
            let (x, y) = (x?, y?);
            let v = g.with_device("/job:ps", |g| g.variable("v", &g.constant(0f32)))?;
            let (sum, add) = (x.add(&y)?, v.assign_add(&g.constant(1f32))?);
            let session = Session::new(&target, &g).await?;
            session.run().target(g.initializer()).await?;
            let callable = session.make_callable(&[&y, &x], &[&sum, &y], &[&add])?;
            for i in 0..3 {
                let (a, b) = (i as f32, 10.0 * i as f32);
                let called = callable.call(&[a.into(), b.into()]).await?;
                assert_eq!(called.scalar::<f32>(&sum)?, a + b);
                assert_eq!(called.scalar::<f32>(&y)?, a, "feeds are in the order of the call");
            }
            assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 3.0);
            let few = callable.call(&[1f32.into()]).await.map(drop);
            assert_error(few, Code::InvalidArgument, &["1 values", "2 feeds"]);
            let wrong = callable.call(&[1i32.into(), 1f32.into()]).await.map(drop);
            assert_error(wrong, Code::InvalidArgument, &["cannot feed i32", "y"]);
            let strange = Graph::new().constant(1f32);
            let refused = session.make_callable(&[], &[&strange], &[]).map(drop);
            assert_error(refused, Code::InvalidArgument, &["another graph"]);
        }
        Ok(())
    });
}

#[test]
fn a_run_has_a_time_limit_of_its_own() {
    on_actix(async {
        let servers = cluster(1, 1);
        for target in targets(&servers)? {
            let g = Graph::new();
            g.with_device("/job:ps", |g| g.variable("v", &g.constant(0f32)))?;
            let (ready, one) = (g.await_initialization(), g.constant(1f32));
            let session = Session::new(&target, &g).await?;
            let hasty = RunOptions { timeout: Some(SOON), ..RunOptions::default() };
            let late = session.run().target(&ready).options(hasty).await.map(drop);
            assert_error(late, Code::DeadlineExceeded, &["ps:0"]);
            session.run().fetch(&one).await?;
        }
        Ok(())
    });
}

/// A product on a worker of a variable on a parameter server, in a step that is recorded.
async fn product(target: &ServerTarget) -> Result<RunMetadata> {
    let g = Graph::new();
    let ones = matrix(64, 64, &[1.0; 64 * 64]);
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(ones)))?;
    let x = g.placeholder("x", DType::F32, [Some(64), Some(64)])?;
    let product = g.with_device("/job:worker/task:0", |_| v.read().matmul(&x)?.matmul(&x))?;
    let session = Session::new(target, &g).await?;
    session.run().target(g.initializer()).await?;
    let run = || session.run().feed(&x, matrix(64, 64, &[0.5; 64 * 64])).fetch(&product);
    assert_eq!(run().await?.metadata(), &RunMetadata::default(), "nobody has asked for it");
    let traced = run().options(TRACED).await?;
    assert_eq!(traced[0].values::<f32>()?[0], 1024.0);
    Ok(traced.metadata().clone())
}

fn find<'a>(metadata: &'a RunMetadata, name: &str) -> &'a OperationTime {
    let found = metadata.operations.iter().find(|time| &*time.operation == name);
    found.unwrap_or_else(|| panic!("no {name} in {metadata:?}"))
}

#[test]
fn a_recorded_step_tells_when_each_operation_ran_and_on_which_device() {
    on_actix(async {
        let servers = cluster(1, 1);
        for target in targets(&servers)? {
            let metadata = product(&target).await?;
            let (read, first, second) =
                (find(&metadata, "v/read"), find(&metadata, "MatMul"), find(&metadata, "MatMul_1"));
            assert_eq!(&*read.device, "/job:ps/replica:0/task:0/device:CPU:0");
            assert_eq!(&*first.device, "/job:worker/replica:0/task:0/device:CPU:0");
            assert!(first.began < first.ended && first.ended <= second.began, "{metadata:?}");
            let devices: BTreeSet<_> =
                metadata.operations.iter().map(|time| &*time.device).collect();
            assert_eq!(devices.len(), 2);
        }
        Ok(())
    });
}

#[test]
fn in_a_simulation_the_times_of_operations_are_those_of_the_model() {
    let recorded = Arc::new(Mutex::new(None));
    let training = Simulated::new(1, 1, Mode::Async).latency(Duration::from_millis(1));
    let trained = training.run_on_servers(|_, task| {
        let recorded = Arc::clone(&recorded);
        async move {
            match task.job() {
                "worker" => *recorded.lock().unwrap() = Some(product(&task.target()).await?),
                _ => task.sleep(Duration::from_secs(60)).await, // it serves the worker
            }
            Ok(())
        }
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    let metadata = recorded.lock().unwrap().take().unwrap();
    let span = |name: &str| {
        let time = find(&metadata, name);
        time.ended.since(time.began)
    };
    assert!(span("MatMul") > Duration::ZERO);
    assert_eq!(span("MatMul"), span("MatMul_1"), "they cost the same");
    let (read, product) = (find(&metadata, "v/read"), find(&metadata, "MatMul"));
    let between = product.began.since(read.ended);
    assert!(
        between >= Duration::from_millis(1),
        "the value travels for a millisecond: {between:?}"
    );
}

#[test]
fn soft_placement_takes_another_device_of_the_task_and_no_other_task() {
    on_actix(async {
        let servers = cluster(1, 1);
        for target in targets(&servers)? {
            let g = Graph::new();
            let on = |device: &str| g.with_device(device, |g| Ok(g.constant(1f32).identity()));
            let fast = on("/job:ps/task:0/device:GPU:0")?;
            let elsewhere = on("/job:ps/task:3")?;
            let strict = Session::new(&target, &g).await?;
            let refused = strict.run().fetch(&fast).await.map(drop);
            assert_error(refused, Code::InvalidArgument, &["GPU:0", "available devices"]);
            let soft = SessionOptions { allow_soft_placement: true, ..SessionOptions::default() };
            let soft = Session::with_options(&target, &g, soft).await?;
            let ran = soft.run().fetch(&fast).options(TRACED).await?;
            let device = &ran.metadata().operations[0].device;
            assert_eq!(&**device, "/job:ps/replica:0/task:0/device:CPU:0");
            let refused = soft.run().fetch(&elsewhere).await.map(drop);
            assert_error(refused, Code::InvalidArgument, &["/task:3", "available devices"]);
        }
        Ok(())
    });
}

#[test]
fn a_session_that_logs_its_placement_says_where_each_operation_is() {
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(), || {
        on_actix(async {
            let servers = cluster(1, 1);
            let g = Graph::new();
            let one = g.with_device("/job:ps", |g| Ok(g.constant(1f32).identity()))?;
            for is_logged in [false, true] {
                let options =
                    SessionOptions { log_device_placement: is_logged, ..SessionOptions::default() };
                let session = Session::with_options(&servers[1].target(), &g, options).await?;
                session.run().fetch(&one).await?;
            }
            Ok(())
        });
    });
    let log = log.text();
    let line = "Identity: (Identity): /job:ps/replica:0/task:0/device:CPU:0";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}
