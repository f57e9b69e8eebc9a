//! Connections that peers open: accepts or refuses them.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use quinn::{Connection, Incoming};
use rustls_pki_types::CertificateDer;

use super::super::{ASKER, CLIENT, Payload};
use super::handshakes::{Handshake, LONGEST_WAIT};
use super::hello::{Hello, introduce, listen};
use super::node::Node;
use super::peer_connection::{PeerConnection, Side};
use super::refusal::{Close, Refusal, unlisted};
use super::security::{asker_as_client, names};
use super::settings::is_loopback;
use super::{receiving, sending};
use crate::clock::Clock;
use crate::cluster::TaskName;

/// The share of the handshakes at a time from which on a sender has to prove its address first.
const UNPROVEN: f64 = 1.0 / 8.0;

/// Accepts connections until the endpoint is closed.
pub(super) async fn accept<M: Payload>(node: Rc<Node<M>>) {
    loop {
        let is_empty = node.waiting.borrow().is_empty();
        let longest = if is_empty { Duration::MAX } else { LONGEST_WAIT };
        match tokio::time::timeout(longest, node.endpoint.accept()).await {
            Ok(Some(incoming)) => queue(&node, incoming),
            Ok(None) => break,
            Err(_) => {} // somebody has waited too long
        }
        begin_handshakes(&node);
    }
}

/// Has a connection wait for its handshake, unless its sender has to prove its address first.
fn queue<M>(node: &Node<M>, incoming: Incoming) {
    if node.handshakes.share() >= UNPROVEN && !incoming.remote_address_validated() {
        // A sender with a forged address does not receive this and so can't answer.
        return incoming.retry().unwrap_or_else(|error| error.into_incoming().ignore());
    }
    let from = incoming.remote_address().ip().to_canonical();
    let too_many = node.waiting.borrow_mut().add(node.clock.now(), from, incoming);
    too_many.into_iter().for_each(Incoming::ignore);
}

/// Begins as many handshakes as there is room for.
fn begin_handshakes<M: Payload>(node: &Rc<Node<M>>) {
    let mut waiting = node.waiting.borrow_mut();
    while let Some(outdated) = waiting.outdated(node.clock.now()) {
        outdated.ignore();
    }
    while let Some((handshake, incoming)) = waiting.next(&node.handshakes) {
        node.spawn(admit(Rc::clone(node), incoming, handshake));
    }
}

async fn admit<M: Payload>(node: Rc<Node<M>>, incoming: Incoming, handshake: Handshake) {
    let admitted = tokio::time::timeout(node.silence, shake_hands(&node, incoming));
    if let Err(refusal) = admitted.await.unwrap_or(Err(Refusal::Silent)) {
        note_refusal(&node, &refusal, handshake.address());
    }
    drop(handshake);
    begin_handshakes(&node);
}

/// Notes why there is no connection with who dialed from `address`.
fn note_refusal<M: Payload>(node: &Node<M>, refusal: &Refusal, address: IpAddr) {
    if refusal.is_given_up() {
        return tracing::debug!(task = %node.task, %address, %refusal, "given up");
    }
    node.note_other_run(refusal);
    let why = refusal.of_dialed(address);
    node.note_untrusted(refusal, address, &why);
    match refusal.is_of_asker(&node.roster) {
        // It hears of its mistake, which is none of the training's.
        true => tracing::info!(task = %node.task, %address, why, "a question was refused"),
        // So does who asks, or dials, under a wrong name.
        false if refusal.took_for_another() => node.note_mistake(address.to_string(), refusal, why),
        false => node.note_refusal(address.to_string(), refusal, why),
    }
}

async fn shake_hands<M: Payload>(node: &Rc<Node<M>>, incoming: Incoming) -> Result<(), Refusal> {
    let settings = node.server_config(is_loopback(incoming.remote_address()));
    let connection = incoming.accept_with(settings.into())?.await?;
    let introduced = introductions(node, &connection).await;
    introduced.inspect_err(|refusal| {
        connection.close(refusal.close().code(), refusal.to_string().as_bytes())
    })
}

async fn introductions<M: Payload>(
    node: &Rc<Node<M>>,
    connection: &Connection,
) -> Result<(), Refusal> {
    let (hello, from_peer) = listen(connection, node.silence).await?;
    check_name(node, connection, &hello)?; // first: who is refused is remembered by name
    hello.check(&node.hello(0), &node.run)?;
    if !node.roster.contains(&hello.task) && ![CLIENT, ASKER].contains(&hello.task.job()) {
        return Err(unlisted(hello.task, &node.task, &node.roster));
    }
    let peer = node.find_or_add(&hello.task);
    let epoch = peer.greet(node, Side::Accepted, &hello)?;
    let joining = peer.begin_joining();
    let control = introduce(connection, &node.hello(epoch)).await?;
    drop(joining);
    let link = Rc::new(PeerConnection::new(connection.clone(), Side::Accepted, hello.lanes));
    if !peer.join(&link, epoch) {
        link.connection.close(Close::Lost.code(), b"the connection was lost meanwhile");
        return Ok(());
    }
    node.refusals.borrow_mut().has_connected(&peer.name);
    sending::start(node, &peer, &link, control);
    receiving::start(node, &peer, &link, from_peer);
    Ok(())
}

/// Checks that the other end's certificate has the name that the other end claims, and that it is
/// not this task.
pub(super) fn check_name<M>(
    node: &Node<M>,
    connection: &Connection,
    hello: &Hello,
) -> Result<(), Refusal> {
    let certificates = connection
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let is_named = |task: &TaskName| {
        let first = certificates.as_ref().and_then(|chain| chain.first());
        first.is_some_and(|certificate| names(certificate, task))
    };
    // A job of the cluster may be called as askers are.
    let client = asker_as_client(&hello.task).filter(|_| !node.roster.contains(&hello.task));
    if is_named(client.as_ref().unwrap_or(&hello.task)) && hello.task != node.task {
        return Ok(());
    }
    Err(Refusal::Name(hello.task.clone()))
}
