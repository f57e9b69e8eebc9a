//! Messages of a peer that nobody has asked for: one of each kind that needs no graph.

use std::collections::{BTreeMap, BTreeSet};

use trainyard::cluster::TaskName;
use trainyard::runtime::{
    ClientMessage, Code, Error, GraphHandle, MasterMessage, ParameterServerMessage, PeerMessage,
    SessionAction, SessionAnswer, SessionCall, SessionId, StepId, WorkerMessage,
};
use trainyard::sync::{Departed, Epoch, Fate, Progress, Return, Version, View};
use trainyard::tape::{Kind, Masters};
use trainyard::tensor::Tensor;

/// What the chief's task may send to a parameter server, besides orders to make graphs ready and to
/// run them, their values, and what programs tell each other; each of the number `number`.
pub(crate) fn of_a_chief(number: u64) -> Vec<PeerMessage> {
    let (master, unknown) = (7, 1000 + number);
    let step = StepId { master: unknown, number, trains: true };
    let graph = GraphHandle { master: unknown, number };
    let task = || TaskName::new("worker", 0);
    let action = SessionAction::Close { session: (unknown, SessionId(number)) };
    let call = SessionCall { client: 7, number, settled: number, arrived: Vec::new(), action };
    let done = [Tensor::full([100], 1f32)].into_iter().collect();
    let departed = Departed::default();
    let to_master = [
        MasterMessage::GraphRegistered { graph, outcome: Ok(()) },
        MasterMessage::GraphDone { step, graph, outcome: Ok(done), computed: None },
        MasterMessage::Traced { step, graph, times: Vec::new() },
        MasterMessage::ResetDone { number, variables: 1, departed },
        MasterMessage::Called(Box::new(call)),
        MasterMessage::WayLost { to: task() },
        MasterMessage::Known { is_known: true },
        MasterMessage::BlockedWays {
            step,
            graph,
            to: vec![(task(), "no answer".to_owned())],
            absent: vec![task()],
        },
    ];
    let to_worker = [
        WorkerMessage::DeregisterGraphs { graphs: vec![graph], scope: None },
        WorkerMessage::AbortStep(StepId { master, ..step }),
        WorkerMessage::AskForMaster { master: unknown },
        WorkerMessage::AskForWays { step, graph },
    ];
    let error = Error::new(Code::NotFound, format!("no `v{number}`"));
    let incarnations = vec![(task(), number)];
    let (containers, within_training) = (Vec::new(), false);
    let to_server = [
        ParameterServerMessage::Lost { worker: 0 },
        ParameterServerMessage::Back { worker: 0 },
        ParameterServerMessage::ChiefFailed { error: Box::new(error), is_unsaved: false },
        ParameterServerMessage::TrainingOver { training: 1 },
        ParameterServerMessage::Reset { number, containers, within_training, incarnations },
    ];
    let answer = ClientMessage { number, outcome: Ok(SessionAnswer::Done) };
    let to_server = to_server.map(PeerMessage::from).into_iter().chain([answer.into()]);
    let to_others = to_master.map(PeerMessage::from).into_iter();
    to_others.chain(to_worker.map(PeerMessage::from)).chain(to_server).collect()
}

/// What only a parameter server sends to another, about the view of that number.
pub(crate) fn of_a_parameter_server(number: u32) -> [PeerMessage; 6] {
    let round = Version { epoch: Epoch(number), updates: 9 };
    let view = View {
        number,
        out: BTreeMap::from([(number, Fate::Dropped)]),
        back: BTreeMap::from([(0, Return { view: number, round })]),
        training: 1,
    };
    let progress = vec![(number, Progress { least: 1, most: 2, made: 1 })];
    let all = [
        ParameterServerMessage::Flush { number, out: vec![number, 5] },
        ParameterServerMessage::Flushed { number, progress, is_cut_off: true },
        ParameterServerMessage::Install(view),
        ParameterServerMessage::LetIn { worker: number, view: number },
        ParameterServerMessage::Stopping,
        ParameterServerMessage::Found { worker: number },
    ];
    all.map(PeerMessage::from)
}

/// Panics unless `messages` has one of each kind that there is.
#[track_caller]
pub(crate) fn assert_each_kind<'a>(messages: impl IntoIterator<Item = &'a PeerMessage>) {
    let masters = Masters::default();
    let kinds: BTreeSet<Kind> =
        messages.into_iter().map(|message| masters.name(1, message).kind).collect();
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "there is no sample of {missing:?}");
}
