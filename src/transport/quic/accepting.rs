//! Connections that peers open: accepts or refuses them.

use std::net::IpAddr;
use std::rc::Rc;

use quinn::{Connection, Incoming};
use rustls_pki_types::CertificateDer;

use super::super::{ASKER, CLIENT, Payload};
use super::handshakes::of_one_address;
use super::hello::{Close, Hello, Refusal, introduce, listen};
use super::link::{Link, Side};
use super::node::Node;
use super::security::{asker_as_client, names};
use super::{receiving, sending};
use crate::cluster::TaskName;

/// The share of the handshakes at a time above which a sender has to prove its address first.
const UNPROVEN: usize = 8;

/// Accepts connections until the endpoint is closed.
pub(super) async fn accept<M: Payload>(node: Rc<Node<M>>) {
    while let Some(incoming) = node.endpoint.accept().await {
        let (limit, under_way) = (node.limits.handshakes, &node.handshakes);
        let from = incoming.remote_address().ip().to_canonical();
        if under_way.count() >= limit || under_way.of(from) >= of_one_address(limit) {
            incoming.ignore();
        } else if under_way.count() >= limit / UNPROVEN && !incoming.remote_address_validated() {
            // A sender with a forged address does not receive this and so can't answer.
            if let Err(error) = incoming.retry() {
                error.into_incoming().ignore();
            }
        } else {
            node.spawn(admit(Rc::clone(&node), incoming, from));
        }
    }
}

async fn admit<M: Payload>(node: Rc<Node<M>>, incoming: Incoming, from: IpAddr) {
    let _counted = node.handshakes.begin(from);
    let admitted = tokio::time::timeout(node.silence, shake_hands(&node, incoming));
    if let Err(refusal) = admitted.await.unwrap_or(Err(Refusal::Silent)) {
        node.note_refusal(from.to_string(), refusal.to_string());
    }
}

async fn shake_hands<M: Payload>(node: &Rc<Node<M>>, incoming: Incoming) -> Result<(), Refusal> {
    let is_loopback = incoming.remote_address().ip().to_canonical().is_loopback();
    let connection = incoming.accept_with(node.server_config(is_loopback).into())?.await?;
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
    hello.check(&node.task, &node.run)?;
    check_name(node, connection, &hello)?;
    if !node.roster.contains(&hello.task) && ![CLIENT, ASKER].contains(&hello.task.job()) {
        return Err(Refusal::Stranger(hello.task));
    }
    let peer = node.find_or_add(&hello.task);
    let epoch = peer.greet(node, Side::Accepted, &hello)?;
    let control = introduce(connection, &node.hello(epoch)).await?;
    let link = Rc::new(Link::new(connection.clone(), Side::Accepted));
    if !peer.join(&link, epoch) {
        link.connection.close(Close::Lost.code(), b"the connection was lost meanwhile");
        return Ok(());
    }
    sending::start(node, &peer, &link, control);
    receiving::start(node, &peer, &link, from_peer);
    Ok(())
}

/// Checks that the other end's certificate has the name that the other end claims, and that it is
/// not this task.
fn check_name<M>(node: &Node<M>, connection: &Connection, hello: &Hello) -> Result<(), Refusal> {
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
