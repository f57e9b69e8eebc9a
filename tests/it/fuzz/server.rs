//! A server and its peer: what trainings send, to be sent again with other bytes, in any order.

#[path = "../support/peer_messages.rs"]
mod peer_messages;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use trainyard::clock::WallClock;
use trainyard::cluster::{ClusterSpec, LocalDevice, TaskName};
use trainyard::graph::{
    ConditionalAccumulator, FifoQueue, IndexedSlices, Op, Reduction, Replica, ResourceAction,
    SparseConditionalAccumulator,
};
use trainyard::optimizer::{Adam, IntoOptimizer};
use trainyard::partition::{CrossingId, Partition};
use trainyard::prelude::*;
use trainyard::runtime::{
    ClientMessage, ComputeModel, Encoding, MasterMessage, OwnValuesAnswer, ParameterServerMessage,
    PeerMessage, Processor, ProgramMessage, Scope, ServerDef, ServerWorld, SessionAction,
    SessionAnswer, StepId, WorkerMessage,
};
use trainyard::sync::{Leaving, Mode};
use trainyard::tensor::Shape;
use trainyard::transport::wire::{WireLimits, decode_envelope, encode_envelope};
use trainyard::transport::{InMemoryNetwork, Inbox, Loss, Messages, PeerId, Peers, Transport};

use peer_messages::{assert_each_kind, of_a_chief, of_a_parameter_server};

pub(crate) const PS: PeerId = PeerId(0);
pub(crate) const WORKER: PeerId = PeerId(1);
pub(crate) const LIMITS: WireLimits =
    WireLimits { control: 1 << 20, tensor: 1 << 16, envelope: 1 << 18 };

/// A network of a parameter server and a worker that keeps, as bytes, what the worker sends.
pub(crate) struct Network {
    cluster: ClusterSpec,
    within: Rc<InMemoryNetwork<PeerMessage>>,
    sent: RefCell<Vec<Vec<u8>>>,
}

/// The worker's end: notes what is sent from it.
struct Noted {
    network: Rc<Network>,
    end: Rc<dyn Transport<PeerMessage>>,
}

fn tasks() -> [TaskName; 2] {
    [TaskName::new("ps", 0), TaskName::new("worker", 0)]
}

impl Transport<PeerMessage> for Noted {
    fn peers(&self) -> &dyn Peers {
        self.end.peers()
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        for message in &messages {
            let bytes = encode_envelope(&vec![message.clone()], LIMITS).unwrap();
            self.network.sent.borrow_mut().push(bytes);
        }
        self.end.send(to, messages);
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.end.listen(inbox);
    }

    fn close(&self) {
        self.end.close();
    }
}

impl Network {
    pub(crate) fn new() -> Rc<Self> {
        let cluster = ClusterSpec::simulated([("ps", 1), ("worker", 1)]).unwrap();
        let within = InMemoryNetwork::new(&cluster);
        Rc::new(Self { cluster, within, sent: RefCell::default() })
    }

    /// The end of `local`, from which nothing is noted.
    pub(crate) fn end(&self, local: PeerId) -> Rc<dyn Transport<PeerMessage>> {
        self.within.endpoint(&tasks()[local.0 as usize]).expect("it is a task of the cluster")
    }

    pub(crate) fn start(self: &Rc<Self>, local: PeerId) -> Server {
        let end = self.end(local);
        let transport: Rc<dyn Transport<PeerMessage>> = match local {
            WORKER => Rc::new(Noted { network: Rc::clone(self), end }),
            _ => end,
        };
        let device: Rc<dyn ComputeModel> = Rc::new(Processor::default());
        let world = ServerWorld {
            transport,
            encoding: Encoding::Exact,
            clock: Rc::new(WallClock::new()),
            devices: [device].into(),
        };
        let task = tasks()[local.0 as usize].clone();
        let server = Server::new(ServerDef { cluster: self.cluster.clone(), task }, world);
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
    session.run().target(g.initializer()).await?;
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

/// A session of the worker on the parameter server's master: it grows, runs, closes and resets.
async fn use_another_master(worker: &Server) -> Result<()> {
    let target = worker.target_of(&tasks()[0])?;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None])?;
    let v = g.variable("of_a_client", &g.constant(1f32))?;
    let sum = v.read().add(&x)?;
    let options = SessionOptions {
        device_filters: vec!["/job:ps".parse()?],
        operation_timeout: Some(Duration::from_secs(5)),
        ..SessionOptions::default()
    };
    let session = Session::with_options(&target, &g, options.clone()).await?;
    session.run().target(g.initializer()).await?;
    session.run().feed(&x, Tensor::full([2], 1f32)).fetch(&sum).await?;
    session.run().target(&v.assign_add(&g.constant(2f32))?).await?;
    session.close();
    Session::reset_with_options(&target, &["nowhere"], options).await.unwrap_err();
    Ok(())
}

