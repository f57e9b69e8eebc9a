//! Sessions on the master of another task: all that a session on one's own can do, in either world.

use std::rc::Rc;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::runtime::{Patience, ServerTarget};
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::units::Time;

use crate::support::fixture::{assert_error, both, cluster, impatient, on_actix};
use crate::support::simulated::{Simulated, Trained};

fn ps(index: u32) -> TaskName {
    TaskName::new("ps", index)
}

/// The target of the first parameter server, for a session of the worker.
fn from_afar(servers: &[Server]) -> Result<ServerTarget> {
    servers[servers.len() - 1].target_of(&ps(0))
}

/// A variable on `device`, and a step that adds 1 to it.
fn counter(g: &Graph, device: &str) -> Result<(Variable, Target)> {
    let v = g.with_device(device, |g| g.variable("v", &g.constant(0f32)))?;
    let add = v.assign_add(&g.constant(1f32))?;
    Ok((v, add))
}

#[test]
fn a_session_on_another_tasks_master_feeds_fetches_and_shares_variables() {
    on_actix(async {
        let servers = cluster(2, 1);
        let g = Graph::new();
        let (v, add) = counter(&g, "/job:ps/task:1")?;
        let x = g.placeholder("x", DType::F32, [None])?;
        let doubled = x.add(&x)?;
        let session = Session::new(&from_afar(&servers)?, &g).await?;
        session.run().target(g.initializer()).await?;
        let two = Tensor::new([2], &[1f32, 2.0])?;
        let fetched =
            session.run().feed(&x, two.clone()).fetch(&doubled).fetch(&x).target(&add).await?;
        assert_eq!(fetched[&doubled], Tensor::new([2], &[2f32, 4.0])?);
        assert_eq!(fetched[&x], two);
        let later = v.read().add(&g.constant(10f32))?;
        assert_eq!(session.run().fetch(&later).await?.scalar::<f32>(0)?, 11.0, "the graph grew");
        let own = Session::new(&servers[2].target(), &g).await?;
        assert_eq!(own.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 1.0);
        Ok(())
    });
}

#[test]
fn operations_that_name_no_device_run_on_the_task_of_the_master() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let v = g.variable("v", &g.constant(3f32))?;
        let session = Session::new(&from_afar(&servers)?, &g).await?;
        session.run().target(g.initializer()).await?;
        let there = Session::new(&servers[0].target(), &g).await?;
        assert_eq!(there.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 3.0);
        let here = Session::new(&servers[1].target(), &g).await?;
        let missing = here.run().fetch(&v.read()).await.map(drop);
        assert_error(missing, Code::FailedPrecondition, &["`v`", "worker:0"]);
        Ok(())
    });
}

#[test]
fn a_graph_of_thousands_of_operations_is_sent_in_pieces() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let one = g.constant(1f32);
        let mut sum = one.clone();
        for _ in 0..2500 {
            sum = sum.add(&one)?;
        }
        let session = Session::new(&from_afar(&servers)?, &g).await?;
        let (first, second) = both(session.run().fetch(&sum), session.run().fetch(&sum)).await;
        assert_eq!((first?.scalar::<f32>(0)?, second?.scalar::<f32>(0)?), (2501.0, 2501.0));
        Ok(())
    });
}

#[test]
fn errors_say_who_and_which_operation_and_where_the_client_built_it() {
    on_actix(async {
        let servers = cluster(1, 1);
        let target = from_afar(&servers)?;
        let g = Graph::new();
        let (v, add) = counter(&g, "/job:ps")?;
        let session = Session::new(&target, &g).await?;
        let early = session.run().target(&add).await.map(drop);
        assert_error(early, Code::FailedPrecondition, &["`v`", "AssignAdd", "ps:0"]);
        let x = g.placeholder("x", DType::F32, [Some(2)])?;
        let unfed = session.run().fetch(&x.add(&x)?).await.map(drop);
        assert_error(unfed, Code::InvalidArgument, &["you must feed", "x"]);
        let lost = g.with_device("/job:ps/task:7", |g| Ok(g.constant(1f32).identity()))?;
        let misplaced = session.run().fetch(&lost).await.map(drop);
        assert_error(misplaced, Code::InvalidArgument, &["/task:7", "session/remote.rs"]);
        session.run().target(g.initializer()).await?;
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 0.0, "it goes on");
        let unknown = servers[1].target_of(&ps(3)).map(drop);
        assert_error(unknown, Code::NotFound, &["worker:0", "ps:3"]);
        Ok(())
    });
}

