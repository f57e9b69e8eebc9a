//! Conditions and loops of which a part is on another task: the same numbers as on one, in both
//! worlds, and what becomes of them when a step fails.

use std::rc::Rc;
use std::time::Duration;

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::runtime::ServerTarget;
use trainyard::simulation::{self, Cluster, Fault, FaultKind, Trigger};

use crate::quic::over_quic::{quic_cluster, stop};
use crate::support::fixture::{assert_error, cluster, impatient, matrix, on_actix};

/// The task that parts of the functions are on.
const PS: &str = "/job:ps/task:0";
/// No other task than that of the loop.
const HERE: &str = "";

/// What is built on `device`.
fn on(
    device: &str,
    x: &Output,
    build: impl FnOnce() -> Result<Output, GraphError>,
) -> Result<Output, GraphError> {
    x.graph().with_device(device, |_| build())
}

fn counted(i: &Output) -> Result<Output, GraphError> {
    i.add(&i.graph().constant(1i32))
}

/// Whether `i` is below `n`.
fn below(i: &Output, n: i32) -> Result<Output, GraphError> {
    i.less(&i.graph().constant(n))
}

/// A loop of four iterations that has a product on `device`, a condition with a branch there, and
/// within that another loop with a part there.
fn nested(g: &Graph, device: &str, x: &Output, w: &Output) -> Result<Output, GraphError> {
    let twice = |v: &[Output]| {
        let halved = on(device, &v[1], || v[1].mul(&v[1].graph().constant(0.5f32)))?;
        Ok(vec![counted(&v[0])?, halved.add(&v[2])?])
    };
    let inner = |v: &[Output]| {
        let start = v[0].graph().constant(0i32);
        let variables = [&start, &v[0]];
        let end =
            v[0].graph().while_loop(&variables, &[&v[1]], |v| below(&v[0], 2), twice, None)?;
        Ok(vec![end[1].clone()])
    };
    let other = |v: &[Output]| Ok(vec![on(device, &v[0], || Ok(v[0].sin()))?]);
    let body = |v: &[Output]| {
        let g = v[0].graph();
        let product = on(device, &v[1], || Ok(v[1].matmul(&v[2])?.tanh()))?;
        let is_late = v[0].greater(&g.constant(1i32))?;
        let chosen = g.cond(&is_late, &[&product, &v[1]], inner, other)?;
        Ok(vec![counted(&v[0])?, chosen[0].clone()])
    };
    let start = g.constant(0i32);
    let end = g.while_loop(&[&start, x], &[w], |v| below(&v[0], 4), body, None)?;
    Ok(end[1].clone())
}

/// The values of [`nested`] and its gradients, of the loop on the task of `target`.
async fn values(target: &ServerTarget, device: &str) -> Result<Vec<Tensor>> {
    let g = Graph::new();
    let x = g.constant(matrix(2, 2, &[0.3, -1.2, 0.7, 2.1]));
    let w = g.constant(matrix(2, 2, &[0.9, -0.4, 0.2, 1.1]));
    let y = nested(&g, device, &x, &w)?;
    let by = gradients(&y.square().sum(), &[x, w])?;
    let session = Session::new(target, &g).await?;
    let mut last = Vec::new();
    for _ in 0..2 {
        let by = |i: usize| by[i].as_ref().unwrap();
        let fetched = session.run().fetch(&y).fetch(by(0)).fetch(by(1)).await?;
        last = (0..3).map(|i| fetched[i].clone()).collect();
    }
    Ok(last)
}

/// A simulated `ps` and a `worker`, whose network takes 1 ms one way.
fn simulated() -> Cluster {
    let text = "[cluster]\nps = 1\nworker = 1\n[network]\nlatency = \"1ms\"\n\
                [[run]]\nname = \"r\"\nmode = \"async\"\n";
    Experiment::parse(text).unwrap().trials().unwrap().remove(0).cluster
}

/// Simulates `program` on the worker.
fn simulate<T, F>(cluster: &Cluster, program: impl Fn(Rc<Server>) -> F + Sync) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + 'static,
{
    let program = |server: Rc<Server>| {
        let (is_worker, clock) = (server.task().job() == "worker", Rc::clone(server.clock()));
        let program = is_worker.then(|| program(server));
        async move {
            if let Some(program) = program {
                return program.await.map(Some);
            }
            // It serves the worker.
            clock.sleep_until(clock.now().after(Duration::from_secs(3600))).await;
            Ok(None)
        }
    };
    let all = simulation::run(cluster, program).result?;
    Ok(all.into_values().flatten().next().expect("the worker returned"))
}

#[test]
fn a_loop_cut_over_two_tasks_gives_the_same_bits_as_on_one_in_both_worlds() {
    let simulated = |device| {
        simulate(&simulated(), move |server| async move { values(&server.target(), device).await })
    };
    let expected = simulated(HERE).unwrap();
    assert_eq!(simulated(PS).unwrap(), expected);
    on_actix(async {
        let (servers, ends) = quic_cluster(1, 1).await;
        assert_eq!(values(&servers[1].target(), PS).await?, expected);
        assert_eq!(values(&servers[1].target(), HERE).await?, expected);
        stop(servers, ends).await
    });
}

/// `x + n`, a loop whose body is on the parameter server; without end if there is no `n`.
fn counting(g: &Graph, x: &Output, n: Option<i32>) -> Result<Output, GraphError> {
    let start = g.constant(0i32);
    let body = |v: &[Output]| {
        let more = on(PS, &v[1], || v[1].add(&v[1].graph().constant(1f32)))?;
        let more = more.check_numerics("the sum")?;
        Ok(vec![counted(&v[0])?, more])
    };
    let goes_on = |v: &[Output]| match n {
        Some(n) => below(&v[0], n),
        None => Ok(v[0].graph().constant(true)),
    };
    Ok(g.while_loop(&[&start, x], &[], goes_on, body, None)?[1].clone())
}

