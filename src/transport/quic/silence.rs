//! The limit of silence: a peer from which no packet has come for so long is lost.
//!
//! QUIC's own timer for idle connections waits for three probe timeouts at least (RFC 9000, 10.1).
//! A task that has stood still for 10 s measures round trips of 10 s when it goes on, and so would
//! wait 30 s more. Time is counted in beats here, so that its own standing still is not taken for a
//! silence of its peers.

use std::rc::Rc;

use super::super::{BEATS, Loss, Payload};
use super::node::Node;
use super::peer::Peer;
use super::peer_connection::PeerConnection;
use super::refusal::Close;

/// Watches `link` until its end. A peer that says goodbye and stays is not waited for: what it
/// keeps open would be without limit.
pub(super) fn watch<M: Payload>(node: &Rc<Node<M>>, peer: &Rc<Peer<M>>, link: &Rc<PeerConnection>) {
    let (watched, peer, link) = (Rc::clone(node), Rc::clone(peer), Rc::clone(link));
    node.spawn(async move {
        let node = watched;
        let received = || link.connection.stats().udp_rx.datagrams;
        let (mut last, mut silent) = (received(), 0);
        while link.is_alive.get() && link.connection.close_reason().is_none() {
            if silent == BEATS {
                return give_up(&node, &peer);
            }
            tokio::time::sleep(node.silence / BEATS).await;
            let now = received();
            silent = if now == last { silent + 1 } else { 0 };
            last = now;
        }
        // A peer that has said goodbye closes the connection once it knows that all has arrived.
        if link.connection.close_reason().is_none() {
            tokio::time::sleep(node.silence).await;
            link.close(Close::Stopped, "said goodbye, and stayed");
        }
    });
}

/// Loses `peer`, which is silent, and says so in the log. The peer hears it, too, if the way is cut
/// in the other direction alone.
fn give_up<M: Payload>(node: &Node<M>, peer: &Peer<M>) {
    if node.roster.contains(&peer.name) {
        let heard = node.has_heard_nothing_from(&peer.name);
        tracing::warn!("{heard}, and gives the connection up");
    }
    peer.lose(node, Loss::Silent, Close::Silent);
}
