//! Each peer may send what its role and its masters allow, and no more.

use std::sync::Arc;

use smallvec::smallvec;

use super::*;
use crate::partition::Partition;
use crate::runtime::messages::{
    GraphHandle, GraphOrder, ProgramMessage, SessionId, StepId, StepOrder,
};
use crate::sync::{Leaving, View};

const STEP: StepId = StepId { master: 7, number: 0, trains: true };
const LIMIT: Duration = Duration::from_secs(1);
const GRAPH: GraphHandle = GraphHandle { master: 7, number: 0 };

/// The rights of a task of two parameter servers, two workers and an evaluator, which has met them
/// and a client and a stranger as peers 0 to 6.
fn access() -> Access {
    let jobs = [("evaluator", 1), ("ps", 2), ("worker", 2)];
    let access = Access::of(ClusterSpec::simulated(jobs).unwrap());
    let names = ["ps:0", "ps:1", "worker:0", "worker:1", "evaluator:0", "client:3", "tester:0"];
    for name in names {
        let name: TaskName = name.parse().unwrap();
        let worker = access.cluster.worker_index(&name);
        let role = match name.job() {
            "client" => Role::Client,
            "tester" => Role::Stranger,
            _ => Role::Task(worker),
        };
        access.peers.borrow_mut().push(Some(Peer { name, role }));
    }
    access
}

const WORKERS: [PeerId; 2] = [PeerId(2), PeerId(3)];
const EVALUATOR: PeerId = PeerId(4);
const CLIENT_3: PeerId = PeerId(5);
const STRANGER: PeerId = PeerId(6);

fn register(graph: GraphHandle, scope: Option<Scope>) -> PeerMessage {
    let partition = Partition::empty(TaskName::new("ps", 0), crate::cluster::LocalDevice::cpu(0));
    let (partition, is_again) = (Arc::new(partition), false);
    let (functions, counted_by, training) = (None, None, 0);
    let order = GraphOrder { graph, partition, scope, is_again, functions, counted_by, training };
    WorkerMessage::RegisterGraph(order).into()
}

fn run(step: StepId, graph: GraphHandle) -> PeerMessage {
    let (feeds, origin) = (smallvec![], None);
    let order = StepOrder { step, graph, feeds, origin, is_traced: false, next: None };
    WorkerMessage::RunGraph(order).into()
}

fn leave(worker: u32) -> PeerMessage {
    ParameterServerMessage::Leave { worker, why: Leaving::Done, training: 1 }.into()
}

#[test]
fn a_masters_id_is_its_peers_until_that_peer_is_lost() {
    let access = access();
    assert!(access.admits(WORKERS[0], &register(GRAPH, None)));
    let orders = [
        register(GraphHandle { number: 1, ..GRAPH }, None),
        run(STEP, GRAPH),
        WorkerMessage::AbortStep(STEP).into(),
        WorkerMessage::DeregisterGraphs { graphs: vec![GRAPH], scope: None }.into(),
        WorkerMessage::DeregisterGraphs { graphs: Vec::new(), scope: Some((7, SessionId(0))) }
            .into(),
    ];
    for order in &orders {
        assert!(access.admits(WORKERS[0], order), "{order:?}");
        assert!(!access.admits(WORKERS[1], order), "{order:?}");
    }
    assert_eq!(access.lose(WORKERS[0]), [7]);
    assert!(access.admits(WORKERS[1], &orders[0]));
    assert!(!access.admits(WORKERS[0], &orders[0]));
}

#[test]
fn a_step_a_graph_and_a_session_of_different_masters_do_not_belong_together() {
    let access = access();
    assert!(!access.admits(WORKERS[0], &register(GRAPH, Some((8, SessionId(0))))));
    assert!(access.admits(WORKERS[0], &register(GRAPH, Some((7, SessionId(0))))));
    assert!(!access.admits(WORKERS[0], &run(StepId { master: 8, ..STEP }, GRAPH)));
}

#[test]
fn this_tasks_own_master_is_nobody_elses() {
    let access = access();
    access.own(7, PeerId(0));
    assert!(!access.admits(WORKERS[0], &register(GRAPH, None)));
}

#[test]
fn a_peer_has_a_few_masters_at_a_time() {
    let access = access();
    let of = |master| register(GraphHandle { master, number: 0 }, None);
    assert!((0..MASTERS as u64).all(|master| access.admits(WORKERS[0], &of(master))));
    assert!(!access.admits(WORKERS[0], &of(99)) && access.admits(WORKERS[1], &of(99)));
}

