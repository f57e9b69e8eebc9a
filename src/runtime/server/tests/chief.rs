//! What a chief that is away means to the others of a training with checkpoints.

use futures_util::future::join;

use super::*;

#[test]
fn a_chief_is_waited_for_from_the_end_on_and_the_end_says_that_it_never_came_to_save() {
    on_actix(async {
        let clock = WallClock::new();
        for is_kept in [false, true] {
            let servers = servers_of_a_training().await;
            let ps = &servers[0];
            if is_kept {
                ps.training().expect_lasting_checkpoints();
            }
            let leave =
                |worker, why| hear(ps, ParameterServerMessage::Leave { worker, why, training: 1 });
            leave(0, Leaving::Stopped).await;
            let over = async {
                tokio::time::sleep(2 * short().recovery).await;
                leave(1, Leaving::Done).await;
                clock.now()
            };
            let (joined, over) = join(ps.join(2, short()), over).await;
            let waited = clock.now().since(over);
            assert!(waited >= short().recovery / 2, "it waited {waited:?}");
            let error = joined.err().map(|error| (error.code, error.message));
            assert_eq!(error.is_some(), is_kept, "{error:?}");
            if let Some((code, message)) = error {
                assert_eq!(code, Code::Unavailable);
                assert!(message.contains("worker:0, the chief, never came back"), "{message}");
            }
        }
    });
}

#[test]
fn a_worker_hears_from_a_parameter_server_that_the_chief_is_lost_and_that_it_is_back() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        servers[2].know_cluster();
        let heard = || [0, 2].map(|task: usize| servers[task].training().waits_for_checkpoints());
        servers.iter().for_each(|server| server.training().expect_lasting_checkpoints());
        let (ps, other) = (&servers[0], PeerId(2));
        tell(&ps.actors.worker, WorkerMail::FromPeer { from: other, message: register(1) });
        settle().await;
        assert_eq!(heard(), [false, false]);
        ps.actors.lost(WORKER, Loss::Stopped);
        settle().await;
        settle().await;
        assert_eq!(heard(), [true, true]);
        hear(ps, register(2)).await;
        assert_eq!(heard(), [false, false]);
    });
}

/// The servers of a training with lasting checkpoints.
async fn servers_with_checkpoints() -> Vec<Server> {
    let servers = servers_of_a_training().await;
    servers[2].know_cluster();
    servers.iter().for_each(|server| server.training().expect_lasting_checkpoints());
    servers
}

/// Has the parameter server `ps` lose the peer, and all hear what follows.
async fn lose(ps: &Server, peer: PeerId) {
    ps.actors.lost(peer, Loss::Stopped);
    settle().await;
    settle().await;
}

/// Has the parameter server `ps` meet worker 1, with its graph of that `number`.
async fn meet_worker_1(ps: &Server, number: u64) {
    let message = register(number);
    tell(&ps.actors.worker, WorkerMail::FromPeer { from: PeerId(2), message });
    settle().await;
    settle().await;
}

#[test]
fn a_worker_that_was_away_when_the_chief_came_back_hears_of_it_when_it_is_there_again() {
    on_actix(async {
        let servers = servers_with_checkpoints().await;
        let (ps, worker) = (&servers[0], &servers[2]);
        meet_worker_1(ps, 1).await;
        lose(ps, WORKER).await;
        assert!(worker.training().waits_for_checkpoints());
        lose(ps, PeerId(2)).await;
        hear(ps, register(2)).await;
        assert!(worker.training().waits_for_checkpoints(), "it is away");
        meet_worker_1(ps, 3).await;
        assert!(!worker.training().waits_for_checkpoints());
    });
}

#[test]
fn a_chief_that_restores_is_not_lost_whatever_an_earlier_life_of_the_parameter_server_has_told() {
    on_actix(async {
        let servers = servers_with_checkpoints().await;
        let (ps, worker) = (&servers[0], &servers[2]);
        worker.training().lose_chief();
        meet_worker_1(ps, 1).await;
        assert!(worker.training().waits_for_checkpoints());
        let reset = ParameterServerMessage::Reset {
            number: 0,
            containers: Vec::new(),
            within_training: true,
            incarnations: Vec::new(),
        };
        ps.actors.deliver(WORKER, vec![reset.into()]);
        settle().await;
        settle().await;
        assert!(!worker.training().waits_for_checkpoints());
    });
}