/// What a worker's programs send to a parameter server, and what they could send besides.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let network = Network::new();
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
        use_another_master(&worker).await?;
        use_resources(&worker).await
    });
    let mut all = network.sent.take();
    let besides: [PeerMessage; 9] = [
        ParameterServerMessage::Leave { worker: 0, why: Leaving::Done, training: 1 }.into(),
        ParameterServerMessage::TrainingOver { training: 1 }.into(),
        ProgramMessage::AskForPlaces.into(),
        ProgramMessage::WatchCheckpoints.into(),
        ProgramMessage::CheckpointSaved.into(),
        ProgramMessage::AskForOwnValues { count: 1 }.into(),
        ProgramMessage::AskForRestoredValues.into(),
        ProgramMessage::OwnValues(OwnValuesAnswer::Nothing).into(),
        ProgramMessage::Places(vec![("v".to_owned(), TaskName::new("ps", 0))]).into(),
    ];
    let step = StepId { master: 7, number: 1, trains: true };
    let arrivals = [(CrossingId(0), Some(Tensor::full([100], 1f32).into()))];
    let (devices, arrivals) = ([LocalDevice::cpu(0)].into_iter(), arrivals.into_iter());
    let (devices, arrivals) = (devices.collect(), arrivals.collect());
    let tensors = WorkerMessage::Tensors { step, devices, arrivals };
    let besides = besides.into_iter().chain([tensors.into()]);
    let besides = besides.chain(of_a_chief(1)).chain(of_a_parameter_server(1));
    all.extend(besides.map(|message| encode_envelope(&vec![message], LIMITS).unwrap()));
    let decoded = all.iter().map(|bytes| decode_envelope::<PeerMessage>(bytes, LIMITS).unwrap());
    assert_each_kind(&decoded.flatten().collect::<Vec<_>>());
    all
}

/// `bytes` with another graph, if they register one: an operation, a variable, a coordination or an
/// edge of it is changed as `how` says.
pub(crate) fn spoilt(bytes: &[u8], how: [u8; 3]) -> Vec<u8> {
    let Ok(mut messages) = decode_envelope::<PeerMessage>(bytes, LIMITS) else {
        return bytes.to_vec();
    };
    for message in &mut messages {
        if let PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) = message {
            spoil(Arc::make_mut(&mut order.partition), how.map(usize::from));
        }
    }
    encode_envelope(&messages, LIMITS).unwrap_or_else(|_| bytes.to_vec())
}

fn spoil(partition: &mut Partition, [kind, a, b]: [usize; 3]) {
    let Partition { nodes, variables, receives, sends, feeds, .. } = partition;
    let nodes = Arc::make_mut(nodes);
    let (count, of_variables) = (nodes.len().max(1), variables.len().max(1));
    let other = nodes.get(b % count).cloned();
    let (Some(node), Some(other)) = (nodes.get_mut(a % count), other) else { return };
    let variable = variables.get_mut(a % of_variables);
    match kind % 10 {
        0 => node.op = other.op,
        1 => node.inputs = other.inputs,
        2 => node.variables = other.variables,
        3 => variable.into_iter().for_each(|spec| spec.shape = shape(b)),
        4 => variable.into_iter().for_each(|spec| spec.dtype = DTYPES[b % DTYPES.len()]),
        5 => node.op = Op::Const(Tensor::zeros(DTYPES[b % DTYPES.len()], shape(b / 4))),
        6 => node.op = in_mode(&node.op, b),
        7 => node.op = with_action(&node.op, b),
        8 if b % 2 == 0 => receives.truncate(a % 4),
        8 => sends.truncate(a % 4),
        _ => feeds.truncate(a % 2),
    }
}

const DTYPES: [DType; 4] = [DType::F32, DType::I64, DType::I32, DType::Bool];

fn shape(which: usize) -> Shape {
    let dims: [&[usize]; 6] = [&[], &[0], &[2], &[4, 2], &[3, 2], &[1, 1, 1, 1, 1, 1]];
    Shape::new(dims[which % dims.len()])
}

/// A coordination's operation, of another worker or in another mode.
fn in_mode(op: &Op, which: usize) -> Op {
    let modes = [
        Mode::Async,
        Mode::Sync { backups: 0, cancel: false },
        Mode::Sync { backups: 1, cancel: true },
        Mode::DelayCompensated { lambda: 0.1 },
        Mode::BoundedStaleness { slack: 1 },
    ];
    let mode = modes[which % modes.len()];
    let other = Replica { worker: which as u32 / 8 % 3, workers: 1 + which as u32 / 32, mode };
    match op {
        Op::ApplyGradient { rule, is_sparse, .. } => {
            let (rule, is_sparse) = (rule.clone(), *is_sparse);
            Op::ApplyGradient { rule, is_sparse, replica: Some(other) }
        }
        Op::CommitStep(_) if which.is_multiple_of(3) => Op::BeginStep(other),
        Op::BeginStep(_) | Op::CommitStep(_) => Op::CommitStep(other),
        Op::Fence(_) | Op::LiftFence(_) if which.is_multiple_of(3) => Op::LiftFence(other),
        Op::Fence(_) | Op::LiftFence(_) if which % 3 == 1 => Op::AwaitDepartures(other),
        Op::Fence(_) | Op::LiftFence(_) => Op::Fence(other),
        op => op.clone(),
    }
}

