//! Makes the listening endpoint of a configuration.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use quinn::{Endpoint, EndpointConfig, Runtime, TokioRuntime};
use tokio::sync::{Notify, mpsc};

use super::super::{Identity, Payload};
use super::handshakes::Handshakes;
use super::lanes::threads::{Arrival, LaneThreads, Servers};
use super::node::{Node, Roles, peers, server_config};
use super::rebirth::endpoint_config;
use super::roster::Roster;
use super::security::incarnation;
use super::settings::transport;
use super::socket::{CappedSocket, SocketBuffers, bind_everywhere, warn_of_small};
use super::{QuicConfig, QuicError};
use crate::clock::WallClock;

/// The largest packet that is received \[bytes\]: the largest that a system can deliver.
const MAX_PACKET: u16 = 65_527;

type Bound<M> = (Rc<Node<M>>, SocketAddr, mpsc::Receiver<Arrival>);

/// Makes a task's QUIC transport, which listens.
pub(super) fn bind<M: Payload>(config: QuicConfig) -> Result<Bound<M>, QuicError> {
    let QuicConfig { cluster, roster, task, run, identity, .. } = config;
    let QuicConfig { listen, socket, silence, lanes, limits, .. } = config;
    let address = cluster.task_address(&task)?.to_owned();
    let roles = Roles::new(&task, &identity)?;
    let peers = peers::<M>(&cluster);
    let own = peers.iter().find(|peer| peer.name == task);
    let local = own.expect("a task with an address is one of the cluster's").id;
    let bound = || -> io::Result<_> {
        let socket = match (socket, listen) {
            (Some(socket), _) => socket,
            (None, Some(listen)) => UdpSocket::bind(listen)?,
            (None, None) => bind_everywhere(port(&address)?)?,
        };
        let buffers = SocketBuffers::enlarge(&socket)?;
        // Not to who asks a task for its status.
        if listen.is_none() {
            warn_of_small(&buffers);
        }
        let local_addr = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        let runtime = Arc::new(TokioRuntime);
        let socket = Arc::new(CappedSocket::new(runtime.wrap_udp_socket(socket)?));
        // Until a connection comes, which has settings of its own.
        let listening = server_config(&roles.server, transport(None, silence));
        let endpoint = Endpoint::new_with_abstract_socket(
            endpoint_settings(&identity),
            Some(listening),
            socket,
            runtime,
        )?;
        let servers = [Some(buffers), None]
            .map(|loopback| server_config(&roles.server, transport(loopback, silence)));
        let [loopback, other] = servers;
        let (lanes, arrivals) = LaneThreads::start(
            lanes,
            local_addr.ip(),
            silence,
            Servers::new(loopback, other),
            || endpoint_settings(&identity),
        )?;
        Ok(((endpoint, local_addr, buffers), (lanes, arrivals)))
    };
    let ((endpoint, local_addr, buffers), (lanes, arrivals)) = bound().map_err(|source| {
        QuicError::Bind { task: task.clone(), address: address.clone(), source }
    })?;
    let node = Node {
        told_roster: Roster::to_compare(&run, &roster),
        task,
        local,
        run,
        roster,
        incarnation: incarnation()?,
        limits,
        silence,
        clock: WallClock::new(),
        endpoint,
        buffers,
        lanes,
        roles: RefCell::new(roles),
        peers: RefCell::new(peers),
        inbox: RefCell::new(None),
        refusals: RefCell::default(),
        other_run: RefCell::new(None),
        untrusted: RefCell::default(),
        handshakes: Rc::new(Handshakes::new(limits.handshakes)),
        waiting: RefCell::default(),
        is_closed: Cell::new(false),
        is_unflushed: Cell::new(false),
        progress: Notify::new(),
    };
    Ok((Rc::new(node), local_addr, arrivals))
}

fn endpoint_settings(identity: &Identity) -> EndpointConfig {
    let mut settings = endpoint_config(identity);
    settings.max_udp_payload_size(MAX_PACKET).expect("it is above the minimum of QUIC");
    settings
}

/// The port of `host:port`.
fn port(address: &str) -> io::Result<u16> {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the address has no port to listen on")
    })
}
