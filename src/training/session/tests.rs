//! Tests of what a server reports as waiting while a session's step waits.

use std::rc::Rc;

use super::Session;
use crate::cluster::ClusterSpec;
use crate::graph::Graph;
use crate::on_actix::on_actix;
use crate::runtime::{Inquiry, Result, Server};

#[test]
fn a_server_says_which_steps_wait_for_which_initialization() {
    on_actix(async {
        let servers =
            Server::create_cluster(&ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap());
        let waiting = waiting(&servers).await.unwrap();
        let expected = [
            "master of worker:0, step 2 waits for ps:0, worker:0",
            "parameter server of ps:0, step 2 waits for the initialization of `w`",
            "worker of worker:0, step 2 waits for `^AwaitVariable_1` from ps:0",
        ];
        assert_eq!(waiting, expected);
    });
}

/// The servers' reports while a step awaits `w`; `v` is initialised and `w` is not.
async fn waiting(servers: &[Server]) -> Result<Vec<String>> {
    let g = Graph::new();
    g.with_device("/job:ps", |g| g.variable("v", &g.zeros([1])))?;
    let init = g.initializer();
    g.with_device("/job:ps", |g| g.variable("w", &g.zeros([1])))?;
    let ready = g.await_initialization();
    let session = Rc::new(Session::new(&servers[1].target(), &g).await?);
    session.run().target(&init).await?;
    let waiter = Rc::clone(&session);
    let step = actix_rt::spawn(async move { waiter.run().target(&ready).await });
    for _ in 0..3 {
        session.run().target(&init).await?;
    }
    let inquiry = Inquiry::new();
    for server in servers {
        server.inquire(&inquiry);
    }
    session.run().target(&init).await?;
    session.close();
    assert!(step.await.expect("the step does not panic").is_err());
    let mut said: Vec<String> = inquiry.take().iter().map(ToString::to_string).collect();
    said.sort();
    Ok(said)
}
