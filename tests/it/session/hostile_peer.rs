//! A server stands whatever a peer of its cluster sends: what trainings send, with other bytes, in
//! any order. It answers its own sessions afterwards.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use trainyard::clock::WallClock;
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::graph::{
    ConditionalAccumulator, FifoQueue, IndexedSlices, Op, Reduction, Replica, ResourceAction,
    SparseConditionalAccumulator,
};
use trainyard::optimizer::{Adam, IntoOptimizer};
use trainyard::partition::{Node, Partition};
use trainyard::prelude::*;
use trainyard::runtime::{
    ComputeModel, GraphHandle, MasterMessage, ParameterServerMessage, PeerMessage, Processor,
    ServerDef, ServerWorld, WorkerMessage,
};
use trainyard::sync::Mode;
use trainyard::tensor::Shape;
use trainyard::transport::wire::{WireLimits, decode_envelope, encode_envelope};
use trainyard::transport::{Inbox, Loss, Messages, PeerId, Transport};

use crate::support::fixture::on_actix;

const PS: PeerId = PeerId(0);
const WORKER: PeerId = PeerId(1);
const LIMITS: WireLimits = WireLimits { control: 1 << 20, tensor: 1 << 16, envelope: 1 << 18 };

/// A network of a parameter server and a worker that keeps, as bytes, what the worker sends.
#[derive(Default)]
struct Network {
    inboxes: RefCell<[Option<Rc<dyn Inbox<PeerMessage>>>; 2]>,
    sent: RefCell<Vec<Vec<u8>>>,
}

struct End {
    network: Rc<Network>,
    local: PeerId,
}

fn tasks() -> [TaskName; 2] {
    [TaskName::new("ps", 0), TaskName::new("worker", 0)]
}

impl Transport<PeerMessage> for End {
    fn local(&self) -> PeerId {
        self.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        tasks().iter().position(|task| task == name).map(|task| PeerId(task as u32))
    }

    fn name(&self, peer: PeerId) -> TaskName {
        tasks()[peer.0 as usize].clone()
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        for message in messages.iter().filter(|_| self.local == WORKER) {
            let bytes = encode_envelope(&vec![message.clone()], LIMITS).unwrap();
            self.network.sent.borrow_mut().push(bytes);
        }
        let inbox = self.network.inboxes.borrow()[to.0 as usize].clone();
        if let Some(inbox) = inbox {
            inbox.deliver(self.local, messages);
        }
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.network.inboxes.borrow_mut()[self.local.0 as usize] = Some(inbox);
    }

    fn close(&self) {
        self.network.inboxes.borrow_mut()[self.local.0 as usize] = None;
    }
}

impl Network {
    fn start(self: &Rc<Self>, local: PeerId) -> Server {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let device: Rc<dyn ComputeModel> = Rc::new(Processor::default());
        let world = ServerWorld {
            transport: Rc::new(End { network: Rc::clone(self), local }),
            clock: Rc::new(WallClock::new()),
            devices: [device].into(),
        };
        let task = tasks()[local.0 as usize].clone();
        let server = Server::new(ServerDef { cluster, task }, world);
        server.start().unwrap();
        server
    }
}

/// A step of a training in `mode`, of a dense layer and of an embedding, with a fence.
async fn train(worker: &Server, mode: Mode) -> Result<()> {
    let replica = Replica { worker: 0, workers: 2, mode };
    let g = Graph::new();
    let (train, fences) = g.with_device("/job:ps/task:0", |g| {
        let table = g.variable("table", &g.constant(Tensor::full([4, 2], 1f32)))?;
        let weights = g.variable("weights", &g.constant(Tensor::full([2, 2], 1f32)))?;
        let rows = table.gather(&g.constant(Tensor::new([2], &[1i64, 3])?))?;
        let loss = rows.matmul(&weights.read())?.relu().square().mean();
        let optimizer = Adam::new(0.1).coordinated(mode, replica.worker, replica.workers);
        let train = optimizer.minimize(&loss, &g.global_step()?)?;
        Ok((train, [g.fence(replica)?, g.lift_fence(replica)?]))
    })?;
    let session = Session::new(&worker.target(), &g).await?;
    session.run().target(&g.initializer()).await?;
    let step = tokio::time::timeout(Duration::from_millis(50), async {
        session.run().target(train.as_ref()).await?;
        session.run().target(&fences[0]).await?;
        session.run().target(&fences[1]).await
    });
    let _waits_for_the_other_worker = step.await;
    session.close();
    Ok(())
}

