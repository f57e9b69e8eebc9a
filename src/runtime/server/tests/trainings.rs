//! Trainings that follow each other on the same parameter servers.

use std::any::Any;

use futures_util::future::join;

use super::ending::{CHIEF, COUNTER, OTHER, gradient_of, hear_from, servers};
use super::*;
use crate::sync::{Epoch, View};
use crate::transport::Messages;

/// The place of a master, which counts the graphs that are registered for it.
#[derive(Default)]
struct Ear(Cell<u32>);

impl Inbox<PeerMessage> for Ear {
    fn deliver(&self, _: PeerId, messages: Messages<PeerMessage>) {
        let is_registered = |message: &&PeerMessage| {
            matches!(message, PeerMessage::Master(MasterMessage::GraphRegistered { .. }))
        };
        self.0.set(self.0.get() + messages.iter().filter(is_registered).count() as u32);
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, _: &(dyn Any + Send)) {}
}

/// Has `server` make a graph of worker 0 of three ready, for the training of that number. The
/// steps are counted there or not.
async fn make_ready(server: &Server, number: u64, training: u32, counts: bool) {
    let WorkerMessage::RegisterGraph(mut order) = register_of(number, 0, 3) else {
        unreachable!("it is an order to register")
    };
    if !counts {
        let node = &mut Arc::make_mut(&mut Arc::make_mut(&mut order.partition).nodes)[0];
        let Op::CommitStep(replica) = node.op else { unreachable!("it is the end of a step") };
        (node.op, node.outputs) = (Op::BeginStep(replica), 0);
    }
    let message = WorkerMessage::RegisterGraph(GraphOrder { training, ..order });
    tell(&server.actors.worker, WorkerMail::FromPeer { from: CHIEF, message });
    settle().await;
    settle().await;
}

/// The word of `worker` that it has ended the training of that number.
fn ended(worker: u32, training: u32) -> ParameterServerMessage {
    ParameterServerMessage::Leave { worker, why: Leaving::Done, training }
}

#[test]
fn a_parameter_server_begins_the_next_training_when_the_one_says_so_that_counts_the_steps() {
    on_actix(async {
        let servers = servers().await;
        let (shard, ear) = (&servers[1], Rc::new(Ear::default()));
        servers[2].world.transport.listen(Rc::<Ear>::clone(&ear)); // in the chief's place
        make_ready(shard, 1, 1, false).await;
        for worker in [0, 2] {
            hear_from(shard, CHIEF, ended(worker, 1)).await;
        }
        let before = ear.0.get();
        make_ready(shard, 2, 2, false).await;
        assert_eq!(ear.0.get(), before, "it waits for the word");
        let view = View { training: 2, ..View::default() };
        hear_from(shard, COUNTER, ParameterServerMessage::Install(view)).await;
        settle().await;
        assert_eq!(ear.0.get(), before + 1);
        hear_from(shard, OTHER, ended(1, 1)).await;
        gradient_of(shard, 0, Epoch(2)).await;
        let waits = waits(shard).await.concat();
        assert!(waits.contains("worker 1's gradient of `v`"), "its word came late: {waits}");
    });
}

#[test]
fn who_counts_the_steps_tells_that_the_next_training_begins_once_all_have_left_the_last() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (&servers[0], &servers[1]);
        make_ready(counter, 1, 1, true).await;
        let message = register_of(2, 1, 3);
        tell(&counter.actors.worker, WorkerMail::FromPeer { from: OTHER, message });
        settle().await;
        hear_from(counter, CHIEF, ended(0, 1)).await;
        make_ready(counter, 3, 2, true).await;
        assert_eq!(shard.training().number(), 1, "worker 1 still trains");
        hear_from(counter, OTHER, ended(1, 1)).await;
        settle().await;
        assert_eq!([counter, shard].map(|server| server.training().number()), [2, 2]);
    });
}

#[test]
fn a_program_that_joins_its_server_once_more_waits_for_the_end_of_the_next_training() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let ps = &servers[0];
        for worker in [0, 1] {
            hear(ps, ended(worker, 1)).await;
        }
        assert_eq!(ps.join(2, Patience::default()).await, Ok(()));
        let next = async {
            assert!(waits_to_end(ps).await, "it has yet to begin");
            for worker in [0, 1] {
                hear(ps, ended(worker, 2)).await;
            }
        };
        let joined = join(ps.join(2, Patience::default()), next);
        let (joined, ()) = tokio::time::timeout(Duration::from_secs(5), joined).await.unwrap();
        assert_eq!(joined, Ok(()));
    });
}