#[test]
fn each_session_has_a_view_of_its_own() {
    on_actix(async {
        let servers = cluster(2, 1);
        let target = from_afar(&servers)?;
        let g = Graph::new();
        let (v, add) = counter(&g, "/job:ps/task:1")?;
        let init = g.initializer();
        let shared = Session::new(&target, &g).await?;
        shared.run().target(&init).await?;
        let isolated = SessionOptions { isolate_session_state: true, ..SessionOptions::default() };
        let own = Session::with_options(&target, &g, isolated).await?;
        let missing = own.run().fetch(&v.read()).await.map(drop);
        assert_error(missing, Code::FailedPrecondition, &["`v`"]);
        own.run().target(&init).await?;
        own.run().target(&add).await?;
        assert_eq!(shared.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 0.0);
        let filtered = SessionOptions {
            device_filters: vec!["/job:ps/task:0".parse()?],
            ..SessionOptions::default()
        };
        let filtered = Session::with_options(&target, &g, filtered).await?;
        let hidden = filtered.run().fetch(&v.read()).await.map(drop);
        assert_error(hidden, Code::InvalidArgument, &["/job:ps/task:1", "available devices"]);
        Ok(())
    });
}

#[test]
fn a_deadline_a_close_and_a_reset_end_steps_on_another_tasks_master() {
    on_actix(async {
        let servers = cluster(1, 1);
        let target = from_afar(&servers)?;
        let g = Graph::new();
        let (v, _) = counter(&g, "/job:ps")?;
        let (ready, init) = (g.await_initialization(), g.initializer());
        let hasty = Session::with_options(&target, &g, impatient()).await?;
        let late = hasty.run().target(&ready).await.map(drop);
        assert_error(late, Code::DeadlineExceeded, &["ps:0"]);
        let session = Session::new(&target, &g).await?;
        let (waited, ()) = both(session.run().target(&ready), async { session.close() }).await;
        assert_error(waited.map(drop), Code::Cancelled, &["Session::close"]);
        assert_error(session.run().target(&init).await.map(drop), Code::Aborted, &["closed"]);
        hasty.run().target(&init).await?;
        Session::reset(&target, &[]).await?;
        let gone = hasty.run().fetch(&v.read()).await.map(drop);
        assert_error(gone, Code::Aborted, &["session is closed", "make a new one"]);
        let new = Session::new(&target, &g).await?;
        let cleared = new.run().fetch(&v.read()).await.map(drop);
        assert_error(cleared, Code::FailedPrecondition, &["`v`"]);
        Ok(())
    });
}

#[test]
fn one_client_has_no_more_sessions_than_a_server_allows() {
    on_actix(async {
        let servers = cluster(1, 1);
        let (target, g) = (from_afar(&servers)?, Graph::new());
        let mut sessions = Vec::new();
        for _ in 0..64 {
            sessions.push(Session::new(&target, &g).await?);
        }
        let one_more = Session::new(&target, &g).await.map(drop);
        let says = ["worker:0 has 64 sessions here", "close one first", "ps:0"];
        assert_error(one_more, Code::FailedPrecondition, &says);
        sessions.pop();
        Session::new(&target, &g).await.map(drop)
    });
}

