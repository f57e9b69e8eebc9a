//! Messages between two tasks, compared with quinn alone. Each end has a thread of its own, as it
//! would have a process of its own.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, Runtime,
    ServerConfig, TransportConfig, VarInt,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::tensor::Tensor;
use trainyard::transport::{
    Authority, Inbox, Loss, Messages, Payload, PeerId, Quic, QuicConfig, RunId, Transport,
};
use trainyard::units::Bytes;

use super::FIGURES;

const ROUND_TRIPS: usize = 20_000;

/// The number of elements of an f32 tensor of 100 MB.
const LARGE: usize = 25_000_000;
const TENSORS: usize = 10;
const REPEATS: usize = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    number: u64,
    tensor: Option<Tensor>,
}

impl Payload for Note {
    fn wire_size(&self) -> Bytes {
        Bytes(8 + self.tensor.as_ref().map_or(0, |tensor| tensor.byte_len() as u64))
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Sends every note back, without its tensor.
struct Echo(RefCell<Option<Rc<Quic<Note>>>>);

impl Inbox<Note> for Echo {
    fn deliver(&self, from: PeerId, messages: Messages<Note>) {
        let back = messages.iter().map(|note| Note { number: note.number, tensor: None }).collect();
        self.0.borrow().as_ref().expect("it listens").send(from, back);
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, panic: &(dyn Any + Send)) {
        panic!("the transport has panicked: {panic:?}");
    }
}

/// Counts the messages that arrive, and wakes the one that waits for them.
#[derive(Default)]
struct Counter {
    count: Cell<usize>,
    more: tokio::sync::Notify,
}

impl Inbox<Note> for Counter {
    fn deliver(&self, _: PeerId, messages: Messages<Note>) {
        self.count.set(self.count.get() + messages.len());
        self.more.notify_one();
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        panic!("{peer:?}: {loss}");
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        panic!("the transport has panicked: {panic:?}");
    }
}

impl Counter {
    async fn until(&self, count: usize) {
        while self.count.get() < count {
            self.more.notified().await;
        }
    }
}

fn on_a_thread<T: Send + 'static, F: Future<Output = T>>(
    run: impl FnOnce() -> F + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
        };
        actix_rt::System::with_tokio_rt(runtime).block_on(run())
    })
}

