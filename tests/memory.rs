//! The memory of servers does not grow with the steps that they have run, with the sessions that
//! have come and gone, with the lives of a task beside them, nor with messages that nobody wants;
//! that of a training does not grow with the files that it reads.
//!
//! A binary of its own, because the allocator is the process's. It counts the bytes that are in use
//! when a step or a session has ended: the servers' and this test's own, which keeps nothing.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

#[path = "it/support/ear.rs"]
mod ear;
#[path = "it/support/peer_messages.rs"]
mod peer_messages;
#[path = "it/support/tfrecord.rs"]
mod tfrecord;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ear::Ear;
use peer_messages::{assert_each_kind, of_a_chief, of_a_parameter_server};
use trainyard::clock::WallClock;
use trainyard::cluster::{ClusterSpec, LocalDevice, TaskName};
use trainyard::experiment::Experiment;
use trainyard::partition::{CrossingId, Partition, Receive, ValueSlot};
use trainyard::prelude::*;
use trainyard::runtime::{
    ComputeModel, Encoding, GraphHandle, GraphOrder, MasterMessage, OwnValuesAnswer, Packed,
    ParameterServerMessage, PeerMessage, Processor, ProgramMessage, ServerDef, ServerWorld, StepId,
    StepOrder, WorkerMessage,
};
use trainyard::sync::Leaving;
use trainyard::tensor::set_memory_limit;
use trainyard::transport::{Inbox, Loss, Messages, PeerId, Peers, Transport};
use trainyard::units::Bytes;

const STEPS: usize = 100_000;
const SESSIONS: usize = 1_000;
const LIVES: usize = 1_000;
const UNWANTED: usize = 5_000;
/// How many come before those that are measured: more than a server remembers of any.
const WARM_UP: usize = 1_100;
/// What queues and pools may still grow by once all is warm \[bytes\]: far below one byte a step,
/// and below eight a session or life.
const SLACK: i64 = 6_000;

static IN_USE: AtomicI64 = AtomicI64::new(0);
/// The most bytes that were in use at once.
static MOST: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, and how many bytes of it are in use.
struct Counting;