#[test]
fn a_server_that_stops_cancels_the_steps_of_its_clients() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let (v, _) = counter(&g, "/job:ps")?;
        let ready = g.await_initialization();
        let session = Session::new(&from_afar(&servers)?, &g).await?;
        let stop = async {
            session.run().fetch(&v.is_initialized()).await?;
            servers[0].stop();
            Ok::<_, Error>(())
        };
        let (waited, stopped) = both(session.run().target(&ready), stop).await;
        stopped?;
        assert_error(waited.map(drop), Code::Cancelled, &["its server has stopped"]);
        Ok(())
    });
}

#[test]
fn a_parameter_server_that_leads_the_sessions_of_its_workers_is_not_deserted() {
    on_actix(async {
        let servers = cluster(1, 1);
        let soon = Duration::from_millis(300);
        let trains = async {
            let g = Graph::new();
            let (_, add) = counter(&g, "/job:ps")?;
            let session = Session::new(&from_afar(&servers)?, &g).await?;
            session.run().target(g.initializer()).await?;
            tokio::time::sleep(2 * soon).await;
            session.run().target(&add).await?;
            servers[0].stop();
            Ok::<_, Error>(())
        };
        let patience = Patience { first: soon, recovery: soon, ..Patience::default() };
        let (joined, trained) = both(servers[0].join(1, patience), trains).await;
        trained?;
        assert_error(joined, Code::Unavailable, &["the server has stopped"]);
        Ok(())
    });
}

fn second(at: f64) -> Time {
    Time::ZERO.after(Duration::from_secs_f64(at))
}

/// Runs `client` on the worker of a cluster of two parameter servers, beside what goes wrong from
/// second 1 on, every 20 seconds.
fn simulated<F>(
    faults: impl IntoIterator<Item = FaultKind>,
    client: impl Fn(Rc<Server>) -> F + Sync,
) -> Trained
where
    F: Future<Output = Result<()>> + 'static,
{
    let mut training = Simulated::new(2, 1, Mode::Async);
    for (index, fault) in faults.into_iter().enumerate() {
        training = training.fault(Trigger::Time(second(1.0 + 20.0 * index as f64)), fault);
    }
    let trained = training.run_on_servers(|server, task| {
        let (is_ps, clock) = (task.job() == "ps", Rc::clone(server.clock()));
        let running = client(server);
        async move {
            if is_ps {
                clock.sleep_until(second(220.0)).await;
                return Ok(());
            }
            running.await
        }
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    trained
}

/// A variable on the first parameter server, and a step that waits at a gate on the second.
struct Gated {
    v: Variable,
    /// Sets `v` to 0.
    init: Target,
    /// Waits until the gate is open, then adds 1 to `v`.
    add: Target,
    open: Target,
}

fn gated(g: &Graph) -> Result<Gated> {
    let gate = g.with_device("/job:ps/task:1", |g| g.variable("gate", &g.constant(0f32)))?;
    let (is_open, open) = (g.await_initialization(), gate.assign(&g.constant(0f32))?);
    let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(0f32)))?;
    let init = v.assign(&g.constant(0f32))?;
    let add = g.with_control_dependencies(&[&is_open], |g| v.assign_add(&g.constant(1f32)))?;
    Ok(Gated { v, init, add, open })
}

#[test]
fn in_a_simulation_a_client_has_a_session_on_another_task_and_it_repeats() {
    let run = || {
        simulated(None, |server| async move {
            let g = Graph::new();
            let (v, add) = counter(&g, "/job:ps/task:1")?;
            let session = Session::new(&server.target_of(&ps(0))?, &g).await?;
            session.run().target(g.initializer()).await?;
            for _ in 0..5 {
                session.run().target(&add).await?;
            }
            assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 5.0);
            assert!(server.clock().now() > Time::ZERO, "messages take time");
            Ok(())
        })
        .outcome
        .digest
    };
    assert_eq!(run(), run());
}

/// The worker can't reach the server of its session for `seconds`, from second 1 on.
fn cut_off(seconds: u64) -> FaultKind {
    let tasks = vec![TaskName::new("worker", 0), ps(0)];
    FaultKind::Partition { tasks, lasts: Duration::from_secs(seconds) }
}

