//! Sessions of a master: refused registrations, resets, steps under way, programs that have gone.

use super::*;

/// A session of `server` for `graph`.
async fn session(server: &Server, graph: &Graph) -> SessionId {
    let created = Answer::new();
    let (options, reply) = (SessionOptions::default(), created.reply());
    tell(&server.actors.master, MasterMail::CreateSession { options, reply });
    let session = created.await.unwrap().unwrap();
    let graph = graph.snapshot().unwrap();
    tell(&server.actors.master, MasterMail::ExtendSession { session, graph });
    session
}

/// A step of a session of `server` that fetches `of`: its outcome.
async fn step(server: &Server, session: SessionId, of: &Output) -> Result<StepDone> {
    let done = Answer::new();
    let run = RunStep {
        session,
        request: Arc::new(Request { fetches: vec![of.edge()], ..Request::default() }),
        feeds: Values::new(),
        deadline: None,
        origin: None,
        is_traced: false,
        reads_ahead: false,
        reply: done.reply(),
    };
    tell(&server.actors.master, MasterMail::RunStep(run));
    done.await.expect("it is answered")
}

#[test]
fn a_master_whose_registration_is_refused_is_told_why() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let access = &servers[0].actors.access;
        (0..8).for_each(|master| access.own(master, WORKER));
        let g = Graph::new();
        let x = g.with_device("/job:ps", |g| Ok::<_, GraphError>(g.constant(1f32))).unwrap();
        let session = session(&servers[1], &g).await;
        let error = step(&servers[1], session, &x).await.unwrap_err();
        assert_eq!(error.code, Code::Unauthenticated);
        assert!(error.to_string().contains("too many masters"), "{error}");
    });
}

#[test]
fn loops_that_run_as_steps_leave_no_lists_behind() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let g = Graph::new();
        let x = g.constant(1f32);
        let elsewhere = |x: &[Output]| {
            x[0].graph().with_device("/job:ps", |_| Ok::<_, GraphError>(vec![x[0].square()]))
        };
        let y = g.with_device("/job:worker", |g| {
            g.cond(&g.constant(true), &[&x], elsewhere, |x| Ok(vec![x[0].sqrt()]))
        });
        let y = &y.unwrap()[0];
        let worker = &servers[1];
        let session = session(worker, &g).await;
        for _ in 0..10 {
            step(worker, session, y).await.unwrap();
        }
        let spare = &worker.actors.served;
        let lists = std::iter::from_fn(|| Some(spare.take()).filter(|list| list.capacity() > 0));
        assert!(lists.count() <= 2, "a list more for each of ten steps");
    });
}

#[test]
fn a_reset_that_a_client_has_asked_for_ends_with_the_client() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 2), ("worker", 1)]).unwrap();
        // The other parameter server never starts, so it answers no reset.
        let task = TaskName::new("ps", 0);
        let server = started(cluster, task);
        let from = PeerId(2);
        let reset = |client, number| {
            let (containers, device_filters) = (Vec::new(), vec!["/job:ps".to_owned()]);
            let (within_training, timeout) = (false, None);
            let action =
                SessionAction::Reset { containers, within_training, device_filters, timeout };
            let call = SessionCall { client, number, settled: 0, arrived: Vec::new(), action };
            let message = MasterMessage::Called(Box::new(call));
            tell(&server.actors.master, MasterMail::FromPeer { from, message });
        };
        reset(1, 0);
        let waiting = waits(&server).await.join("\n");
        assert!(waiting.contains("ps:1"), "{waiting}");
        tell(&server.actors.master, MasterMail::Lost { peer: from, loss: Loss::Stopped });
        assert!(waits(&server).await.is_empty(), "nobody wants it any more");
        reset(2, 0);
        assert!(!waits(&server).await.is_empty(), "another one is under way");
    });
}

/// The steps of sessions of `server` that are under way, by session.
async fn steps_under_way(server: &Server) -> Vec<u64> {
    let inquiry = Inquiry::new();
    server.list_sessions(&inquiry);
    settle().await;
    inquiry.take().iter().map(|session| session.running).collect()
}

#[test]
fn a_step_that_waits_for_a_task_to_make_ready_is_under_way() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let server = started(cluster, TaskName::new("worker", 0));
        let g = Graph::new();
        let x = g.with_device("/job:ps", |g| Ok::<_, GraphError>(g.constant(1f32))).unwrap();
        let session = session(&server, &g).await;
        assert_eq!(steps_under_way(&server).await, [0]);
        let step = step(&server, session, &x);
        let ended = tokio::time::timeout(Duration::from_millis(20), step).await;
        assert!(ended.is_err(), "the parameter server never starts");
        assert_eq!(steps_under_way(&server).await, [1]);
    });
}

#[test]
fn a_session_whose_program_has_gone_meanwhile_is_closed() {
    on_actix(async {
        let server = Server::create_local();
        let created = Answer::new();
        let (options, reply) = (SessionOptions::default(), created.reply());
        tell(&server.actors.master, MasterMail::CreateSession { options, reply });
        drop(created);
        settle().await;
        let inquiry = Inquiry::new();
        server.list_sessions(&inquiry);
        settle().await;
        assert!(inquiry.is_over() && inquiry.take().is_empty());
    });
}
