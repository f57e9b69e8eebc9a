//! Messages as bytes and back; decoded bytes that are no valid message are refused, or safe to run.

mod partitions;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::cluster::{ClusterSpec, LocalDevice, TaskName};
use crate::graph::{
    Edge, Graph, Op, OpId, Output, Target, accuracy, dense, sparse_softmax_cross_entropy,
};
use crate::optimizer::{Adam, IntoOptimizer};
use crate::partition::{CrossingId, Node, Partition, Request, Sent, ValueSlot};
use crate::placement::ReplicaDeviceSetter;
use crate::runtime::error::{Code, Error};
use crate::runtime::master::step_plan::partitions;
use crate::runtime::own_values::{OwnValues, OwnValuesAnswer};
use crate::runtime::state::{Bound, VariableId};
use crate::runtime::worker::plan::Plan;
use crate::sync::{Departed, Epoch, Fate, Leaving, Mode, Progress, Return, Version, View};
use crate::tape::{Kind, Masters};
use crate::tensor::DType;
use crate::transport::Payload;
use crate::transport::wire::{WireLimits, decode_envelope, encode_envelope};

/// What a session says of its devices.
fn placing() -> Placing {
    Placing {
        device_filters: vec!["/job:ps".to_owned()],
        allow_soft_placement: false,
        log_device_placement: true,
    }
}

/// The partitions of the first and of a later step of two trainings, over two parameter servers.
fn some_partitions() -> Vec<Partition> {
    let names = ["ps:0", "ps:1", "worker:0", "worker:1"];
    let tasks: Vec<TaskName> = names.iter().map(|name| name.parse().unwrap()).collect();
    let cluster = ClusterSpec::simulated([("ps", 2), ("worker", 2)]).unwrap();
    let setter =
        || ReplicaDeviceSetter::new(&cluster).worker_device("/job:worker/task:1".parse().unwrap());
    let mut all = Vec::new();
    let mut add = |g: &Graph, targets: &[&Target], fetches: &[&Output]| {
        let fed = if fetches.is_empty() { &[][..] } else { &["x", "y"] };
        let feeds = fed
            .iter()
            .filter_map(|name| g.operation(name))
            .map(|target| Edge { op: target.op_id(), output: 0 });
        let request = Request {
            feeds: feeds.collect(),
            fetches: fetches.iter().map(|output| output.edge()).collect(),
            targets: targets.iter().map(|target| target.op_id()).collect(),
        };
        all.extend(partitions(&g.snapshot().unwrap(), &request, &tasks, &tasks[3]).unwrap());
    };
    for mode in [Mode::Async, Mode::Sync { backups: 1, cancel: false }] {
        let g = Graph::new();
        let (loss, right, train) = g
            .with_device_fn(setter(), |g| {
                let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
                let y = g.placeholder("y", DType::I32, [None])?;
                let logits = dense(&dense(&x, 8)?.relu(), 10)?;
                let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
                let optimizer = Adam::new(0.1).coordinated(mode, 1, 2);
                let train = optimizer.minimize(&loss, &g.global_step()?)?;
                Ok((loss, accuracy(&logits, &y)?, train))
            })
            .unwrap();
        add(&g, &[train.as_ref()], &[&loss, &right]);
        add(&g, &[&g.initializer()], &[]);
    }
    all
}

/// `values` integers in blocks of `block`, with `scales` scales.
fn int8(values: usize, block: u32, scales: usize) -> Packed {
    let block = std::num::NonZeroU32::new(block).unwrap();
    Packed::Int8 {
        values: Tensor::full([values], 100i8),
        scales: Tensor::full([scales], 0.5f32),
        block,
    }
}

/// A value in each way of sending one, and an edge without a value.
fn arrivals(value: Tensor) -> Arrivals {
    smallvec![
        (CrossingId(1), Some(value.into())),
        (CrossingId(2), Some(bf16().into())),
        (CrossingId(3), Some(int8(5, 2, 3).into())),
        (CrossingId(70_000), None),
        (CrossingId(5), Some(Packed::Refused("no memory for it".to_owned()).into())),
    ]
}

fn bf16() -> Packed {
    Packed::Bf16(Tensor::full([3], half::bf16::ONE))
}