#[test]
fn a_worker_leaves_for_itself_and_the_chief_for_any() {
    let access = access();
    assert!(access.admits(WORKERS[1], &leave(1)) && !access.admits(WORKERS[1], &leave(0)));
    assert!(access.admits(WORKERS[0], &leave(0)) && access.admits(WORKERS[0], &leave(1)));
    assert!(!access.admits(WORKERS[0], &leave(2)), "there are two workers");
    assert!(!access.admits(EVALUATOR, &leave(0)) && !access.admits(PeerId(1), &leave(1)));
}

#[test]
fn a_parameter_server_and_the_chief_say_whom_they_have_lost() {
    let access = access();
    let lost = |worker| ParameterServerMessage::Lost { worker }.into();
    let found = |worker| ParameterServerMessage::Found { worker }.into();
    assert!(access.admits(PeerId(1), &found(1)) && access.admits(WORKERS[0], &found(1)));
    assert!(!access.admits(WORKERS[1], &found(1)) && !access.admits(PeerId(1), &found(2)));
    let back = |worker| ParameterServerMessage::Back { worker }.into();
    assert!(access.admits(PeerId(1), &back(1)) && !access.admits(WORKERS[1], &back(1)));
    assert!(access.admits(PeerId(1), &lost(1)) && access.admits(WORKERS[0], &lost(1)));
    assert!(!access.admits(WORKERS[1], &lost(0)) && !access.admits(PeerId(1), &lost(2)));
    assert!(!access.admits(WORKERS[1], &lost(1)) && !access.admits(EVALUATOR, &lost(1)));
}

/// What the task of the global step says of rounds, and what tasks with variables say to it.
fn of_rounds() -> ([PeerMessage; 2], [PeerMessage; 2]) {
    let flush = ParameterServerMessage::Flush { number: 1, out: vec![0, 1] };
    let install = ParameterServerMessage::Install(View::default());
    let flushed =
        ParameterServerMessage::Flushed { number: 1, progress: Vec::new(), is_cut_off: true };
    let let_in = ParameterServerMessage::LetIn { worker: 1, view: 0 };
    ([flush.into(), install.into()], [flushed.into(), let_in.into()])
}

#[test]
fn only_a_parameter_server_stops_with_the_variables_and_says_who_takes_part_in_rounds() {
    let access = access();
    let (of_rounds, of_holders) = of_rounds();
    let stopping = [ParameterServerMessage::Stopping.into()];
    for message in stopping.iter().chain(&of_rounds).chain(&of_holders) {
        assert!(access.admits(PeerId(1), message), "{message:?}");
        for other in [WORKERS[0], WORKERS[1], EVALUATOR] {
            assert!(!access.admits(other, message), "{message:?} from {other:?}");
        }
    }
}

#[test]
fn without_parameter_servers_who_trains_or_helps_says_who_takes_part_in_rounds() {
    let cluster = ClusterSpec::simulated([("evaluator", 1), ("tower", 1), ("worker", 2)]).unwrap();
    let access = Access::of(cluster);
    for name in ["evaluator:0", "tower:0", "worker:0", "worker:1"] {
        let name: TaskName = name.parse().unwrap();
        let role = Role::Task(access.cluster.worker_index(&name));
        access.peers.borrow_mut().push(Some(Peer { name, role }));
    }
    let (of_rounds, of_holders) = of_rounds();
    let admitted =
        |message: &PeerMessage| [0, 1, 2, 3].map(|peer| access.admits(PeerId(peer), message));
    assert!(of_rounds.iter().all(|message| admitted(message) == [false, true, true, true]));
    assert!(of_holders.iter().all(|message| admitted(message) == [false, false, true, true]));
    assert_eq!(admitted(&ParameterServerMessage::Stopping.into()), [false; 4]);
}

#[test]
fn a_client_runs_graphs_only_where_sessions_are_served() {
    let access = access();
    let over = || PeerMessage::from(ParameterServerMessage::TrainingOver { training: 1 });
    assert!(!access.admits(CLIENT_3, &register(GRAPH, None)));
    access.serve_sessions(LIMIT);
    assert!(access.admits(CLIENT_3, &register(GRAPH, None)));
    assert!(access.admits(CLIENT_3, &run(STEP, GRAPH)));
    for of_a_training in [over(), leave(0), ProgramMessage::AskForPlaces.into()] {
        assert!(!access.admits(CLIENT_3, &of_a_training), "{of_a_training:?}");
    }
    assert!(access.admits(EVALUATOR, &over()));
}

#[test]
fn a_stranger_sends_nothing_and_its_refusal_is_told_once() {
    let access = access();
    access.serve_sessions(LIMIT);
    for _ in 0..3 {
        assert!(!access.admits(STRANGER, &register(GRAPH, None)));
        assert!(
            !access.admits(STRANGER, &ParameterServerMessage::TrainingOver { training: 1 }.into())
        );
    }
    let why = Refusal::Stranger.to_string();
    assert_eq!(access.refusals(), [(TaskName::new("tester", 0), why)]);
}
