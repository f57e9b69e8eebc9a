//! What a session makes of a task that is lost, after what was measured of TensorFlow's; and what a
//! parameter server remembers of a training that is over.

use std::rc::Rc;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::units::Time;

use crate::support::fixture::assert_error;
use crate::support::simulated::{Simulated, Trained};

fn second(at: f64) -> Time {
    Time::ZERO.after(Duration::from_secs_f64(at))
}

/// Runs `program` on the worker of a cluster of two parameter servers, the first of which dies
/// after a second and lives again after three.
fn beside_a_death<F>(program: impl Fn(Rc<Server>, Task) -> F + Sync) -> Trained
where
    F: Future<Output = Result<()>> + 'static,
{
    let what = FaultKind::Crash {
        task: TaskName::new("ps", 0),
        restart_after: Some(Duration::from_secs(2)),
    };
    let training = Simulated::new(2, 1, Mode::Async).fault(Trigger::Time(second(1.0)), what);
    training.run_on_servers(|server, task| {
        let (is_ps, clock) = (task.job() == "ps", Rc::clone(server.clock()));
        let running = program(server, task);
        async move {
            if is_ps {
                clock.sleep_until(second(10.0)).await;
                return Ok(());
            }
            running.await
        }
    })
}

#[track_caller]
fn assert_ok(trained: &Trained) {
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

/// A variable on each of the parameter servers, 1 and 5.
fn variables() -> Result<(Graph, Variable, Variable)> {
    let g = Graph::new();
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(1f32)))?;
    let u = g.with_device("/job:ps/task:1", |g| g.variable("u", &g.constant(5f32)))?;
    Ok((g, v, u))
}

#[test]
fn a_step_that_waits_for_a_task_that_dies_fails_when_that_is_noticed_and_says_all() {
    assert_ok(&beside_a_death(|server, task| async move {
        let g = Graph::new();
        g.with_device("/job:ps/task:0", |g| g.variable("w", &g.constant(1f32)))?;
        let never = g.await_initialization();
        let session = Session::new(&task.target(), &g).await?;
        let failed = session.run().target(&never).await;
        let says = ["ps:0 was lost, it has fallen silent", "step 0 waited for it to run its part"];
        assert_error(failed, Code::Unavailable, &says);
        assert!(
            (2.0..2.1).contains(&server.clock().now().as_secs_f64()),
            "{}",
            server.clock().now()
        );
        Ok(())
    }));
}

#[test]
fn a_session_goes_on_without_the_task_that_it_lost_and_a_new_one_finds_what_is_left() {
    assert_ok(&beside_a_death(|server, task| async move {
        let (g, v, u) = variables()?;
        let session = Session::new(&task.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 1.0);
        server.clock().sleep_until(second(2.5)).await;
        assert_error(
            session.run().fetch(&v.read()).await,
            Code::Unavailable,
            &["ps:0 was lost", "make a new one"],
        );
        assert_eq!(session.run().fetch(&u.read()).await?.scalar::<f32>(0)?, 5.0);
        server.clock().sleep_until(second(4.0)).await;
        assert_error(session.run().fetch(&v.read()).await, Code::Unavailable, &["ps:0 was lost"]);
        let new = Session::new(&task.target(), &g).await?;
        assert_eq!(new.run().fetch(&u.read()).await?.scalar::<f32>(0)?, 5.0);
        assert_error(
            new.run().fetch(&v.read()).await,
            Code::FailedPrecondition,
            &["uninitialized", "`v`", "ps:0"],
        );
        Ok(())
    }));
}

#[test]
fn a_new_session_waits_for_the_tasks_that_its_graph_needs_and_for_no_others() {
    assert_ok(&beside_a_death(|server, task| async move {
        server.clock().sleep_until(second(2.5)).await;
        let (g, v, u) = variables()?;
        let session = Session::new(&task.target(), &g).await?;
        let is_initialized =
            async |variable: &Variable| session.run().fetch(&variable.is_initialized()).await;
        is_initialized(&u).await?;
        assert!(server.clock().now() < second(2.6), "{}", server.clock().now());
        is_initialized(&v).await?;
        assert!(
            server.clock().now() >= second(3.0),
            "it waits for ps:0 to live again, not until {}",
            server.clock().now()
        );
        Ok(())
    }));
}

/// Workers that train `STEPS` steps twice, one training after the other on the same parameter
/// server.
#[test]
fn another_training_on_the_same_servers_waits_for_all_workers_again() {
    const STEPS: u64 = 5;
    let training = Simulated::new(1, 2, Mode::Sync { backups: 0, cancel: false });
    let trained = training.run_program(|task| async move {
        if task.job() == "ps" {
            task.join().await?;
            return task.join().await; // the second training
        }
        for last in [STEPS, 2 * STEPS] {
            let g = Graph::new();
            let (v, _) = g.with_device("/job:ps/task:0", |g| {
                Ok((g.variable("v", &g.constant(0f32))?, g.global_step()?))
            })?;
            let pairs = [(v.clone(), v.read().negate())];
            let train = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
            let mut session = MonitoredSession::builder(&task, g)
                .hook(StopAtStep::last_step(last))
                .open()
                .await?;
            while !session.should_stop() {
                session.run().target(&train).await?;
            }
            session.close().await?;
        }
        Ok(())
    });
    assert_ok(&trained);
    for worker in [0, 1] {
        let own =
            trained.steps.iter().filter(|step| step.worker == TaskName::new("worker", worker));
        let counted: Vec<u64> =
            own.filter(|step| step.applied).map(|step| step.global_step).collect();
        assert_eq!(counted, (1..=2 * STEPS).collect::<Vec<_>>(), "worker:{worker}");
    }
}
