//! Servers over QUIC do what servers in one process do, to the last bit.

use std::rc::Rc;
use std::time::Duration;

use trainyard::clock::WallClock;
use trainyard::cluster::ClusterSpec;
use trainyard::optimizer::TrainOp;
use trainyard::prelude::*;
use trainyard::runtime::{Encoding, PeerMessage, Processor, ServerDef, ServerWorld};
use trainyard::sync::Mode;
use trainyard::transport::Quic;

use crate::support::fixture::{both, cluster, matrix, on_actix, quic_network};

/// Started servers of `ps` and `worker` tasks, the parameter servers first, and their ends of the
/// network.
pub(crate) async fn quic_cluster(
    ps: usize,
    worker: usize,
) -> (Vec<Server>, Vec<Rc<Quic<PeerMessage>>>) {
    servers(quic_network(&[("ps", ps), ("worker", worker)]).await)
}

/// Started servers of all tasks of a network.
pub(crate) fn servers(
    (cluster, ends): (ClusterSpec, Vec<Rc<Quic<PeerMessage>>>),
) -> (Vec<Server>, Vec<Rc<Quic<PeerMessage>>>) {
    let clock = Rc::new(WallClock::new());
    let server = |(task, end): (_, &Rc<Quic<PeerMessage>>)| {
        let devices = [Rc::new(Processor::default()) as Rc<_>].into();
        let world = ServerWorld {
            transport: Rc::clone(end) as Rc<_>,
            encoding: Encoding::Exact,
            clock: Rc::clone(&clock) as Rc<_>,
            devices,
        };
        let server = Server::new(ServerDef { cluster: cluster.clone(), task }, world);
        server.start().unwrap();
        server
    };
    let servers = cluster.tasks().zip(&ends).map(server).collect();
    (servers, ends)
}

pub(crate) async fn stop(servers: Vec<Server>, ends: Vec<Rc<Quic<PeerMessage>>>) -> Result<()> {
    servers.iter().for_each(Server::stop);
    for end in &ends {
        end.shut_down(Duration::from_secs(5)).await;
    }
    Ok(())
}

#[test]
fn every_task_sends_to_every_other() {
    on_actix(async {
        let (servers, ends) = quic_cluster(1, 2).await;
        for server in &servers {
            let g = Graph::new();
            let session = Session::new(&server.target(), &g).await?;
            for (i, from) in servers.iter().enumerate() {
                for (k, to) in servers.iter().enumerate() {
                    let device = |server: &Server| server.devices().next().unwrap().to_string();
                    let sent =
                        g.with_device(&device(from), |g| Ok(g.constant(i as f32).identity()))?;
                    let sum =
                        g.with_device(&device(to), |g| sent.add(&g.constant(10.0 * k as f32)))?;
                    assert_eq!(
                        session.run().fetch(&sum).await?.scalar::<f32>(0)?,
                        i as f32 + 10.0 * k as f32
                    );
                }
            }
        }
        stop(servers, ends).await
    });
}

/// What is trained: the loss of samples \[rows, 64\] and their labels, and what applies its
/// gradient.
pub(super) type Model = fn(&Output, &Output) -> Result<(Output, Optimizer), GraphError>;

fn softmax(x: &Output, y: &Output) -> Result<(Output, Optimizer), GraphError> {
    let loss = sparse_softmax_cross_entropy(&dense(x, 10)?, y)?.mean();
    Ok((loss, Adagrad::new(0.3).into()))
}

/// One worker's part of a synchronous training, with variables on the parameter server.
struct Replica {
    session: Session,
    x: Output,
    y: Output,
    loss: Output,
    train: TrainOp,
    weights: Vec<Output>,
    initializer: Target,
}

impl Replica {
    async fn new(servers: &[Server], worker: u32, model: Model) -> Result<Self> {
        let (server, g) = (&servers[1 + worker as usize], Graph::new());
        let setter = ReplicaDeviceSetter::new(&server.server_def().cluster);
        let setter =
            setter.worker_device(server.devices().next().unwrap().to_string().parse().unwrap());
        let (x, y, loss, train) = g.with_device_fn(setter, |g| {
            let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
            let y = g.placeholder("y", DType::I32, [None])?;
            let (loss, optimizer) = model(&x, &y)?;
            let coordinated =
                optimizer.coordinated(Mode::Sync { backups: 0, cancel: false }, worker, 2);
            let train = coordinated.minimize(&loss, &g.global_step()?)?;
            Ok((x, y, loss, train))
        })?;
        let weights = g.trainable_variables().iter().map(Variable::read).collect();
        let initializer = g.initializer();
        let session = Session::new(&server.target(), &g).await?;
        Ok(Self { session, x, y, loss, train, weights, initializer })
    }

    async fn step(&self, number: usize) -> Result<Tensor> {
        let value = |k: usize| ((number * 640 + k) * 37 % 101) as f32 / 50.0 - 1.0;
        let x: Vec<f32> = (0..640).map(value).collect();
        let y: Vec<i32> = x.chunks(64).map(|row| (row[0] * 4.9 + 5.0) as i32).collect();
        let run = self
            .session
            .run()
            .feed(&self.x, matrix(10, 64, &x))
            .feed(&self.y, Tensor::new([10], &y)?);
        Ok(run.target(&self.train).fetch(&self.loss).await?[0].clone())
    }
}

/// Ten steps of two workers: the losses, then the weights.
pub(super) async fn train(servers: &[Server], model: Model) -> Result<Vec<Tensor>> {
    let (a, b) = (Replica::new(servers, 0, model).await?, Replica::new(servers, 1, model).await?);
    a.session.run().target(&a.initializer).await?;
    let mut values = Vec::new();
    for step in 0..10 {
        let (one, other) = both(a.step(2 * step), b.step(2 * step + 1)).await;
        values.extend([one?, other?]);
    }
    for weight in &a.weights {
        values.push(a.session.run().fetch(weight).await?[0].clone());
    }
    assert!(values[18].item::<f32>()? < values[0].item::<f32>()?, "it learns");
    Ok(values)
}

#[test]
fn a_softmax_trains_to_the_same_bits_as_in_one_process() {
    on_actix(async {
        let in_one_process = train(&cluster(1, 2), softmax).await?;
        let (servers, ends) = quic_cluster(1, 2).await;
        assert_eq!(train(&servers, softmax).await?, in_one_process);
        stop(servers, ends).await
    });
}

#[test]
fn values_of_many_megabytes_and_errors_come_back() {
    on_actix(async {
        let (servers, ends) = quic_cluster(1, 1).await;
        let g = Graph::new();
        let large = g.with_device("/job:ps", |g| g.variable("large", &g.fill([1 << 21], 3f32)))?;
        let doubled = g.with_device("/job:worker", |_| large.read().add(&large.read()))?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let early = session.run().fetch(&doubled).await.unwrap_err();
        assert_eq!(early.code, Code::FailedPrecondition, "{early}");
        session.run().target(g.initializer()).await?;
        for _ in 0..3 {
            assert_eq!(session.run().fetch(&doubled).await?[0], Tensor::full([1 << 21], 6f32));
        }
        stop(servers, ends).await
    });
}