/// Measures round trips and large tensors, ours and quinn's.
pub(super) fn run() {
    let sockets: Vec<UdpSocket> =
        (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port is free")).collect();
    let address = |i: usize| sockets[i].local_addr().expect("it is bound").to_string();
    let cluster =
        ClusterSpec::dense([("ps", [address(0)]), ("worker", [address(1)])]).expect("two tasks");
    let authority = Authority::new("bench").expect("an authority");
    let mut configs: Vec<QuicConfig> = Vec::new();
    for (job, socket) in ["ps", "worker"].into_iter().zip(sockets) {
        let task = TaskName::new(job, 0);
        let identity = authority.issue(&task, &[]).expect("an identity");
        let config = QuicConfig::new(cluster.clone(), task, RunId::new("bench"), identity);
        configs.push(QuicConfig { socket: Some(socket), ..config });
    }
    let (worker, ps) =
        (configs.pop().expect("a worker"), configs.pop().expect("a parameter server"));
    on_a_thread(|| async {
        let end = Quic::<Note>::bind(ps).await.expect("it can listen");
        end.listen(Rc::new(Echo(RefCell::new(Some(Rc::clone(&end))))));
        std::future::pending::<()>().await;
    });
    on_a_thread(|| measure(worker)).join().expect("it measures");
    raw_quinn();
}

async fn measure(config: QuicConfig) {
    let end = Quic::<Note>::bind(config).await.expect("it can listen");
    let counter = Rc::new(Counter::default());
    end.listen(Rc::clone(&counter) as Rc<dyn Inbox<Note>>);
    for (case, tensor) in [("empty", None), ("scalar", Some(Tensor::scalar(1f32)))] {
        let mut times = Vec::new();
        for number in 0..ROUND_TRIPS as u64 {
            let (began, before) = (Instant::now(), counter.count.get());
            end.send(PeerId(0), vec![Note { number, tensor: tensor.clone() }]);
            counter.until(before + 1).await;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let micros = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
        let [p10, p50, p99] = [0.1, 0.5, 0.99].map(|share| (micros(share) * 10.0).round() / 10.0);
        FIGURES.note(&json!({
            "case": format!("transport/round-trip/{case}"),
            "p10_us": p10, "p50_us": p50, "p99_us": p99,
        }));
    }
    let tensor = Tensor::full([LARGE], 1f32);
    for (case, at_once) in [("one at a time", 1), ("all at once", TENSORS)] {
        let mut rates = Vec::new();
        for _ in 0..REPEATS {
            let began = Instant::now();
            for _ in 0..TENSORS / at_once {
                let before = counter.count.get();
                (0..at_once).for_each(|_| {
                    end.send(PeerId(0), vec![Note { number: 0, tensor: Some(tensor.clone()) }])
                });
                counter.until(before + at_once).await;
            }
            rates.push((TENSORS * tensor.byte_len()) as f64 / began.elapsed().as_secs_f64());
        }
        report(&format!("transport/100 MB tensors/{case}"), rates);
    }
}

fn report(case: &str, mut rates: Vec<f64>) {
    rates.sort_unstable_by(f64::total_cmp);
    let rate = |place: usize| (rates[place] / 1e7).round() / 1e2;
    let [least, median, most] = [0, rates.len() / 2, rates.len() - 1].map(rate);
    FIGURES.note(&json!({ "case": case, "GB_per_s": median, "least": least, "most": most }));
}

/// Measures quinn alone with the same packets: nothing is decoded, checked or copied.
fn raw_quinn() {
    let authority = Authority::new("raw").expect("an authority");
    let folder = std::env::temp_dir().join(format!("trainyard-bench-{}", std::process::id()));
    let task = TaskName::new("ps", 0);
    authority
        .issue(&task, &[])
        .and_then(|identity| identity.save(&folder, &task))
        .expect("files can be written");
    let (server, client) = raw_configs(&folder);
    std::fs::remove_dir_all(folder).expect("they can be removed");
    let (tell, told) = std::sync::mpsc::channel();
    on_a_thread(move || async move {
        let endpoint = raw_endpoint(Some(server));
        tell.send(endpoint.local_addr().expect("it is bound")).expect("somebody waits for it");
        let connection = endpoint.accept().await.expect("a client").await.expect("a connection");
        while let Ok(mut stream) = connection.accept_uni().await {
            while let Ok(Some(_)) = stream.read_chunk(1 << 20, true).await {}
            let mut done = connection.open_uni().await.expect("a stream");
            done.write_all(b"k").await.expect("it can be written");
            let _closed = done.finish();
        }
    });
    let address = told.recv().expect("the server listens");
    let rates = on_a_thread(move || async move {
        let mut endpoint = raw_endpoint(None);
        endpoint.set_default_client_config(client);
        let connection = endpoint
            .connect(address, "ps-0.task.trainyard")
            .expect("it can dial")
            .await
            .expect("TLS");
        let bytes = bytes::Bytes::from(vec![7u8; 4 * LARGE]);
        let mut rates = Vec::new();
        for _ in 0..REPEATS {
            let began = Instant::now();
            for _ in 0..TENSORS {
                let (mut stream, mut left) =
                    (connection.open_uni().await.expect("a stream"), bytes.clone());
                while !left.is_empty() {
                    let slice = left.split_to(left.len().min(512 << 10));
                    stream.write_chunk(slice).await.expect("it can be written");
                }
                stream.finish().expect("it is open");
                let mut done = connection.accept_uni().await.expect("an answer");
                done.read_to_end(8).await.expect("an answer");
            }
            rates.push((TENSORS * bytes.len()) as f64 / began.elapsed().as_secs_f64());
        }
        rates
    });
    report("quinn/100 MB streams/one at a time", rates.join().expect("it measures"));
}

fn raw_configs(folder: &std::path::Path) -> (ServerConfig, ClientConfig) {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate =
        |name: &str| CertificateDer::from_pem_file(folder.join(name)).expect("it was just written");
    let key = PrivateKeyDer::from_pem_file(folder.join("ps-0.key")).expect("it was just written");
    let mut server =
        ServerConfig::with_single_cert(vec![certificate("ps-0.pem")], key).expect("they fit");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate("authority.pem")).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.expect("TLS 1.3").with_root_certificates(roots).with_no_client_auth();
    let mut client =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("QUIC's suites")));
    let mut settings = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(65_400);
    settings
        .mtu_discovery_config(Some(discovery))
        .receive_window(VarInt::from_u32(4 << 20))
        .stream_receive_window(VarInt::from_u32(12 << 20));
    settings
        .send_window(32 << 20)
        .max_idle_timeout(Some(Duration::from_secs(30).try_into().expect("short")));
    let settings = Arc::new(settings);
    server.transport_config(Arc::clone(&settings));
    client.transport_config(settings);
    (server, client)
}

/// Sends one packet a call: the system takes no two of 65,400 bytes.
#[derive(Debug)]
struct Capped(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for Capped {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn quinn::UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }
    fn try_send(&self, transmit: &quinn::udp::Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }
    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [quinn::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(context, buffers, meta)
    }
    fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.0.local_addr()
    }
    fn max_transmit_segments(&self) -> usize {
        1
    }
    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }
    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

fn raw_endpoint(server: Option<ServerConfig>) -> Endpoint {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let sizes = socket2::SockRef::from(&socket);
    sizes
        .set_recv_buffer_size(8 << 20)
        .and_then(|()| sizes.set_send_buffer_size(8 << 20))
        .expect("sizes can be asked");
    let mut settings = EndpointConfig::default();
    settings.max_udp_payload_size(65_527).expect("more than the least");
    let runtime = Arc::new(quinn::TokioRuntime);
    let socket = Arc::new(Capped(runtime.wrap_udp_socket(socket).expect("a socket of tokio's")));
    Endpoint::new_with_abstract_socket(settings, server, socket, runtime).expect("an endpoint")
}