#[test]
fn an_iteration_takes_a_round_trip_to_the_task_that_has_a_part_of_it() {
    let time = |n: i32| {
        simulate(&simulated(), move |server: Rc<Server>| async move {
            let g = Graph::new();
            let y = counting(&g, &g.constant(0.5f32), Some(n))?;
            let session = Session::new(&server.target(), &g).await?;
            session.run().fetch(&y).await?;
            let began = server.clock().now();
            assert_eq!(session.run().fetch(&y).await?.scalar::<f32>(0)?, 0.5 + n as f32);
            Ok(server.clock().now().since(began))
        })
        .unwrap()
    };
    let each = (time(12) - time(2)) / 10;
    let round_trip = Duration::from_millis(2);
    assert!((round_trip..round_trip.mul_f64(1.1)).contains(&each), "{each:?}");
}

#[test]
fn a_loop_that_fails_or_has_no_end_ends_with_its_step_and_the_next_step_runs_it_again() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, trainyard::tensor::Shape::SCALAR)?;
        let (y, endless) = (counting(&g, &x, Some(3))?, counting(&g, &x, None)?);
        let session = Session::with_options(&servers[1].target(), &g, impatient()).await?;
        let failed = session.run().feed(&x, f32::NAN).fetch(&y).await;
        assert_error(failed, Code::InvalidArgument, &["the sum", "While/CheckNumerics"]);
        let late = session.run().feed(&x, 0f32).fetch(&endless).await;
        assert_error(late, Code::DeadlineExceeded, &["worker:0"]);
        for _ in 0..2 {
            let fetched = session.run().feed(&x, 1f32).fetch(&y).await?;
            assert_eq!(fetched.scalar::<f32>(0)?, 4.0);
        }
        Ok(())
    });
}

#[test]
fn a_loop_fails_with_the_name_of_the_task_that_is_lost() {
    let mut cluster = simulated();
    let task = trainyard::cluster::TaskName::new("ps", 0);
    let crash = FaultKind::Crash { task, restart_after: None };
    let trigger = Trigger::Time(trainyard::units::Time(50_000_000));
    cluster.faults.list.push(Fault { at: trigger, kind: crash });
    let lost = simulation::run(&cluster, |server: Rc<Server>| async move {
        if server.task().job() == "ps" {
            return std::future::pending().await;
        }
        let g = Graph::new();
        let long = counting(&g, &g.constant(0f32), Some(1000))?;
        let session = Session::new(&server.target(), &g).await?;
        session.run().fetch(&long).await?;
        Ok(())
    });
    assert_error(lost.result, Code::Unavailable, &["ps:0 was lost"]);
}

/// `sin(x)` on `device`, in a branch.
fn in_a_branch(g: &Graph, x: &Output, device: &str) -> Result<Output> {
    let there = |v: &[Output]| Ok(vec![on(device, &v[0], || Ok(v[0].sin()))?]);
    let chosen = g.cond(&g.constant(true), &[x], there, |v| Ok(vec![v[0].clone()]))?;
    Ok(chosen[0].clone())
}

#[test]
fn parts_of_a_branch_are_where_the_session_of_its_step_may_place_operations() {
    on_actix(async {
        let servers = cluster(2, 1);
        let seen = SessionOptions {
            device_filters: vec!["/job:ps/task:1".parse().unwrap()],
            ..SessionOptions::default()
        };
        let g = Graph::new();
        let x = g.constant(1f32);
        let any_ps = in_a_branch(&g, &x, "/job:ps")?;
        let back = g.with_device("/job:ps/task:1", |g| {
            in_a_branch(g, &x, "/job:worker/task:0").map_err(|error| panic!("{error}"))
        })?;
        let hidden = in_a_branch(&g, &x, "/job:ps/task:0")?;
        let session = Session::with_options(&servers[2].target(), &g, seen).await?;
        servers[0].stop();
        for there in [&any_ps, &back] {
            let fetched = session.run().fetch(there).await?;
            assert_eq!(fetched.scalar::<f32>(0)?, 1f32.sin());
        }
        let refused = session.run().fetch(&hidden).await;
        assert_error(refused, Code::InvalidArgument, &["/job:ps/task:0", "/Sin"]);
        Ok(())
    });
}

#[test]
fn a_part_of_a_branch_may_be_on_another_device_of_its_task_where_the_session_allows_it() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let y = in_a_branch(&g, &g.constant(1f32), "/job:ps/task:0/device:GPU:0")?;
        let hard = Session::new(&servers[1].target(), &g).await?;
        let refused = hard.run().fetch(&y).await;
        assert_error(refused, Code::InvalidArgument, &["GPU:0"]);
        let options = SessionOptions { allow_soft_placement: true, ..SessionOptions::default() };
        let soft = Session::with_options(&servers[1].target(), &g, options).await?;
        assert_eq!(soft.run().fetch(&y).await?.scalar::<f32>(0)?, 1f32.sin());
        Ok(())
    });
}

#[test]
fn a_part_of_a_branch_on_a_device_that_is_not_there_is_refused_by_its_name() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let x = g.constant(1f32);
        let elsewhere = |v: &[Output]| Ok(vec![on("/job:ps/task:9", &v[0], || Ok(v[0].sin()))?]);
        let y = g.cond(&g.constant(true), &[&x], elsewhere, |v| Ok(vec![v[0].clone()]))?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let refused = session.run().fetch(&y[0]).await;
        assert_error(refused, Code::InvalidArgument, &["/job:ps/task:9", "If/Sin"]);
        Ok(())
    });
}