/// A message with one value.
fn sending(value: impl Into<SentValue>) -> PeerMessage {
    let arrivals = smallvec![(CrossingId(1), Some(value.into())), (CrossingId(2), None)];
    let (step, devices) =
        (StepId { master: 1, number: 7, trains: true }, smallvec![LocalDevice::cpu(0)]);
    WorkerMessage::Tensors { step, devices, arrivals }.into()
}

fn some_departed() -> Departed {
    let [done, stopped] = [3, 5].map(|worker| BTreeSet::from([worker]));
    Departed { done, stopped, lost: BTreeSet::from([0, 7]) }
}

fn messages() -> Vec<PeerMessage> {
    let step = StepId { master: u64::MAX, number: 7, trains: true };
    let graph = GraphHandle { master: 3, number: 300 };
    let value = Tensor::new([2, 2], &[1f32, f32::NAN, -0.0, 4.0]).unwrap();
    let error = || {
        Error::new(Code::Aborted, "a long story").on(&TaskName::new("ps", 1)).in_operation("w/read")
    };
    let (scope, is_again) = (Some((3, SessionId(9))), true);
    let departed = some_departed();
    let to_masters = [
        MasterMessage::GraphRegistered { graph, outcome: Ok(()) },
        MasterMessage::GraphRegistered { graph, outcome: Err(error()) },
        MasterMessage::GraphDone {
            step,
            graph,
            outcome: Ok(smallvec![value.clone()]),
            computed: None,
        },
        MasterMessage::GraphDone {
            step,
            graph,
            outcome: Err(Box::new(error())),
            computed: Some((Time(1), Time(u64::MAX))),
        },
        MasterMessage::Traced { step, graph, times: vec![time()] },
        MasterMessage::ResetDone { number: 1, variables: 12, departed },
        MasterMessage::WayLost { to: TaskName::new("ps", 1) },
        MasterMessage::Known { is_known: true },
        MasterMessage::BlockedWays {
            step,
            graph,
            to: vec![(TaskName::new("ps", 0), "no answer".to_owned())],
            absent: vec![TaskName::new("worker", 1)],
        },
    ];
    let register = |partition| {
        let (partition, functions) = (Arc::new(partition), Some(Box::new(placing())));
        let counted_by = Some(Box::new((TaskName::new("ps", 1), 7)));
        let training = 3;
        let order =
            GraphOrder { graph, partition, scope, is_again, functions, counted_by, training };
        WorkerMessage::RegisterGraph(order)
    };
    let registered = some_partitions().into_iter().map(register);
    let to_workers = [
        WorkerMessage::DeregisterGraphs { graphs: vec![graph; 3], scope: None },
        WorkerMessage::RunGraph(StepOrder {
            step,
            graph,
            origin: Some(Origin { owner: Some(4), training: 5, number: 6, is_again: true }),
            feeds: smallvec![value.clone(), Tensor::scalar(true)],
            is_traced: true,
            next: Some(8),
        }),
        WorkerMessage::Tensors {
            step,
            devices: smallvec![LocalDevice::cpu(0), LocalDevice::gpu(3)],
            arrivals: arrivals(value.clone()),
        },
        WorkerMessage::AbortStep(step),
        WorkerMessage::AskForMaster { master: 3 },
        WorkerMessage::AskForWays { step, graph },
    ];
    let calls = calls(value.clone()).into_iter().map(called);
    let to_masters = to_masters.into_iter().chain(calls).map(PeerMessage::from);
    let to_workers = registered.chain(to_workers).map(PeerMessage::from);
    let to_parameter_servers = to_parameter_servers().into_iter().map(PeerMessage::from);
    let to_programs = to_programs().into_iter().map(PeerMessage::from);
    let to_tasks = to_masters.chain(to_workers).chain(to_parameter_servers).chain(to_programs);
    to_tasks.chain(answers(error())).collect()
}

fn time() -> OperationTime {
    let device = "/job:ps/task:1/device:CPU:0".into();
    OperationTime { operation: "a".into(), device, began: Time(1), ended: Time(2) }
}

/// The answers of a master to a client.
fn answers(error: Error) -> [PeerMessage; 5] {
    let outcomes = [
        Ok(SessionAnswer::Created((3, SessionId(9)))),
        Ok(SessionAnswer::Fetched(smallvec![Tensor::scalar(1f32)], Vec::new())),
        Ok(SessionAnswer::Reset(Departed::default())),
        Ok(SessionAnswer::Done),
        Err(error),
    ];
    outcomes.map(|outcome| ClientMessage { number: 9, outcome }.into())
}

