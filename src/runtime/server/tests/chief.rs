//! What a chief that is away means to the others of a training with checkpoints.

use std::time::Instant;

use futures_util::future::join;

use super::*;

#[test]
fn a_chief_is_waited_for_from_the_end_on_and_the_end_says_that_it_never_came_to_save() {
    on_actix(async {
        for is_kept in [false, true] {
            let servers = servers_of_a_training().await;
            let ps = &servers[0];
            if is_kept {
                ps.training().expect_lasting_checkpoints();
            }
            let leave = |worker, why| hear(ps, ParameterServerMessage::Leave { worker, why });
            leave(0, Leaving::Stopped).await;
            let over = async {
                tokio::time::sleep(2 * short().recovery).await;
                leave(1, Leaving::Done).await;
                Instant::now()
            };
            let (joined, over) = join(ps.join(2, short()), over).await;
            assert!(over.elapsed() >= short().recovery / 2, "it waited: {:?}", over.elapsed());
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
