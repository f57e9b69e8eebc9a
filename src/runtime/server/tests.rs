//! What the actors of a started server tell one another.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;

use super::*;
use crate::cluster::LocalDevice;
use crate::graph::{Op, Replica};
use crate::partition::{Node, Partition, ValueSlot};
use crate::runtime::messages::{GraphHandle, ParameterServerMessage, WorkerMessage};
use crate::sync::Mode;
use crate::transport::PeerId;

/// The task of worker 0.
const WORKER: PeerId = PeerId(1);

fn graph(number: u64) -> GraphHandle {
    GraphHandle { master: 5, number }
}

/// The order to register the end of a step of worker 0, one of two.
fn register(number: u64) -> WorkerMessage {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let commit = Node {
        name: "commit".into(),
        op: Op::CommitStep(Replica { worker: 0, workers: 2, mode }),
        inputs: smallvec![],
        first_output: ValueSlot(0),
        outputs: 3,
        after: smallvec![],
        variables: smallvec![],
    };
    let partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
    let partition = Arc::new(Partition { nodes: Arc::new(vec![commit]), slots: 3, ..partition });
    let (graph, isolated, is_again, functions) = (graph(number), None, false, None);
    WorkerMessage::RegisterGraph { graph, partition, isolated, is_again, functions }
}

/// Has `server` hear of `message`, and of what follows from it.
async fn hear(server: &Server, message: impl Into<PeerMessage>) {
    match message.into() {
        PeerMessage::Worker(message) => {
            tell(&server.actors.worker, WorkerMail::FromPeer { from: WORKER, message });
        }
        PeerMessage::ParameterServer(message) => {
            let mail = ParameterServerMail::FromPeer { from: WORKER, message };
            tell(&server.actors.parameter_server, mail);
        }
        other => panic!("nobody sends {other:?}"),
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_partition_that_is_given_up_while_it_is_held_off_brings_back_no_worker_that_has_left() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    actix_rt::System::with_tokio_rt(runtime).block_on(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let ps = &servers[0];
        hear(ps, register(0)).await;
        hear(ps, ParameterServerMessage::Leave { worker: 0 }).await;
        hear(ps, ParameterServerMessage::TrainingOver).await;
        // Worker 0 is early for another training: worker 1 has not left this one.
        hear(ps, register(1)).await;
        let graphs = vec![graph(1)];
        hear(ps, WorkerMessage::DeregisterGraphs { graphs, isolated: None }).await;
        hear(ps, ParameterServerMessage::Leave { worker: 1 }).await;
        let joined = ps.join(2, Patience::default());
        let joined = tokio::time::timeout(Duration::from_secs(5), joined).await;
        assert_eq!(joined, Ok(Ok(())), "the training is over");
    });
}
