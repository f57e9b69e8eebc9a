//! Opens the lanes of a link, once there is something large to send.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::super::super::Payload;
use super::super::super::certificates::task_domain;
use super::super::hello::{Hello, LanePlace, introduce, listen};
use super::super::node::Node;
use super::super::peer::Peer;
use super::super::peer_connection::{PeerConnection, Side};
use super::super::receiving::watch_lane;
use super::super::refusal::{Close, Refusal};
use super::super::settings::is_loopback;
use super::of_link::Outbound;
use super::{ATTEMPTS, MOST};

/// Begins to open the lanes of `link`, if both ends have some and nobody does so yet.
pub(super) fn begin<M: Payload>(node: &Rc<Node<M>>, peer: &Rc<Peer<M>>, link: &Rc<PeerConnection>) {
    let lanes = &link.lanes;
    let count = count(node, lanes.ports.len());
    if !link.is_alive.get()
        || count == 0
        || lanes.attempts.get() == ATTEMPTS
        || lanes.is_opening.replace(true)
    {
        return;
    }
    lanes.attempts.update(|attempts| attempts + 1);
    let epoch = peer.epoch();
    let (on, peer, link) = (Rc::clone(node), Rc::clone(peer), Rc::clone(link));
    node.spawn(async move {
        let has_given_up = || link.lanes.attempts.get() == ATTEMPTS && link.is_alive.get();
        match open(&on, &peer, &link, (count, epoch)).await {
            Ok(lanes) if link.is_alive.get() => {
                tracing::debug!(task = %on.task, peer = %peer.name, count, "lanes are open");
                lanes.0.iter().for_each(|(lane, _)| watch_lane(&on, &peer, &link, lane.clone()));
                let _is_the_only_one_that_opens = link.lanes.outbound.set(lanes);
            }
            Ok(lanes) => lanes.0.iter().for_each(|(lane, _)| close(lane)),
            Err(error) if has_given_up() => tracing::warn!(
                task = %on.task, peer = %peer.name, %error,
                "no lanes to the task: large tensors take its one connection, and one core; let \
                 through the UDP ports above 1023 between the two, or start both with `--lanes 0`"
            ),
            Err(error) => tracing::debug!(peer = %peer.name, %error, "lanes can't be opened yet"),
        }
        link.lanes.is_opening.set(false);
    });
}

/// The number of lanes to open to a peer that has `theirs`: as many as both ends have. With many
/// peers it is fewer for each, so that all together are not far above [`MOST`].
fn count<M>(node: &Node<M>, theirs: usize) -> usize {
    let share = (MOST / node.peers.borrow().len()).max(1);
    node.lanes.threads.len().min(theirs).min(share)
}

async fn open<M: Payload>(
    node: &Node<M>,
    peer: &Peer<M>,
    link: &PeerConnection,
    (count, epoch): (usize, u64),
) -> Result<Outbound, Refusal> {
    let remote = link.connection.remote_address();
    let domain = task_domain(&peer.name).map_err(|_| Refusal::Name(peer.name.clone()))?;
    let settings = node.client_config(is_loopback(remote));
    let (threads, ports) = (&node.lanes.threads, &link.lanes.ports);
    let dial = |number: usize| -> (JoinHandle<Result<Connection, Refusal>>, Handle) {
        // Peers begin with different threads.
        let at = peer.id.0 as usize + number;
        let thread = &threads[at % threads.len()];
        let of_dialed = link.side == Side::Dialed;
        let lane = LanePlace {
            number: number as u16,
            attempt: link.lanes.attempts.get(),
            count: count as u16,
            of_dialed,
        };
        let mut address = remote;
        address.set_port(ports[at % ports.len()]);
        let dialing = dial(
            thread.endpoint.clone(),
            (address, domain.as_ref().to_owned()),
            settings.clone(),
            Hello { lane: Some(lane), ..node.hello(epoch) },
            node.silence,
        );
        (thread.runtime.spawn(dialing), thread.runtime.clone())
    };
    let dialing: Vec<_> = (0..count).map(dial).collect();
    let (mut lanes, mut failed) = (Outbound(Vec::with_capacity(count)), None);
    for (dialing, thread) in dialing {
        match dialing.await.unwrap_or(Err(Refusal::Silent)) {
            Ok(connection) => lanes.0.push((connection, thread)),
            Err(refusal) => failed = Some(refusal),
        }
    }
    match failed {
        Some(refusal) => {
            lanes.0.iter().for_each(|(lane, _)| close(lane));
            Err(refusal)
        }
        None => Ok(lanes),
    }
}

/// Connects, introduces this task, and waits for the peer's answer: it has all lanes of the link.
pub(super) async fn dial(
    endpoint: Endpoint,
    (address, domain): (SocketAddr, String),
    settings: ClientConfig,
    hello: Hello,
    patience: Duration,
) -> Result<Connection, Refusal> {
    let connecting = endpoint.connect_with(settings, address, &domain)?;
    let connected = tokio::time::timeout(patience, connecting).await;
    let connection = connected.map_err(|_| Refusal::Silent)??;
    let met = async {
        introduce(&connection, &hello).await?;
        listen(&connection, patience).await
    };
    match tokio::time::timeout(patience, met).await.unwrap_or(Err(Refusal::Silent)) {
        Ok(_nothing_follows) => Ok(connection),
        Err(refusal) => {
            close(&connection);
            Err(refusal)
        }
    }
}

/// Gives up a lane that is not in use. A connection that is only dropped says that its task stops.
pub(super) fn close(lane: &Connection) {
    lane.close(Close::Lost.code(), b"not all lanes can be opened");
}