#[test]
fn a_step_under_way_is_answered_after_a_lost_connection_and_carried_out_once() {
    simulated(Some(cut_off(10)), |server| async move {
        let g = Graph::new();
        let Gated { v, init, add, open } = gated(&g)?;
        let target = server.target_of(&ps(0))?;
        let session = Session::new(&target, &g).await?;
        session.run().target(&init).await?;
        let own = Session::new(&server.target(), &g).await?;
        let opening = async {
            server.clock().sleep_until(second(2.0)).await;
            own.run().target(&open).await.map(drop)
        };
        let (added, opened) = both(session.run().target(&add), opening).await;
        opened?;
        added?;
        assert!(server.clock().now() > second(10.0), "the connection was lost meanwhile");
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 1.0);
        Ok(())
    });
}

#[test]
fn a_step_that_no_connection_outlives_fails_and_the_session_goes_on() {
    simulated((0..8).map(|_| cut_off(8)), |server| async move {
        let g = Graph::new();
        let Gated { v, init, add, .. } = gated(&g)?;
        let session = Session::new(&server.target_of(&ps(0))?, &g).await?;
        session.run().target(&init).await?;
        let lost = session.run().target(&add).await.map(drop);
        let says = ["connection to ps:0 was lost 8 times", "not known whether"];
        assert_error(lost, Code::Unavailable, &says);
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 0.0);
        Ok(())
    });
}

#[test]
fn a_client_that_is_away_for_too_long_has_no_session_any_more() {
    simulated(Some(cut_off(90)), |server| async move {
        let g = Graph::new();
        let Gated { v, init, add, .. } = gated(&g)?;
        let target = server.target_of(&ps(0))?;
        let session = Session::new(&target, &g).await?;
        session.run().target(&init).await?;
        let lost = session.run().target(&add).await.map(drop);
        assert_error(lost, Code::Unavailable, &["no connection to ps:0", "not known whether"]);
        server.clock().sleep_until(second(100.0)).await;
        let session = Session::new(&target, &g).await?;
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 0.0);
        Ok(())
    });
}

#[test]
fn a_client_gives_up_a_server_that_has_died_for_good_and_says_so() {
    let crash = FaultKind::Crash { task: ps(0), restart_after: None };
    simulated(Some(crash), |server| async move {
        let g = Graph::new();
        let Gated { init, add, .. } = gated(&g)?;
        let target = server.target_of(&ps(0))?;
        let session = Session::new(&target, &g).await?;
        session.run().target(&init).await?;
        session.run().target(&add).await.map(drop).unwrap_err();
        let refused = Session::new(&target, &g).await.map(drop);
        assert_error(refused, Code::Unavailable, &["no connection to ps:0"]);
        assert!(server.clock().now() < second(150.0), "{}", server.clock().now());
        Ok(())
    });
}

#[test]
fn a_session_ends_with_the_life_of_its_server() {
    let crash = FaultKind::Crash { task: ps(0), restart_after: Some(Duration::from_secs(2)) };
    simulated(Some(crash), |server| async move {
        let g = Graph::new();
        let Gated { v, init, add, .. } = gated(&g)?;
        let target = server.target_of(&ps(0))?;
        let session = Session::new(&target, &g).await?;
        session.run().target(&init).await?;
        let lost = session.run().target(&add).await.unwrap_err();
        assert!(lost.message.contains("not known whether it was carried out"), "{lost}");
        assert!(matches!(lost.code, Code::Unavailable | Code::Aborted), "{lost}");
        let new = Session::new(&target, &g).await?;
        let gone = new.run().fetch(&v.read()).await.map(drop);
        assert_error(gone, Code::FailedPrecondition, &["`v`"]);
        assert_error(session.run().target(&add).await.map(drop), lost.code, &["make a new"]);
        Ok(())
    });
}