// SAFETY: all calls are handed to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() as i64;
        let in_use = IN_USE.fetch_add(size, Ordering::Relaxed) + size;
        MOST.fetch_max(in_use, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A network whose tasks may come and go: the others are told who has gone.
struct Network {
    tasks: Vec<TaskName>,
    inboxes: RefCell<Vec<Option<Rc<dyn Inbox<PeerMessage>>>>>,
}

struct End {
    network: Rc<Network>,
    local: PeerId,
}

impl Transport<PeerMessage> for End {
    fn peers(&self) -> &dyn Peers {
        self
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
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
        let others: Vec<_> = self.network.inboxes.borrow().iter().flatten().cloned().collect();
        for other in others {
            other.lost(self.local, Loss::Stopped);
        }
    }
}

impl Peers for End {
    fn local(&self) -> PeerId {
        self.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        let task = self.network.tasks.iter().position(|task| task == name)?;
        Some(PeerId(task as u32))
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.network.tasks[peer.0 as usize].clone()
    }
}

/// A cluster of a parameter server and a worker.
struct Cluster {
    spec: ClusterSpec,
    network: Rc<Network>,
    clock: Rc<WallClock>,
}

impl Cluster {
    fn new() -> Result<Self> {
        let spec = ClusterSpec::simulated([("ps", 1), ("worker", 1)])?;
        let tasks: Vec<TaskName> = spec.tasks().collect();
        let inboxes = RefCell::new(tasks.iter().map(|_| None).collect());
        let network = Rc::new(Network { tasks, inboxes });
        Ok(Self { spec, network, clock: Rc::new(WallClock::new()) })
    }

    /// A new life of a task.
    fn start(&self, job: &str) -> Result<Server> {
        self.start_sending(job, Encoding::Exact)
    }

    /// A new life of a task that encodes the values which its steps send.
    fn start_sending(&self, job: &str, encoding: Encoding) -> Result<Server> {
        let task = TaskName::new(job, 0);
        let local = self.network.tasks.iter().position(|name| *name == task);
        let local = PeerId(local.expect("it is a task of the cluster") as u32);
        let device: Rc<dyn ComputeModel> = Rc::new(Processor::default());
        let world = ServerWorld {
            transport: Rc::new(End { network: Rc::clone(&self.network), local }),
            encoding,
            clock: Rc::clone(&self.clock) as _,
            devices: [device].into(),
        };
        let server = Server::new(ServerDef { cluster: self.spec.clone(), task }, world);
        server.start()?;
        Ok(server)
    }
}

/// A model of one vector on the parameter server.
struct Model {
    graph: Graph,
    init: Target,
    nothing: Target,
    train: TrainOp,
}

impl Model {
    fn new(cluster: &Cluster) -> Result<Self> {
        let graph = Graph::new();
        let setter = ReplicaDeviceSetter::new(&cluster.spec);
        let train = graph.with_device_fn(setter, |g| {
            let w = g.variable("w", &g.zeros([100]))?;
            Adagrad::new(0.1).minimize(&w.read().square().sum(), &g.global_step()?)
        })?;
        let (init, nothing) = (graph.initializer(), graph.group("nothing", &[])?);
        Ok(Self { graph, init, nothing, train })
    }

    async fn session(&self, server: &Server, options: SessionOptions) -> Result<Session> {
        let session = Session::with_options(&server.target(), &self.graph, options).await?;
        session.run().target(&self.init).await?;
        Ok(session)
    }
}

/// By how many bytes the memory has grown over `count` times of `what`.
async fn growth(count: usize, mut what: impl AsyncFnMut() -> Result<()>) -> Result<i64> {
    for _ in 0..WARM_UP {
        what().await?;
    }
    let before = IN_USE.load(Ordering::Relaxed);
    for _ in 0..count {
        what().await?;
    }
    Ok(IN_USE.load(Ordering::Relaxed) - before)
}

/// What is left to do has been done: the actors have handled what they were sent.
async fn settled() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn of_steps() -> Result<Vec<(&'static str, i64)>> {
    let cluster = Cluster::new()?;
    let (_ps, worker, model) =
        (cluster.start("ps")?, cluster.start("worker")?, Model::new(&cluster)?);
    let session = model.session(&worker, SessionOptions::default()).await?;
    let nothing = growth(STEPS, async || session.run().target(&model.nothing).await.map(drop));
    let nothing = nothing.await?;
    let train = growth(STEPS, async || session.run().target(&model.train).await.map(drop)).await?;
    Ok(vec![("steps of nothing", nothing), ("training steps", train)])
}

async fn of_sessions(isolate_session_state: bool) -> Result<i64> {
    let cluster = Cluster::new()?;
    let (_ps, worker, model) =
        (cluster.start("ps")?, cluster.start("worker")?, Model::new(&cluster)?);
    let options = SessionOptions { isolate_session_state, ..SessionOptions::default() };
    growth(SESSIONS, async || {
        let session = model.session(&worker, options.clone()).await?;
        session.run().target(&model.train).await?;
        session.close();
        settled().await;
        Ok(())
    })
    .await
}

async fn of_lives() -> Result<i64> {
    let cluster = Cluster::new()?;
    let (_ps, model) = (cluster.start("ps")?, Model::new(&cluster)?);
    growth(LIVES, async || {
        let worker = cluster.start("worker")?;
        let session = model.session(&worker, SessionOptions::default()).await?;
        session.run().target(&model.train).await?;
        drop(session);
        worker.stop();
        settled().await;
        Ok(())
    })
    .await
}

/// Messages of a worker that nobody has asked for, each of another step, graph or worker.
fn unwanted(number: u64) -> Vec<PeerMessage> {
    let (master, unknown) = (7, 1000 + number);
    let step = |master| StepId { master, number, trains: true };
    let graph = |master| GraphHandle { master, number };
    let value = || Some(Tensor::full([100], 1f32));
    let tensors = |master| WorkerMessage::Tensors {
        step: step(master),
        devices: [0, 1].map(LocalDevice::cpu).into_iter().collect(),
        arrivals: [(CrossingId(number as u32), value().map(Into::into))].into_iter().collect(),
    };
    let register = |master| {
        let partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
        let (graph, partition) = (graph(master), Arc::new(partition));
        let (scope, is_again, functions) = (None, false, None);
        let (counted_by, training) = (None, 0);
        let order =
            GraphOrder { graph, partition, scope, is_again, functions, counted_by, training };
        WorkerMessage::RegisterGraph(order)
    };
    let run = |master| {
        WorkerMessage::RunGraph(StepOrder {
            step: step(master),
            graph: graph(master),
            feeds: value().into_iter().collect(),
            origin: None,
            is_traced: false,
            next: None,
        })
    };
    let done = MasterMessage::GraphDone {
        step: step(unknown),
        graph: graph(unknown),
        outcome: Ok(value().into_iter().collect()),
        computed: None,
    };
    let places = vec![(number.to_string(), TaskName::new("ps", 0))];
    vec![
        register(master).into(),
        run(master).into(),
        tensors(master).into(),
        WorkerMessage::AbortStep(step(master)).into(),
        WorkerMessage::DeregisterGraphs { graphs: vec![graph(master)], scope: None }.into(),
        register(unknown).into(),
        run(unknown).into(),
        tensors(unknown).into(),
        WorkerMessage::AbortStep(step(unknown)).into(),
        done.into(),
        MasterMessage::GraphRegistered { graph: graph(unknown), outcome: Ok(()) }.into(),
        ParameterServerMessage::Leave { worker: number as u32, why: Leaving::Done, training: 1 }
            .into(),
        ProgramMessage::AskForPlaces.into(),
        ProgramMessage::WatchCheckpoints.into(),
        ProgramMessage::CheckpointSaved.into(),
        ProgramMessage::AskForOwnValues { count: number }.into(),
        ProgramMessage::AskForRestoredValues.into(),
        ProgramMessage::OwnValues(OwnValuesAnswer::Nothing).into(),
        ProgramMessage::Places(places).into(),
    ]
}

async fn of_unwanted_messages() -> Result<i64> {
    let cluster = Cluster::new()?;
    let _ps = cluster.start("ps")?;
    let inbox = cluster.network.inboxes.borrow()[0].clone().expect("it has started");
    let mut number = 0;
    let of_worker = unwanted(number).into_iter().chain(of_a_chief(number));
    assert_each_kind(&of_worker.chain(of_a_parameter_server(0)).collect::<Vec<_>>());
    growth(UNWANTED, async || {
        inbox.deliver(PeerId(1), unwanted(number));
        settled().await;
        inbox.deliver(PeerId(1), of_a_chief(number));
        settled().await;
        // As if it was another parameter server.
        inbox.deliver(PeerId(0), of_a_parameter_server(number as u32).into());
        number += 1;
        settled().await;
        Ok(())
    })
    .await
}

/// One test: what another does at the same time would be counted, too, and what is done to report
/// its end.
#[test]
fn memory_is_constant_over_steps_sessions_and_messages_and_bounded_over_a_large_file()
-> std::io::Result<()> {
    stays_constant_over_steps_sessions_lives_and_unwanted_messages();
    stays_within_a_tenth_of_the_file_of_a_training()?;
    is_taken_from_buffers_kept_for_later_before_it_is_refused();
    run_in_a_system(fails_the_step_of_an_update_that_asks_for_too_much_and_leaves_its_variable());
    run_in_a_system(fails_the_step_of_a_packed_value_that_asks_for_too_much());
    run_in_a_system(fails_the_step_of_a_value_that_there_is_no_memory_to_pack());
    Ok(())
}

/// Makes tensors of sizes that use no buffer of one another, each alone within the limit.
fn is_taken_from_buffers_kept_for_later_before_it_is_refused() {
    set_memory_limit(Bytes(64 << 20));
    for megabytes in [40, 20, 10, 60, 5] {
        let tensor = Tensor::zeros(DType::F32, [megabytes << 18]);
        assert_eq!(tensor.bytes().len(), megabytes << 20);
    }
}

fn run_in_a_system<T>(work: impl Future<Output = Result<T>>) -> T {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread().build().expect("a thread can have a runtime")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(work).expect("the steps run")
}

/// The variable, its gradient and the copy that the update makes, since its value is held, are more
/// than there is.
async fn fails_the_step_of_an_update_that_asks_for_too_much_and_leaves_its_variable() -> Result<()>
{
    const SIZE: usize = 6_000_000;
    let cluster = Cluster::new()?;
    let (_ps, worker, g) = (cluster.start("ps")?, cluster.start("worker")?, Graph::new());
    let (w, gradient, train) = g.with_device("/job:ps", |g| {
        let w = g.variable("w", &g.zeros([SIZE]))?;
        let gradient = g.placeholder("gradient", DType::F32, [Some(SIZE)])?;
        let pairs = [(w.clone(), gradient.clone())];
        let train = GradientDescent::new(1.0).apply_gradients(&pairs, &g.global_step()?)?;
        Ok((w, gradient, train))
    })?;
    let session = Session::new(&worker.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    let ones = Tensor::full([SIZE], 1f32);
    let held = session.run().fetch(&w.read()).await?[0].clone();
    let refused = session.run().feed(&gradient, ones.clone()).target(&train).await;
    let refused = refused.expect_err("there is no memory for the copy");
    assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
    assert_eq!(refused.task, Some(TaskName::new("ps", 0)), "{refused}");
    assert!(session.run().fetch(&w.read()).await?[0] == held, "it is as it was");
    drop(held);
    session.run().feed(&gradient, ones).target(&train).await?;
    let first = session.run().fetch(&w.read()).await?[0].values::<f32>()?[0];
    assert_eq!(first, -1.0);
    Ok(())
}

/// The value comes after the order to run its step, and before it.
async fn fails_the_step_of_a_packed_value_that_asks_for_too_much() -> Result<()> {
    let cluster = Cluster::new()?;
    let (_ps, ear) = (cluster.start("ps")?, Rc::new(Ear::default()));
    cluster.network.inboxes.borrow_mut()[1] = Some(Rc::clone(&ear) as Rc<dyn Inbox<PeerMessage>>);
    let inbox = cluster.network.inboxes.borrow()[0].clone().expect("it has started");
    let receive = Receive {
        crossing: CrossingId(0),
        slot: Some(ValueSlot(0)),
        before: [].into_iter().collect(),
        is_answer: false,
        from: TaskName::new("worker", 0),
        name: "value".into(),
    };
    let partition = Partition {
        slots: 1,
        fetches: vec![(0, ValueSlot(0))],
        receives: vec![receive],
        ..Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0))
    };
    let graph = GraphHandle { master: 7, number: 0 };
    let (partition, scope, is_again, functions) = (Arc::new(partition), None, false, None);
    let (counted_by, training) = (None, 0);
    let order = GraphOrder { graph, partition, scope, is_again, functions, counted_by, training };
    let register = WorkerMessage::RegisterGraph(order);
    let step = |number| StepId { master: 7, number, trains: false };
    let run = |number| {
        WorkerMessage::RunGraph(StepOrder {
            step: step(number),
            graph,
            feeds: [].into_iter().collect(),
            origin: None,
            is_traced: false,
            next: None,
        })
    };
    let packed = Packed::Bf16(Tensor::zeros(DType::BF16, [20 << 20])); // 40 MiB that become 80
    let value = |number| WorkerMessage::Tensors {
        step: step(number),
        devices: [LocalDevice::cpu(0)].into_iter().collect(),
        arrivals: [(CrossingId(0), Some(packed.clone().into()))].into_iter().collect(),
    };
    let sent = [register, run(0), value(0), value(1), run(1)];
    for message in sent {
        inbox.deliver(PeerId(1), vec![message.into()]);
        settled().await;
    }
    let answers = ear.0.take();
    let codes = answers.iter().filter_map(|answer| match answer {
        MasterMessage::GraphDone { step, outcome: Err(error), .. } => {
            Some((step.number, error.code))
        }
        _ => None,
    });
    let exhausted = Code::ResourceExhausted;
    assert!(codes.eq([(0, exhausted), (1, exhausted)]), "{answers:?}");
    Ok(())
}

