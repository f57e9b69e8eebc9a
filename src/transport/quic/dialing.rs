//! Connections that this task opens: it dials again and again, at growing intervals.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use quinn::{Connection, ConnectionError};

use super::super::Payload;
use super::super::certificates::task_domain;
use super::hello::{introduce, listen};
use super::node::Node;
use super::peer::Peer;
use super::peer_connection::{PeerConnection, Side};
use super::refusal::{Close, Refusal};
use super::settings::{FIRST_PATIENCE, is_loopback};
use super::{mistaken, receiving, sending};

/// The wait between a failure and the next attempt: the first one and the longest. It doubles in
/// between.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Gets the messages for `peer` sent: over its connection, or after dialing.
pub(super) fn attend_to<M: Payload>(node: &Rc<Node<M>>, peer: &Rc<Peer<M>>) {
    match peer.way() {
        Some(link) => link.wake.notify_one(),
        None if peer.begin_dialing() => {
            node.spawn(dial(Rc::clone(node), Rc::clone(peer)));
        }
        None => {}
    }
}

/// Dials `peer` until it is connected or there is nothing to send.
async fn dial<M: Payload>(node: Rc<Node<M>>, peer: Rc<Peer<M>>) {
    let (mut wait, mut patience) = (FIRST_WAIT, FIRST_PATIENCE.min(node.silence));
    let mut attempt = 0;
    while !node.is_closed.get() && !peer.end_dialing() {
        if let Err(refusal) = connect(&node, &peer, patience, attempt).await {
            match refusal {
                Refusal::Silent | Refusal::Connection(ConnectionError::TimedOut) => {
                    let address = peer.address.as_deref().unwrap_or_default();
                    let why = format!(
                        "no answer from {address} by UDP: does it run, is the port let through?"
                    );
                    peer.note_obstacle(why, None);
                }
                refusal if refusal.is_given_up() => {
                    tracing::debug!(task = %node.task, peer = %peer.name, %refusal, "given up");
                    peer.note_obstacle("it ends, begins only now, or is busy".to_owned(), None);
                }
                refusal => {
                    let why = refusal.of_dialing(&node.task);
                    if !peer.has_stopped() {
                        node.note_refusal(peer.name.to_string(), &refusal, why.clone());
                    }
                    peer.note_obstacle(why, refusal.refused());
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            patience = (patience * 2).min(node.silence);
            attempt += 1;
        }
    }
    peer.end_if_it_has_parted(&node);
}

/// Connects to `peer`: a handshake that takes at most `patience`, then the introductions. These are
/// not cut short: the peer may have begun to send.
async fn connect<M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    patience: Duration,
    attempt: usize,
) -> Result<(), Refusal> {
    let handshake = tokio::time::timeout(patience, shake_hands(node, peer, attempt)).await;
    let connection = handshake.unwrap_or(Err(Refusal::Silent))?;
    let said = node.hello(peer.epoch());
    let greeted = async {
        let control = introduce(&connection, &said).await?;
        let (hello, from_peer) = listen(&connection, node.silence).await?;
        hello.check(&said, &node.run)?;
        if hello.task != peer.name {
            return Err(Refusal::Name(hello.task));
        }
        let epoch = peer.greet(node, Side::Dialed, &hello)?;
        Ok((control, from_peer, hello, epoch))
    };
    let (control, from_peer, hello, epoch) = greeted.await.inspect_err(|refusal: &Refusal| {
        connection.close(refusal.close().code(), refusal.to_string().as_bytes());
    })?;
    let link = Rc::new(PeerConnection::new(connection, Side::Dialed, hello.lanes));
    if hello.epoch != epoch || !peer.join(&link, epoch) {
        link.connection.close(Close::Lost.code(), b"the connection was lost meanwhile");
        return Err(Refusal::Silent);
    }
    node.refusals.borrow_mut().has_connected(&peer.name);
    sending::start(node, peer, &link, control);
    receiving::start(node, peer, &link, from_peer);
    Ok(())
}

async fn shake_hands<M: Payload>(
    node: &Node<M>,
    peer: &Peer<M>,
    attempt: usize,
) -> Result<Connection, Refusal> {
    let host_and_port = peer.address.as_deref().ok_or(Refusal::NoAddress)?;
    let address = resolve(host_and_port, node, attempt).await?;
    let domain = task_domain(&peer.name).map_err(|_| Refusal::Name(peer.name.clone()))?;
    let connecting = node.endpoint.connect_with(
        node.client_config(is_loopback(address)),
        address,
        domain.as_ref(),
    )?;
    let connected = connecting.await;
    connected.map_err(|error| match mistaken::found(&error) {
        Some(found) => {
            let (address, wanted) = (host_and_port.to_owned(), peer.name.clone());
            Refusal::OtherTask { address, found, wanted }
        }
        None => error.into(),
    })
}

/// An address of `host_and_port` that this task's socket can reach. Each attempt takes another, as
/// the peer may not listen on all of them.
async fn resolve<M>(
    host_and_port: &str,
    node: &Node<M>,
    attempt: usize,
) -> Result<SocketAddr, Refusal> {
    let is_v6 = node.endpoint.local_addr()?.is_ipv6();
    let found = tokio::net::lookup_host(host_and_port).await?;
    let found = found.filter(|address| is_v6 || address.is_ipv4()).collect();
    nth_of(found, attempt).ok_or(Refusal::NoAddress)
}

/// The address that the attempt of that number is made at. Each is there once, whatever a resolver
/// says twice.
fn nth_of(mut found: Vec<SocketAddr>, attempt: usize) -> Option<SocketAddr> {
    found.dedup();
    found.get(attempt.checked_rem(found.len())?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_go_round_all_addresses_of_a_name_and_begin_with_the_first() {
        let [v6, v4] = ["[::1]:5", "127.0.0.1:5"].map(|text| text.parse::<SocketAddr>().unwrap());
        let tried = |attempt| nth_of(vec![v6, v6, v4], attempt).unwrap();
        assert_eq!([0, 1, 2, 3].map(tried), [v6, v4, v6, v4]);
        assert_eq!(nth_of(Vec::new(), 7), None);
    }
}
