//! What the actors of a started server tell one another.

mod absence;
mod chief;
mod ending;
mod losses;
mod sessions;
mod stops;
mod trainings;

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;

use super::*;
use crate::cluster::LocalDevice;
use crate::graph::{Graph, GraphError, Op, Output, Replica};
use crate::on_actix::on_actix;
use crate::partition::{Node, Partition, Request, ValueSlot};
use crate::runtime::checkpoint_news::Watched;
use crate::runtime::mail::{RunStep, StepDone};
use crate::runtime::messages::{
    GraphHandle, GraphOrder, MasterMessage, ParameterServerMessage, ProgramMessage, SessionAction,
    SessionCall, SessionId, Values, WorkerMessage,
};
use crate::runtime::reply::Answer;
use crate::runtime::session_options::SessionOptions;
use crate::sync::{Leaving, Mode};
use crate::transport::{Inbox, Loss, PeerId};

/// The task of worker 0.
const WORKER: PeerId = PeerId(1);

fn graph(number: u64) -> GraphHandle {
    GraphHandle { master: 5, number }
}

/// The order to register the end of a step of worker 0, one of two.
fn register(number: u64) -> WorkerMessage {
    register_of(number, 0, 2)
}

/// The order to register the end of a step of `worker`.
fn register_of(number: u64, worker: u32, workers: u32) -> WorkerMessage {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let commit = Node {
        name: "commit".into(),
        op: Op::CommitStep(Replica { worker, workers, mode }),
        inputs: smallvec![],
        first_output: ValueSlot(0),
        outputs: 3,
        after: smallvec![],
        variables: smallvec![],
    };
    let partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
    let partition = Arc::new(Partition { nodes: Arc::new(vec![commit]), slots: 3, ..partition });
    WorkerMessage::RegisterGraph(order(number, partition))
}

/// The order to register `partition`.
fn order(number: u64, partition: Arc<Partition>) -> GraphOrder {
    let (graph, scope, is_again) = (graph(number), None, false);
    let (functions, counted_by, training) = (None, None, 0);
    GraphOrder { graph, partition, scope, is_again, functions, counted_by, training }
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
    settle().await;
}

/// Has the actors handle their mail.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_partition_that_is_given_up_while_it_is_held_off_brings_back_no_worker_that_has_left() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let ps = &servers[0];
        hear(ps, register(0)).await;
        hear(ps, ParameterServerMessage::Leave { worker: 0, why: Leaving::Done, training: 1 })
            .await;
        hear(ps, ParameterServerMessage::TrainingOver { training: 1 }).await;
        // Worker 0 is early for another training: worker 1 has not left this one.
        hear(ps, register(1)).await;
        let graphs = vec![graph(1)];
        hear(ps, WorkerMessage::DeregisterGraphs { graphs, scope: None }).await;
        hear(ps, ParameterServerMessage::Leave { worker: 1, why: Leaving::Done, training: 1 })
            .await;
        let joined = ps.join(2, Patience::default());
        let joined = tokio::time::timeout(Duration::from_secs(5), joined).await;
        assert_eq!(joined, Ok(Ok(())), "the training is over");
    });
}

/// A parameter server and two workers; it knows them, and serves a graph of worker 0.
async fn servers_of_a_training() -> Vec<Server> {
    let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap();
    let servers = Server::create_cluster(&cluster);
    servers[0].know_cluster();
    hear(&servers[0], register(0)).await;
    servers
}

#[test]
fn who_was_told_that_a_worker_leaves_is_told_that_it_is_back() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let (ps, worker) = (&servers[0], &servers[2]);
        for server in &servers {
            let left = ParameterServerMessage::Leave { worker: 0, why: Leaving::Done, training: 1 };
            server.actors.deliver(WORKER, vec![left.into()]);
        }
        settle().await;
        assert_eq!(worker.training().chief_left(), Some(Leaving::Done));
        hear(ps, register(1)).await;
        assert_eq!(worker.training().chief_left(), None);
        hear(worker, ParameterServerMessage::Leave { worker: 1, why: Leaving::Done, training: 1 })
            .await;
        let soon = Duration::from_millis(50);
        let joined = tokio::time::timeout(soon, worker.join(2, Patience::default())).await;
        assert!(joined.is_err(), "it waits for worker 0, which never asked anything of it");
    });
}

/// A patience that a test can wait for.
fn short() -> Patience {
    let wait = Duration::from_millis(50);
    Patience { first: wait, recovery: wait, operation: wait }
}

/// Whether a program that joins `server` goes on waiting.
async fn waits_to_end(server: &Server) -> bool {
    let joined = server.join(2, Patience::default());
    tokio::time::timeout(Duration::from_millis(50), joined).await.is_err()
}

#[test]
fn a_training_whose_workers_were_all_asked_to_stop_is_no_success_of_its_parameter_server() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let ps = &servers[0];
        ps.know_cluster();
        for worker in [0, 1] {
            hear(ps, ParameterServerMessage::Leave { worker, why: Leaving::Stopped, training: 1 })
                .await;
        }
        let error = ps.join(2, short()).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        let told = "the parameter server waits for worker:0, worker:1";
        assert!(error.message.starts_with(told), "{error}");
        hear(ps, ParameterServerMessage::Leave { worker: 0, why: Leaving::Done, training: 1 })
            .await;
        assert_eq!(ps.join(2, short()).await, Ok(()), "the chief came back, and ended it");
    });
}