/// A step with each operation on a queue, an accumulator and a sparse accumulator.
async fn use_resources(worker: &Server) -> Result<()> {
    let g = Graph::new();
    let targets = g.with_device("/job:ps/task:0", |g| {
        let components = [(DType::I64, Shape::SCALAR), (DType::F32, Shape::from([2]))];
        let queue = FifoQueue::new(g, "queue", Some(8), &components)?;
        let (one, point) = (g.constant(1i64), g.constant(Tensor::full([2], 1f32)));
        let ones = g.constant(Tensor::full([3], 1i64));
        let points = g.constant(Tensor::full([3, 2], 1f32));
        let dense = ConditionalAccumulator::new(g, "dense", DType::F32, [2], Reduction::Mean)?;
        let of_rows = SparseConditionalAccumulator::new(g, "rows", [4, 2], Reduction::Sum)?;
        let slices = IndexedSlices::new(&points, &ones, 4)?;
        let number = g.constant(1i32);
        let mut targets = vec![
            queue.enqueue(&[&one, &point])?,
            queue.enqueue_many(&[&ones, &points])?,
            dense.apply_grad(&point, &one)?,
            dense.set_global_step(&one)?,
            of_rows.apply_grad(&slices, &one)?,
        ];
        let outputs = [
            queue.dequeue().remove(0),
            queue.dequeue_many(2).remove(0),
            queue.dequeue_up_to(1).remove(1),
            queue.size(),
            dense.take_grad(&number)?,
            dense.num_accumulated(),
            of_rows.take_grad(&number)?.values().clone(),
        ];
        targets.extend(outputs.iter().map(|output| output.identity().target()));
        targets.push(queue.close(true));
        Ok(targets)
    })?;
    let session = Session::new(&worker.target(), &g).await?;
    for target in &targets {
        let step = session.run().target(target);
        let _some_wait =
            tokio::time::timeout(Duration::from_millis(20), async { step.await }).await;
    }
    Session::reset(&worker.target(), &[]).await
}

/// What a worker's programs send to a parameter server, and what they could send besides.
fn corpus() -> Vec<Vec<u8>> {
    let network = Rc::new(Network::default());
    on_actix(async {
        let (_ps, worker) = (network.start(PS), network.start(WORKER));
        for mode in [
            Mode::Async,
            Mode::Sync { backups: 0, cancel: false },
            Mode::Sync { backups: 1, cancel: true },
            Mode::DelayCompensated { lambda: 0.1 },
        ] {
            train(&worker, mode).await?;
        }
        use_resources(&worker).await
    });
    let mut all = network.sent.take();
    let besides = [
        ParameterServerMessage::Leave { worker: 0 },
        ParameterServerMessage::TrainingOver,
        ParameterServerMessage::AskForPlaces,
        ParameterServerMessage::Places(vec![("v".to_owned(), TaskName::new("ps", 0))]),
    ];
    let besides = besides.map(PeerMessage::from);
    all.extend(besides.map(|message| encode_envelope(&vec![message], LIMITS).unwrap()));
    all
}

/// Whether a graph asks for more memory than this test has: those who may run graphs may do that.
fn is_large(message: &PeerMessage) -> bool {
    let PeerMessage::Worker(WorkerMessage::RegisterGraph { partition, .. }) = message else {
        return false;
    };
    let text = format!("{:?} {:?}", partition.nodes, partition.variables);
    text.split(|c: char| !c.is_ascii_digit()).any(|number| number.len() > 5)
}

