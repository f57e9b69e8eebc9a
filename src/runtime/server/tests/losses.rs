//! What the chief is told of workers that are lost.

use super::*;

const CHIEF: usize = 1;
const OTHER: PeerId = PeerId(2);

/// The workers that `server` takes for lost.
async fn lost_at(server: &Server) -> Vec<u32> {
    let inquiry = Inquiry::new();
    server.look_at_progress(&inquiry);
    settle().await;
    inquiry.take().remove(0).lost
}

/// Has the parameter server `ps` meet worker 1, with its graph of that `number`.
async fn meet_other(ps: &Server, number: u64) {
    let message = register_of(number, 1, 2);
    tell(&ps.actors.worker, WorkerMail::FromPeer { from: OTHER, message });
    settle().await;
    settle().await;
}

/// The servers of a training that has lost worker 1, as the chief has heard.
async fn servers_that_have_lost_one() -> Vec<Server> {
    let servers = servers_of_a_training().await;
    servers[CHIEF].know_cluster();
    meet_other(&servers[0], 1).await;
    servers[0].actors.lost(OTHER, Loss::Stopped);
    settle().await;
    settle().await;
    assert_eq!((lost_at(&servers[0]).await, lost_at(&servers[CHIEF]).await), (vec![1], vec![1]));
    servers
}

#[test]
fn a_chief_that_was_told_of_the_loss_of_a_worker_is_told_that_it_is_back() {
    on_actix(async {
        let servers = servers_that_have_lost_one().await;
        meet_other(&servers[0], 2).await;
        assert_eq!((lost_at(&servers[0]).await, lost_at(&servers[CHIEF]).await), (vec![], vec![]));
    });
}

#[test]
fn a_parameter_server_believes_of_no_other_that_a_worker_which_it_has_lost_is_back() {
    on_actix(async {
        let servers = servers_that_have_lost_one().await;
        hear(&servers[0], ParameterServerMessage::Found { worker: 1 }).await;
        assert_eq!(lost_at(&servers[0]).await, [1]);
    });
}