#[test]
fn a_parameter_server_ends_with_the_error_of_its_chief_once_nobody_uses_it() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let (ps, worker) = (&servers[0], &servers[2]);
        let error = Error::new(Code::NotFound, "the checkpoint has no `v`").on(servers[1].task());
        let failed = || {
            let error = Box::new(error.clone());
            ParameterServerMessage::ChiefFailed { error, is_unsaved: false }
        };
        ps.actors.deliver(WORKER, vec![failed().into()]);
        assert!(waits_to_end(ps).await, "somebody uses it");
        ps.actors.lost(WORKER, Loss::Stopped);
        assert_eq!(ps.join(2, Patience::default()).await, Err(error.clone()));
        hear(ps, register(1)).await;
        assert_eq!(ps.training().chief_failed(), None, "the chief is back");
        worker.actors.deliver(PeerId(2), vec![failed().into()]);
        settle().await;
        assert_eq!(worker.training().chief_failed(), None, "only the chief may say so");
        worker.actors.deliver(WORKER, vec![failed().into()]);
        settle().await;
        assert_eq!(worker.training().chief_failed(), Some(error));
    });
}

#[test]
fn what_another_task_tells_of_a_worker_that_has_come_since_changes_nothing() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let ps = &servers[0];
        let message =
            ParameterServerMessage::Leave { worker: 0, why: Leaving::Stopped, training: 1 };
        let by_other = ParameterServerMail::FromPeer { from: PeerId(2), message: message.clone() };
        tell(&ps.actors.parameter_server, by_other);
        assert!(waits_to_end(ps).await);
        assert!(waits(ps).await.concat().contains("2 of 2 workers"));
        hear(ps, message).await;
        assert!(waits(ps).await.concat().contains("1 of 2 workers"));
    });
}

#[test]
fn what_the_chief_sent_last_does_not_hide_that_it_is_lost_from_who_watches_its_checkpoints() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("evaluator", 1), ("worker", 1)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let evaluator = &servers[0];
        evaluator.watch_checkpoints(servers[1].task());
        settle().await;
        assert_eq!(evaluator.watched(), Watched::Answered);
        evaluator.actors.deliver(WORKER, vec![ProgramMessage::CheckpointSaved.into()]);
        evaluator.actors.lost(WORKER, Loss::Stopped);
        settle().await;
        assert_eq!(evaluator.watched(), Watched::Lost);
    });
}

#[test]
fn a_first_checkpoint_that_could_not_be_saved_is_no_matter_of_the_values_and_ends_the_servers() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let (ps, worker) = (&servers[0], &servers[2]);
        let error = Error::new(Code::Unwritable, "the disk is full").on(servers[1].task());
        for server in [ps, worker] {
            let error = Box::new(error.clone());
            let failed = ParameterServerMessage::ChiefFailed { error, is_unsaved: true };
            server.actors.deliver(WORKER, vec![failed.into()]);
        }
        settle().await;
        worker.training().find_values(false);
        assert_eq!(worker.training().never_saved_for(), Some(error.clone()));
        worker.training().find_values(true);
        assert_eq!(worker.training().never_saved_for(), None, "its values are new ones");
        ps.actors.lost(WORKER, Loss::Stopped);
        assert_eq!(ps.join(2, Patience::default()).await, Err(error));
    });
}

#[test]
fn a_task_that_is_asked_to_stop_waits_for_its_users_only_if_its_variables_go_with_it() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 2), ("tower", 1)]).unwrap();
        let servers = Server::create_cluster(&cluster);
        let [ps, idle, helper] = &servers[..] else { panic!("there are three tasks") };
        for server in [ps, helper] {
            server.know_cluster();
            hear(server, register(0)).await; // from `idle`, which uses both
            assert!(waits_to_end(server).await);
        }
        helper.request_stop();
        assert_eq!(helper.join(2, Patience::default()).await, Ok(()));
        ps.request_stop();
        assert!(waits_to_end(ps).await, "the training ends first");
        assert_eq!(idle.join(2, Patience::default()).await, Ok(()), "that is how it ends");
    });
}

/// The server of `task`, whose peers never start.
fn started(cluster: ClusterSpec, task: TaskName) -> Server {
    let transport = InMemoryNetwork::new(&cluster).endpoint(&task).unwrap();
    let devices = [Rc::new(Processor::default()) as Rc<dyn ComputeModel>].into();
    let (encoding, clock) = (Encoding::Exact, Rc::new(WallClock::new()));
    let world = ServerWorld { transport, encoding, clock, devices };
    let server = Server::new(ServerDef { cluster, task }, world);
    server.start().unwrap();
    server
}

/// What `server` and its clients wait for.
async fn waits(server: &Server) -> Vec<String> {
    let inquiry = Inquiry::new();
    server.inquire(&inquiry);
    settle().await;
    inquiry.take().iter().map(ToString::to_string).collect()
}

#[test]
fn what_a_program_waits_for_is_told_with_what_the_actors_do() {
    on_actix(async {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let server = started(cluster, TaskName::new("worker", 0));
        let wait = server.note_wait("a disk".to_owned());
        assert_eq!(waits(&server).await, ["program of worker:0 waits for a disk"]);
        drop(wait);
        assert!(waits(&server).await.is_empty());
    });
}

#[test]
fn a_question_of_how_far_the_training_is_is_another_than_what_is_waited_for() {
    on_actix(async {
        let servers = servers_of_a_training().await;
        let ps = &servers[0];
        ps.actors.lost(WORKER, Loss::Stopped);
        settle().await;
        waits(ps).await;
        assert!(ps.training().progress().lost.is_empty(), "nobody asked who is lost");
        let inquiry = Inquiry::new();
        ps.look_at_progress(&inquiry);
        settle().await;
        let told: Vec<_> = inquiry.take().into_iter().map(|progress| progress.lost).collect();
        assert_eq!(told, [[0]]);
    });
}