/// The value is packed on its way from the parameter server to the worker.
async fn fails_the_step_of_a_value_that_there_is_no_memory_to_pack() -> Result<()> {
    const SIZE: usize = 4_000_000;
    let cluster = Cluster::new()?;
    let _ps = cluster.start_sending("ps", Encoding::Bf16)?;
    let (worker, g) = (cluster.start("worker")?, Graph::new());
    let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([SIZE])))?;
    let mean = g.with_device("/job:worker", |_| Ok(w.read().mean()))?;
    let session = Session::new(&worker.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    let rest = Tensor::zeros(DType::F32, [12_000_000]); // 3 MB are left for 8 MB
    let refused = session.run().fetch(&mean).await.expect_err("there is no memory to pack it");
    assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
    assert_eq!(refused.task, Some(TaskName::new("ps", 0)), "{refused}");
    drop(rest);
    assert_eq!(session.run().fetch(&mean).await?.scalar::<f32>(0)?, 0.0, "both live on");
    Ok(())
}

fn stays_constant_over_steps_sessions_lives_and_unwanted_messages() {
    let grown = async {
        let mut grown = of_steps().await?;
        grown.push(("sessions", of_sessions(false).await?));
        grown.push(("sessions with state of their own", of_sessions(true).await?));
        grown.push(("lives of a worker", of_lives().await?));
        grown.push(("messages that nobody wants", of_unwanted_messages().await?));
        Ok::<_, Error>(grown)
    };
    let grown = run_in_a_system(grown);
    let too_much: Vec<_> = grown.iter().filter(|(_, bytes)| *bytes > SLACK).collect();
    assert!(too_much.is_empty(), "more than {SLACK} bytes: {too_much:?} of {grown:?}");
}