/// An operation on a queue or an accumulator that does something else.
fn with_action(op: &Op, which: usize) -> Op {
    let Op::OnResource { resource, .. } = op else { return op.clone() };
    let actions = [
        ResourceAction::Enqueue,
        ResourceAction::EnqueueMany,
        ResourceAction::Dequeue,
        ResourceAction::DequeueMany(which / 16),
        ResourceAction::DequeueUpTo(which / 16),
        ResourceAction::CloseQueue { cancel_pending_enqueues: which > 128 },
        ResourceAction::QueueSize,
        ResourceAction::ApplyGradient,
        ResourceAction::TakeGradient,
        ResourceAction::NumAccumulated,
        ResourceAction::SetGlobalStep,
    ];
    let action = actions[which % actions.len()].clone();
    Op::OnResource { resource: Arc::clone(resource), action }
}

/// Whether a graph asks for more memory than this test has: those who may run graphs may do that.
fn is_large(message: &PeerMessage) -> bool {
    let text = match message {
        PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) => {
            format!("{:?} {:?}", order.partition.nodes, order.partition.variables)
        }
        PeerMessage::Master(MasterMessage::Called(call)) => match &call.action {
            SessionAction::Extend { operations, .. } => format!("{operations:?}"),
            _ => return false,
        },
        _ => return false,
    };
    text.split(|c: char| !c.is_ascii_digit()).any(|number| number.len() > 5)
}

/// The worker's end: notes the session that the parameter server has begun last.
#[derive(Default)]
struct Begun(Cell<Option<Scope>>);

impl Inbox<PeerMessage> for Begun {
    fn deliver(&self, _: PeerId, messages: Messages<PeerMessage>) {
        for message in messages {
            let PeerMessage::Client(ClientMessage { outcome, .. }) = message else {
                continue;
            };
            if let Ok(SessionAnswer::Created(scope)) = outcome {
                self.0.set(Some(scope));
            }
        }
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, _: &(dyn Any + Send)) {}
}

impl Begun {
    /// A call for a session of another life of the server is one for the session of this.
    fn readdress(&self, message: &mut PeerMessage) {
        let PeerMessage::Master(MasterMessage::Called(call)) = message else { return };
        if let SessionAction::Extend { session, .. }
        | SessionAction::Run { session, .. }
        | SessionAction::Close { session } = &mut call.action
        {
            *session = self.0.get().unwrap_or(*session);
        }
    }
}

/// Who may send `messages`: from the worker, what only parameter servers say of the view is
/// refused.
fn sender(messages: &[PeerMessage]) -> PeerId {
    use ParameterServerMessage::{Flush, Flushed, Install, Stopping};
    let is_of_servers = |message: &PeerMessage| {
        let PeerMessage::ParameterServer(message) = message else { return false };
        matches!(message, Flush { .. } | Flushed { .. } | Install(_) | Stopping)
    };
    if messages.iter().any(is_of_servers) { PS } else { WORKER }
}

/// Sends `envelopes` from the worker, and from another parameter server, to a new parameter server,
/// whose own session then takes a step.
pub(crate) fn stands(envelopes: &[Vec<u8>]) {
    on_actix(async {
        let network = Network::new();
        let ps = network.start(PS);
        let begun = Rc::new(Begun::default());
        network.end(WORKER).listen(Rc::<Begun>::clone(&begun));
        for bytes in envelopes {
            let Ok(mut messages) = decode_envelope::<PeerMessage>(bytes, LIMITS) else { continue };
            if messages.iter().any(is_large) {
                continue;
            }
            messages.iter_mut().for_each(|message| begun.readdress(message));
            network.end(sender(&messages)).send(PS, messages);
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
        let g = Graph::new();
        let one = g.constant(1f32);
        let v = g.with_container("its own", |g| g.variable("v", &one))?;
        let session = Session::new(&ps.target(), &g).await?;
        let step = async {
            session.run().target(g.initializer()).await?;
            session.run().target(&v.assign_add(&one)?).await?;
            session.run().fetch(&v.read()).await?.scalar::<f32>(0)
        };
        let sum = tokio::time::timeout(Duration::from_secs(5), step).await;
        assert_eq!(sum.expect("no actor has died")?, 2.0);
        Ok(())
    });
}

/// Runs `program` on actix, within a minute. That of the other tests is in a file that the fuzzer
/// does not have: it takes this one by its path.
fn on_actix(program: impl Future<Output = Result<()>>) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), program).await };
    actix_rt::System::with_tokio_rt(runtime).block_on(limited).expect("it hangs").unwrap();
}
