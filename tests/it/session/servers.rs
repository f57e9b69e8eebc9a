//! Servers: what one is a server of, and how it starts, is joined and stops, after
//! `server_lib_test.py`.

use std::rc::Rc;
use std::time::Duration;

use trainyard::clock::WallClock;
use trainyard::cluster::ClusterSpec;
use trainyard::prelude::*;
use trainyard::runtime::{Encoding, Patience, PeerMessage, Processor, ServerDef, ServerWorld};
use trainyard::transport::InMemoryNetwork;

use crate::support::fixture::{assert_error, both, cluster, impatient, on_actix};

/// A server on `network` that is not started.
fn server_in(network: &Rc<InMemoryNetwork<PeerMessage>>, def: ServerDef) -> Server {
    let transport = network.endpoint(&def.task).unwrap();
    Server::new(
        def,
        ServerWorld {
            transport,
            encoding: Encoding::Exact,
            clock: Rc::new(WallClock::new()),
            devices: [Rc::new(Processor::default()) as Rc<_>].into(),
        },
    )
}

#[test]
fn a_job_and_an_index_can_be_left_open_where_there_is_but_one() {
    let task = |jobs: &[(&str, u32)], job, index| {
        ServerDef::new(ClusterSpec::simulated(jobs.iter().copied()).unwrap(), job, index)
            .map(|def| def.task.to_string())
    };
    assert_eq!(task(&[("local", 1)], None, None).unwrap(), "local:0");
    assert_eq!(task(&[("worker", 3)], None, Some(2)).unwrap(), "worker:2");
    assert_eq!(task(&[("ps", 1), ("worker", 2)], Some("ps"), None).unwrap(), "ps:0");
    let two = &[("ps", 1), ("worker", 2)];
    assert_error(task(two, None, Some(0)), Code::InvalidArgument, &["job name", "ps", "worker"]);
    assert_error(task(two, Some("worker"), None), Code::InvalidArgument, &["task index", "0", "1"]);
    assert_error(task(two, Some("chief"), None), Code::InvalidArgument, &["chief"]);
    assert_error(
        task(two, Some("worker"), Some(2)),
        Code::InvalidArgument,
        &["worker:2", "not defined"],
    );
}

#[test]
fn a_server_of_a_job_with_holes_is_that_of_its_only_task() {
    let spec = ClusterSpec::sparse([("worker", [(7, "localhost:2222")])]).unwrap();
    assert_eq!(ServerDef::new(spec, None, None).unwrap().task.to_string(), "worker:7");
}

#[test]
fn a_server_can_be_started_twice_but_not_again_after_it_has_stopped() {
    on_actix(async {
        let server = Server::create_local();
        server.start()?;
        server.stop();
        server.stop();
        assert_error(server.start(), Code::FailedPrecondition, &["has stopped", "localhost:0"]);
        Ok(())
    });
}

#[test]
fn only_a_started_server_can_be_joined() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("localhost", 1)])?;
        let server =
            server_in(&InMemoryNetwork::new(&cluster), ServerDef::new(cluster, None, None)?);
        assert_error(
            server.join(1, Patience::default()).await,
            Code::FailedPrecondition,
            &["not started", "localhost:0"],
        );
        server.start()?;
        let (joined, ()) = both(server.join(1, Patience::default()), async { server.stop() }).await;
        assert_error(joined, Code::Unavailable, &["has stopped", "localhost:0"]);
        assert_error(
            server.join(1, Patience::default()).await,
            Code::Unavailable,
            &["has stopped", "localhost:0"],
        );
        Ok(())
    });
}

/// A graph with a variable on the parameter server, and a step that waits until it is initialised.
fn waiting_step() -> Result<(Graph, Variable, Target)> {
    let g = Graph::new();
    let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([1])))?;
    let ready = g.await_initialization();
    Ok((g, w, ready))
}

#[test]
fn a_server_that_stops_cancels_its_steps_and_is_unavailable_from_then_on() {
    on_actix(async {
        let servers = cluster(1, 1);
        let (g, w, ready) = waiting_step()?;
        let target = servers[1].target();
        let session = Session::new(&target, &g).await?;
        let (waited, ()) = both(session.run().target(&ready), async { servers[1].stop() }).await;
        assert_error(waited, Code::Cancelled, &["server has stopped"]);
        assert_error(
            session.run().fetch(&w.read()).await,
            Code::Unavailable,
            &["has stopped", "worker:0"],
        );
        assert_error(
            Session::new(&target, &g).await.map(drop),
            Code::Unavailable,
            &["has stopped", "worker:0"],
        );
        assert_error(
            Session::reset(&target, &[]).await,
            Code::Unavailable,
            &["has stopped", "worker:0"],
        );
        Ok(())
    });
}

#[test]
fn a_server_that_stops_tells_the_clients_of_others_whose_steps_run_on_it() {
    on_actix(async {
        let servers = cluster(1, 1);
        let (g, w, ready) = waiting_step()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let stop = async {
            session.run().fetch(&w.is_initialized()).await?;
            servers[0].stop();
            Ok::<_, Error>(())
        };
        let (waited, stopped) = both(session.run().target(&ready), stop).await;
        stopped?;
        assert_error(waited, Code::Unavailable, &["has stopped", "ps:0"]);
        Ok(())
    });
}

#[test]
fn a_server_that_is_dropped_stops() {
    on_actix(async {
        let server = Server::create_local();
        let target = server.target();
        drop(server);
        assert_error(
            Session::new(&target, &Graph::new()).await.map(drop),
            Code::Unavailable,
            &["has stopped"],
        );
        Ok(())
    });
}

#[test]
fn a_reset_that_its_program_has_given_up_keeps_no_other_from_the_next() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)])?;
        let network = InMemoryNetwork::new(&cluster);
        let worker = server_in(&network, ServerDef::new(cluster, Some("worker"), None)?);
        worker.start()?;
        let target = worker.target();
        let limit = Duration::from_millis(50);
        let given_up = tokio::time::timeout(limit, Session::reset(&target, &[])).await;
        assert!(given_up.is_err(), "ps:0 never answers");
        let reset = Session::reset_with_options(&target, &[], impatient()).await;
        assert_error(reset, Code::DeadlineExceeded, &["reset", "ps:0"]);
        Ok(())
    });
}

#[test]
fn a_deadline_ends_a_step_and_a_reset_that_wait_for_a_server_which_is_started_too_late() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)])?;
        let network = InMemoryNetwork::new(&cluster);
        let server = |job| -> Result<_> {
            Ok(server_in(&network, ServerDef::new(cluster.clone(), Some(job), None)?))
        };
        let (ps, worker) = (server("ps")?, server("worker")?);
        worker.start()?;
        let g = Graph::new();
        let one = g.with_device("/job:ps", |g| Ok(g.constant(1.0f32).identity()))?;
        let session = Session::with_options(&worker.target(), &g, impatient()).await?;
        let reset = Session::reset_with_options(&worker.target(), &[], impatient()).await;
        assert_error(reset, Code::DeadlineExceeded, &["reset", "ps:0"]);
        drop(session);
        let session = Session::with_options(&worker.target(), &g, impatient()).await?;
        for _ in 0..2 {
            assert_error(
                session.run().fetch(&one).await,
                Code::DeadlineExceeded,
                &["ready", "ps:0"],
            );
        }
        ps.start()?;
        assert_eq!(session.run().fetch(&one).await?.scalar::<f32>(0)?, 1.0);
        ps.stop();
        assert_error(
            session.run().fetch(&one).await,
            Code::DeadlineExceeded,
            &["the step", "ps:0"],
        );
        Ok(())
    });
}