fn stays_within_a_tenth_of_the_file_of_a_training() -> std::io::Result<()> {
    const LIMIT: i64 = 3_000_000;
    const SAMPLES: u64 = 120_000;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory_streamed");
    std::fs::create_dir_all(&folder)?;
    let mut file = BufWriter::new(std::fs::File::create(folder.join("train"))?);
    for sample in 0..SAMPLES {
        let record = tfrecord::framed(&tfrecord::example(&[0.5; 64], (sample % 10) as i32));
        file.write_all(&record)?;
    }
    drop(file);
    std::fs::write(folder.join("test"), tfrecord::framed(&tfrecord::example(&[0.5; 64], 0)))?;
    assert!(std::fs::metadata(folder.join("train"))?.len() as i64 > 10 * LIMIT);
    let folder = folder.display();
    let text = format!(
        "memory_limit = '{LIMIT}B'\ncluster = {{ ps = 1, worker = 1 }}\n\
         stop.steps = {}\nrun = [{{ name = 'only', mode = 'sync' }}]\n[program]\nbatch = 500\n\
         dataset = {{ tfrecord = '{folder}/train', test = '{folder}/test', features = 'x', \
         label = 'y', shape = [64], classes = 10, shuffle = 1000 }}\n",
        SAMPLES / 500
    );
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let report = Experiment::parse(text).unwrap().simulate(trainyard::training::train).unwrap();
    let most = MOST.load(Ordering::Relaxed) - before;
    assert_eq!(report.run("only").unwrap().global_steps, SAMPLES / 500);
    assert!(most < LIMIT, "{most} bytes at once");
    std::fs::remove_file(folder.to_string() + "/train")
}
