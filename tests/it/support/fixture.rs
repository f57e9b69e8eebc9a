//! What the tests of sessions and servers share: a runtime with a limit on time, clusters, waiting
//! for several steps.

use std::future::{Future, IntoFuture};
use std::net::UdpSocket;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::prelude::*;
use trainyard::transport::{Authority, Payload, Quic, QuicConfig, RunId};

/// No test takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test on actix, in real time. A hang fails it.
pub(crate) fn on_actix(test: impl Future<Output = Result<()>>) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(LIMIT, test).await };
    actix_rt::System::with_tokio_rt(runtime).block_on(limited).expect("the test hangs").unwrap();
}

/// Started servers of `ps` and `worker` tasks, the parameter servers first.
pub(crate) fn cluster(ps: u32, worker: u32) -> Vec<Server> {
    Server::create_cluster(&ClusterSpec::simulated([("ps", ps), ("worker", worker)]).unwrap())
}

/// A cluster of tasks on loopback, and a socket for each, in its order.
pub(crate) fn loopback(jobs: &[(&str, usize)]) -> (ClusterSpec, Vec<UdpSocket>) {
    let bind = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
    let jobs: Vec<(&str, Vec<UdpSocket>)> =
        jobs.iter().map(|(job, tasks)| (*job, (0..*tasks).map(bind).collect())).collect();
    let address = |socket: &UdpSocket| socket.local_addr().unwrap().to_string();
    let addresses =
        jobs.iter().map(|(job, sockets)| (*job, sockets.iter().map(address).collect::<Vec<_>>()));
    let cluster = ClusterSpec::dense(addresses).unwrap();
    let mut named: Vec<(TaskName, UdpSocket)> = Vec::new();
    for (job, sockets) in jobs {
        named.extend(
            sockets.into_iter().zip(0..).map(|(socket, index)| (TaskName::new(job, index), socket)),
        );
    }
    named.sort_by(|a, b| a.0.cmp(&b.0));
    (cluster, named.into_iter().map(|(_, socket)| socket).collect())
}

/// What a task of a run called `test` needs to listen on `socket`.
pub(crate) fn quic_config(
    cluster: &ClusterSpec,
    task: &TaskName,
    socket: UdpSocket,
    authority: &Authority,
) -> QuicConfig {
    let identity = authority.issue(task, &["127.0.0.1".to_owned()]).unwrap();
    let config = QuicConfig::new(cluster.clone(), task.clone(), RunId::new("test"), identity);
    QuicConfig { socket: Some(socket), ..config }
}

/// The ends of all tasks of a cluster on loopback, in its order.
pub(crate) async fn quic_network<M: Payload>(
    jobs: &[(&str, usize)],
) -> (ClusterSpec, Vec<Rc<Quic<M>>>) {
    quic_network_with(jobs, |config| config).await
}

/// The same; a peer that is silent for `silence` is lost.
pub(crate) async fn impatient_quic_network<M: Payload>(
    jobs: &[(&str, usize)],
    silence: Duration,
) -> (ClusterSpec, Vec<Rc<Quic<M>>>) {
    quic_network_with(jobs, |config| QuicConfig { silence, ..config }).await
}

/// The same, of configurations that `change` has changed.
pub(crate) async fn quic_network_with<M: Payload>(
    jobs: &[(&str, usize)],
    change: impl Fn(QuicConfig) -> QuicConfig,
) -> (ClusterSpec, Vec<Rc<Quic<M>>>) {
    let (cluster, sockets) = loopback(jobs);
    let authority = Authority::new("test").unwrap();
    let mut ends = Vec::new();
    for (task, socket) in cluster.tasks().zip(sockets) {
        let config = quic_config(&cluster, &task, socket, &authority);
        ends.push(Quic::bind(change(config)).await.unwrap());
    }
    (cluster, ends)
}

/// An f32 matrix, row by row.
pub(crate) fn matrix(rows: usize, columns: usize, values: &[f32]) -> Tensor {
    Tensor::new([rows, columns], values).unwrap()
}

/// Waits for two things that happen at the same time.
pub(crate) async fn both<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    join(a.into_future(), b.into_future()).await
}

/// A step's time where it waits for ever unless a deadline ends it.
pub(crate) const SOON: Duration = Duration::from_millis(50);

/// Options of a session whose steps end after [`SOON`].
pub(crate) fn impatient() -> SessionOptions {
    SessionOptions { operation_timeout: Some(SOON), ..SessionOptions::default() }
}

/// Asserts that `outcome` is an error of `code` whose text says all of `says`.
#[track_caller]
pub(crate) fn assert_error<T>(outcome: Result<T>, code: Code, says: &[&str]) {
    let Err(error) = outcome else { panic!("no error, where {code:?} was expected") };
    let text = error.to_string();
    assert_eq!(error.code, code, "{text}");
    says.iter().for_each(|part| assert!(text.contains(part), "`{text}` does not say `{part}`"));
}

/// Waits for all of `steps`, which happen at the same time.
pub(crate) async fn all<F: Future<Output = Result<T>>, T>(
    steps: impl IntoIterator<Item = F>,
) -> Result<Vec<T>> {
    join_all(steps).await.into_iter().collect()
}
