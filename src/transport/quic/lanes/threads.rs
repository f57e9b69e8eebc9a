//! The threads of a task's lanes: each drives an endpoint of its own, which accepts lanes.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use quinn::{Connection, Endpoint, EndpointConfig, Incoming, Runtime, ServerConfig, TokioRuntime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::super::hello::{Hello, listen};
use super::super::refusal::Refusal;
use super::super::settings::is_loopback;
use super::super::socket::{CappedSocket, SocketBuffers, bind_everywhere};

/// The number of handshakes of lanes at a time, of each thread.
const HANDSHAKES: usize = 16;
/// The number of accepted lanes that wait for the actors' thread.
const ARRIVALS: usize = 64;

/// A task's lanes to all peers, by their threads.
pub(in super::super) struct LaneThreads {
    pub(super) threads: Vec<LaneThread>,
    servers: Arc<Servers>,
}

pub(super) struct LaneThread {
    pub(super) endpoint: Endpoint,
    pub(super) runtime: Handle,
    port: u16,
    /// Ends the thread when it is dropped.
    _ends: oneshot::Sender<()>,
}

/// A lane that a peer has opened, and its introduction.
pub(in super::super) struct Arrival {
    pub(super) connection: Connection,
    /// What drives it.
    pub(super) thread: Handle,
    pub(super) hello: Hello,
}

/// The settings for lanes that peers open.
pub(in super::super) struct Servers(Mutex<Settings>);

struct Settings {
    loopback: Arc<ServerConfig>,
    other: Arc<ServerConfig>,
}

impl Servers {
    pub(in super::super) fn new(loopback: ServerConfig, other: ServerConfig) -> Self {
        Self(Mutex::new(Settings { loopback: loopback.into(), other: other.into() }))
    }

    fn of(&self, incoming: &Incoming) -> Arc<ServerConfig> {
        let settings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match is_loopback(incoming.remote_address()) {
            true => Arc::clone(&settings.loopback),
            false => Arc::clone(&settings.other),
        }
    }
}

impl LaneThreads {
    /// Starts `count` of them, which listen at `ip`. Returns what receives the lanes that arrive.
    ///
    /// # Errors
    /// If the system refuses threads or sockets.
    pub(in super::super) fn start(
        count: usize,
        ip: IpAddr,
        silence: Duration,
        servers: Servers,
        settings: impl Fn() -> EndpointConfig,
    ) -> io::Result<(Self, mpsc::Receiver<Arrival>)> {
        let servers = Arc::new(servers);
        let (arrived, arrivals) = mpsc::channel(ARRIVALS);
        let start = |number: usize| {
            let thread = LaneThread::start(number, ip, settings(), &servers)?;
            let accepted =
                accept(thread.endpoint.clone(), Arc::clone(&servers), arrived.clone(), silence);
            thread.runtime.spawn(accepted);
            Ok(thread)
        };
        let threads = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok((Self { threads, servers }, arrivals))
    }

    /// The ports that they listen on.
    pub(in super::super) fn ports(&self) -> Vec<u16> {
        self.threads.iter().map(|thread| thread.port).collect()
    }

    /// Accepts with other settings from now on.
    pub(in super::super) fn renew(&self, servers: Servers) {
        let new = servers.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.servers.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    pub(in super::super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.threads.iter().map(|thread| &thread.endpoint)
    }
}

impl LaneThread {
    fn start(
        number: usize,
        ip: IpAddr,
        settings: EndpointConfig,
        servers: &Servers,
    ) -> io::Result<Self> {
        let socket = match ip {
            ip if ip.is_unspecified() => bind_everywhere(0)?,
            ip => UdpSocket::bind((ip, 0))?,
        };
        SocketBuffers::enlarge(&socket)?;
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        let endpoint = {
            let _context = handle.enter();
            let tokio = Arc::new(TokioRuntime);
            let socket = Arc::new(CappedSocket::new(tokio.wrap_udp_socket(socket)?));
            let listening = Some(
                servers.0.lock().unwrap_or_else(PoisonError::into_inner).other.as_ref().clone(),
            );
            Endpoint::new_with_abstract_socket(settings, listening, socket, tokio)?
        };
        let run = move || {
            let _dropped = runtime.block_on(ended);
        };
        thread::Builder::new().name(format!("lane {number}")).spawn(run)?;
        Ok(Self { endpoint, runtime: handle, port, _ends: ends })
    }
}

/// Accepts lanes until the endpoint is closed.
async fn accept(
    endpoint: Endpoint,
    servers: Arc<Servers>,
    arrived: mpsc::Sender<Arrival>,
    silence: Duration,
) {
    let room = Arc::new(Semaphore::new(HANDSHAKES));
    while let Some(incoming) = endpoint.accept().await {
        // A sender with a forged address does not receive this and so can't answer.
        if !incoming.remote_address_validated() {
            incoming.retry().unwrap_or_else(|error| error.into_incoming().ignore());
            continue;
        }
        let Ok(turn) = Arc::clone(&room).try_acquire_owned() else {
            incoming.ignore();
            continue;
        };
        let (servers, arrived) = (Arc::clone(&servers), arrived.clone());
        tokio::spawn(async move {
            let met = tokio::time::timeout(silence, meet(incoming, &servers, silence)).await;
            match met.unwrap_or(Err(Refusal::Silent)) {
                Ok(arrival) => {
                    let _the_task_ends = arrived.send(arrival).await;
                }
                Err(error) => tracing::debug!(%error, "a lane was not opened"),
            }
            drop(turn);
        });
    }
}

async fn meet(
    incoming: Incoming,
    servers: &Servers,
    silence: Duration,
) -> Result<Arrival, Refusal> {
    let settings = servers.of(&incoming);
    let connection = incoming.accept_with(settings)?.await?;
    let (hello, _nothing_follows) = listen(&connection, silence).await?;
    Ok(Arrival { connection, thread: Handle::current(), hello })
}