/// A client's call.
fn called(action: SessionAction) -> MasterMessage {
    let arrived = vec![4..6, 7..9];
    MasterMessage::Called(Box::new(SessionCall {
        client: 1,
        number: 9,
        settled: 3,
        arrived,
        action,
    }))
}

/// What a client wants of a master.
fn calls(value: Tensor) -> [SessionAction; 6] {
    let session = (3, SessionId(9));
    let g = Graph::new();
    g.with_device("/job:ps/task:1", |g| g.constant(value.clone()).add(&g.constant(1f32))).unwrap();
    let operations = SentOperation::of(&g.snapshot().unwrap(), 0, 100);
    let request = Request { fetches: vec![Edge { op: OpId(2), output: 0 }], ..Request::default() };
    let timeout = Some(Duration::from_millis(3));
    [
        SessionAction::Create { placing: placing(), isolate_session_state: true },
        SessionAction::Extend { session, known: 0, operations },
        SessionAction::Run {
            session,
            request,
            feeds: smallvec![value],
            timeout,
            origin: None,
            is_traced: true,
        },
        SessionAction::Close { session },
        SessionAction::Reset {
            containers: vec!["a".to_owned()],
            within_training: false,
            device_filters: placing().device_filters,
            timeout,
        },
        SessionAction::Return,
    ]
}

#[test]
fn an_operation_of_a_kind_that_is_not_registered_is_refused_by_name_and_the_others_are_read() {
    let value = Tensor::scalar(1f32);
    let [_, extend, ..] = calls(value);
    let message = PeerMessage::from(called(extend));
    let mut bytes = encode_envelope(&vec![message], WireLimits::default()).unwrap();
    // The number of the operation `Add` stands after its name, the length of what is encoded, and
    // the number of the kind `Defined`.
    let name = bytes.windows(4).position(|four| four == b"\x03Add").unwrap();
    bytes[name + 6] = 250;
    let mut read = decode_envelope::<PeerMessage>(&bytes, WireLimits::default()).unwrap();
    let Some(PeerMessage::Master(MasterMessage::Called(call))) = read.pop() else { panic!() };
    let SessionAction::Extend { operations, .. } = call.action else { panic!() };
    let outcomes: Vec<_> = operations.into_iter().map(SentOperation::receive).collect();
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    let error = outcomes[2].as_ref().unwrap_err();
    assert!(error.message.contains("no operation number"), "{error}");
    assert_eq!(error.operation.as_deref(), Some("Add"));
}

fn to_parameter_servers() -> [ParameterServerMessage; 13] {
    [
        ParameterServerMessage::Reset {
            number: 1,
            containers: vec!["a".to_owned(), String::new()],
            within_training: true,
            incarnations: vec![(TaskName::new("ps", 1), 7)],
        },
        ParameterServerMessage::Leave { worker: 3, why: Leaving::Done, training: 1 },
        ParameterServerMessage::Leave { worker: 4, why: Leaving::Stopped, training: 1 },
        ParameterServerMessage::Lost { worker: 3 },
        ParameterServerMessage::Back { worker: 3 },
        ParameterServerMessage::Found { worker: 3 },
        ParameterServerMessage::Flush { number: 2, out: vec![3, 5] },
        ParameterServerMessage::Flushed {
            number: 2,
            progress: vec![(3, Progress { least: 1, most: 2, made: 1 })],
            is_cut_off: true,
        },
        ParameterServerMessage::Install(View {
            number: 2,
            out: [(3, Fate::Dropped)].into(),
            back: [(4, Return { view: 1, round: Version { epoch: Epoch(2), updates: 9 } })].into(),
            training: 3,
        }),
        ParameterServerMessage::LetIn { worker: 3, view: 2 },
        ParameterServerMessage::TrainingOver { training: 2 },
        ParameterServerMessage::ChiefFailed {
            error: Box::new(Error::new(Code::NotFound, "no `v`")),
            is_unsaved: true,
        },
        ParameterServerMessage::Stopping,
    ]
}