/// Sends `envelopes` from the worker to a new parameter server, whose own session then takes a
/// step.
fn stands(envelopes: &[Vec<u8>]) {
    on_actix(async {
        let network = Rc::new(Network::default());
        let ps = network.start(PS);
        let inbox = network.inboxes.borrow()[0].clone().expect("it has started");
        for bytes in envelopes {
            let Ok(messages) = decode_envelope::<PeerMessage>(bytes, LIMITS) else { continue };
            if messages.iter().any(is_large) {
                continue;
            }
            inbox.deliver(WORKER, messages);
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
        let g = Graph::new();
        let one = g.constant(1f32);
        let v = g.with_container("its own", |g| g.variable("v", &one))?;
        let session = Session::new(&ps.target(), &g).await?;
        let step = async {
            session.run().target(&g.initializer()).await?;
            session.run().target(&v.assign_add(&one)?).await?;
            session.run().fetch(&v.read()).await?.scalar::<f32>(0)
        };
        let sum = tokio::time::timeout(Duration::from_secs(5), step).await;
        assert_eq!(sum.expect("no actor has died")?, 2.0);
        Ok(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn a_server_stands_whatever_messages_a_peer_sends(
        sent in prop::collection::vec(
            (any::<Index>(), prop::collection::vec((any::<Index>(), any::<u8>()), 0..3)),
            1..24,
        ),
    ) {
        thread_local! { static CORPUS: Vec<Vec<u8>> = corpus() }
        let changed = |(which, changes): (Index, Vec<(Index, u8)>)| {
            let mut bytes = CORPUS.with(|corpus| which.get(corpus).clone());
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        };
        stands(&sent.into_iter().map(changed).collect::<Vec<_>>());
    }
}

#[test]
fn a_server_stands_if_everything_is_sent_twice_and_backwards() {
    let all = corpus();
    assert!(all.len() > 50, "{} messages", all.len());
    stands(&[all.clone(), all.clone(), all.into_iter().rev().collect()].concat());
}

/// The answers of a new parameter server to what a worker sends.
fn answers(sent: Vec<PeerMessage>) -> Vec<MasterMessage> {
    #[derive(Default)]
    struct Ear(RefCell<Vec<MasterMessage>>);
    impl Inbox<PeerMessage> for Ear {
        fn deliver(&self, _: PeerId, messages: Messages<PeerMessage>) {
            let answer = |message| match message {
                PeerMessage::Master(answer) => Some(answer),
                _ => None,
            };
            self.0.borrow_mut().extend(messages.into_iter().filter_map(answer));
        }
        fn lost(&self, _: PeerId, _: Loss) {}
    }
    let ear = Rc::new(Ear::default());
    on_actix(async {
        let network = Rc::new(Network::default());
        let _ps = network.start(PS);
        network.inboxes.borrow_mut()[1] = Some(Rc::clone(&ear) as Rc<dyn Inbox<PeerMessage>>);
        let inbox = network.inboxes.borrow()[0].clone().expect("it has started");
        for message in sent {
            inbox.deliver(WORKER, vec![message]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    });
    ear.0.take()
}

/// What a worker's programs send, with the first graph that `spoil` changes.
fn spoilt(spoil: impl Fn(&mut Partition) -> Option<()>) -> (GraphHandle, Vec<PeerMessage>) {
    let mut changed = None;
    let mut all = Vec::new();
    for bytes in corpus() {
        all.extend(decode_envelope::<PeerMessage>(&bytes, LIMITS).unwrap());
    }
    for message in &mut all {
        let PeerMessage::Worker(WorkerMessage::RegisterGraph { graph, partition, .. }) = message
        else {
            continue;
        };
        if changed.is_none() && spoil(Arc::make_mut(partition)).is_some() {
            changed = Some(*graph);
        }
    }
    (changed.expect("one of the graphs is of this kind"), all)
}

/// Asserts that the step of a graph which `spoil` changes fails with `words`, and that the server
/// has answered everything else.
#[track_caller]
fn assert_fails(words: &str, spoil: impl Fn(&mut Partition) -> Option<()>) {
    let (spoilt, sent) = spoilt(spoil);
    let answers = answers(sent);
    let errors: Vec<String> = answers
        .iter()
        .filter_map(|answer| match answer {
            MasterMessage::GraphDone { graph, outcome: Err(error), .. } if *graph == spoilt => {
                Some(error.to_string())
            }
            _ => None,
        })
        .collect();
    assert!(errors.iter().any(|error| error.contains(words)), "no `{words}` in {errors:?}");
    let last = answers.last().expect("it answers");
    assert!(matches!(last, MasterMessage::ResetDone { .. }), "{last:?}");
}

fn find<'a>(partition: &'a mut Partition, kind: &str) -> Option<&'a mut Node> {
    partition.nodes.iter_mut().find(|node| node.op.kind().contains(kind))
}

#[test]
fn operations_on_state_whose_inputs_do_not_fit_fail_their_step_alone() {
    assert_fails("rows of", |partition| {
        let sparse = find(partition, "SparseApply")?.variables.clone();
        for variable in sparse {
            let spec = &mut partition.variables[variable as usize];
            (spec.shape, spec.container) = (Shape::SCALAR, "of its own".into());
        }
        Some(())
    });
    assert_fails("an f32 scalar as learning rate", |partition| {
        let rate = find(partition, "ApplyAdam")?.inputs[0];
        let given = partition.nodes.iter_mut().find(|node| node.first_output == rate)?;
        given.op = Op::Const(Tensor::new([0], &[0f32; 0]).ok()?);
        Some(())
    });
    assert_fails("no inputs", |partition| {
        let Op::OnResource { action, .. } = &mut find(partition, "QueueDequeueV2")?.op else {
            return None;
        };
        *action = ResourceAction::NumAccumulated;
        Some(())
    });
}

#[test]
fn a_step_that_is_ordered_twice_fails_and_the_server_stands() {
    let (_, sent) = spoilt(|_| Some(()));
    let twice = sent.into_iter().flat_map(|message| {
        let is_run = matches!(message, PeerMessage::Worker(WorkerMessage::RunGraph { .. }));
        std::iter::repeat_n(message, if is_run { 2 } else { 1 })
    });
    let answers = answers(twice.collect());
    let is_refusal = |answer: &MasterMessage| match answer {
        MasterMessage::GraphDone { outcome: Err(error), .. } => error.message.contains("twice"),
        _ => false,
    };
    assert!(answers.iter().any(is_refusal), "{answers:?}");
}

#[test]
fn values_orders_and_departures_of_others_are_not_taken() {
    let (_, sent) = spoilt(|_| Some(()));
    let as_other = |message: PeerMessage| match message {
        PeerMessage::Worker(WorkerMessage::RunGraph { step, graph, feeds, origin }) => {
            let graph = GraphHandle { master: graph.master + 1, ..graph };
            Some(WorkerMessage::RunGraph { step, graph, feeds, origin }.into())
        }
        _ => None,
    };
    let orders: Vec<PeerMessage> = sent.into_iter().filter_map(as_other).collect();
    assert!(!orders.is_empty() && answers(orders).is_empty());
}