fn to_programs() -> [ProgramMessage; 7] {
    let own = OwnValues { count: 7, values: vec![("v".to_owned(), Tensor::scalar(1f32))] };
    [
        ProgramMessage::AskForPlaces,
        ProgramMessage::Places(vec![("v".to_owned(), TaskName::new("ps", 1))]),
        ProgramMessage::WatchCheckpoints,
        ProgramMessage::CheckpointSaved,
        ProgramMessage::AskForOwnValues { count: 7 },
        ProgramMessage::AskForRestoredValues,
        ProgramMessage::OwnValues(OwnValuesAnswer::Last(own)),
    ]
}

#[test]
fn every_message_comes_back_as_it_was() {
    let (all, limits) = (messages(), WireLimits::default());
    let masters = Masters::default();
    let kinds: BTreeSet<Kind> = all.iter().map(|message| masters.name(0, message).kind).collect();
    assert!(kinds.iter().eq(&Kind::ALL), "each kind: {kinds:?}");
    let bytes = encode_envelope(&all, limits).unwrap();
    let back = decode_envelope::<PeerMessage>(&bytes, limits).unwrap();
    assert_eq!(format!("{back:?}"), format!("{all:?}"));
}

#[test]
fn a_graph_is_as_long_as_its_large_constants_where_it_is_extended_and_registered() {
    let value = Tensor::zeros(DType::F32, [100_000]);
    let [_, extend, ..] = calls(value.clone());
    let mut partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
    Arc::make_mut(&mut partition.nodes).push(Node {
        name: "table".into(),
        op: Op::Const(value),
        inputs: smallvec![],
        first_output: ValueSlot(0),
        outputs: 1,
        after: smallvec![],
        variables: smallvec![],
    });
    let graph = GraphHandle { master: 3, number: 300 };
    let register = WorkerMessage::RegisterGraph(GraphOrder {
        graph,
        partition: Arc::new(partition),
        scope: None,
        is_again: false,
        functions: None,
        counted_by: None,
        training: 1,
    });
    for message in [PeerMessage::from(called(extend)), PeerMessage::from(register)] {
        let counted = message.wire_size().0 as f64;
        let encoded = encode_envelope(&vec![message], WireLimits::default()).unwrap().len() as f64;
        assert!((counted / encoded - 1.0).abs() < 0.01, "{counted} counted, {encoded} encoded");
    }
}

#[test]
fn encoding_a_value_reads_it_whole_and_writes_what_is_sent() {
    assert_eq!(sending(Tensor::full([3], 1f32)).coding_traffic(), 0);
    assert_eq!(sending(bf16()).coding_traffic(), 12 + 6);
    assert_eq!(sending(int8(5, 2, 3)).coding_traffic(), 20 + 5 + 12);
}

#[test]
fn compressed_values_that_do_not_fit_their_scales_are_refused() {
    let refused = |packed: Packed| {
        let bytes = encode_envelope(&vec![sending(packed)], WireLimits::default()).unwrap();
        decode_envelope::<PeerMessage>(&bytes, WireLimits::default())
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(refused(int8(256, 256, 1)), None);
    assert!(refused(int8(257, 256, 1)).unwrap().contains("blocks of 256"));
    assert!(refused(int8(256, u32::MAX, 2)).is_some());
    assert!(refused(Packed::Bf16(Tensor::full([3], 1f32))).unwrap().contains("to be one of bf16"));
    let Packed::Int8 { scales, block, .. } = int8(3, 1, 3) else {
        unreachable!("it was just made")
    };
    assert!(refused(Packed::Int8 { values: scales.clone(), scales, block }).is_some());
}

/// Handles a message as a worker does, until it is refused.
fn make_ready(message: &PeerMessage) {
    if let PeerMessage::Worker(WorkerMessage::Tensors { arrivals, .. }) = message {
        let _values = unpacked(arrivals.clone());
    }
    if let PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) = message {
        let variables = (0..order.partition.variables.len() as u32).map(VariableId).collect();
        let variables = Bound { variables, epoch: Epoch(1) };
        let _ready = Plan::new(Arc::clone(&order.partition), variables, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn messages_with_wrong_bytes_are_refused_or_can_be_made_ready(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        thread_local! { static ENCODED: Vec<Vec<u8>> = messages().into_iter().map(|message| {
            encode_envelope(&vec![message], WireLimits::default()).unwrap()
        }).collect() }
        let mut bytes = ENCODED.with(|encoded| which.get(encoded).clone());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(messages) = decode_envelope::<PeerMessage>(&bytes, WireLimits::default()) {
            messages.iter().for_each(make_ready);
        }
    }
}
