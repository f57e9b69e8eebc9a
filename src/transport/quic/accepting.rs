//! Connections that peers open: accepts or refuses them, and limits the handshakes at a time.

use std::cell::Cell;
use std::rc::Rc;

use quinn::{Connection, Incoming};
use rustls_pki_types::CertificateDer;

use super::super::Payload;
use super::hello::{Close, Hello, Refusal, introduce, listen};
use super::link::{Link, Side};
use super::node::Node;
use super::security::names;
use super::{receiving, sending};
use crate::cluster::TaskName;

/// Accepts connections until the endpoint is closed.
pub(super) async fn accept<M: Payload>(node: Rc<Node<M>>) {
    while let Some(incoming) = node.endpoint.accept().await {
        let under_way = node.handshakes.get();
        let is_proven = incoming.remote_address_validated();
        if under_way >= node.limits.handshakes {
            incoming.ignore();
        } else if under_way >= node.limits.handshakes / 2 && !is_proven {
            // A sender with a forged address does not receive this and so can't answer.
            if let Err(error) = incoming.retry() {
                error.into_incoming().ignore();
            }
        } else {
            tokio::task::spawn_local(admit(Rc::clone(&node), incoming));
        }
    }
}

/// Counts a handshake for as long as it takes.
struct Handshake<'a>(&'a Cell<usize>);

impl<'a> Handshake<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn admit<M: Payload>(node: Rc<Node<M>>, incoming: Incoming) {
    let _counted = Handshake::begin(&node.handshakes);
    let from = incoming.remote_address().ip().to_canonical();
    let admitted = tokio::time::timeout(node.silence, shake_hands(&node, incoming));
    if let Err(refusal) = admitted.await.unwrap_or(Err(Refusal::Silent)) {
        node.note_refusal(from.to_string(), refusal.to_string());
    }
}

async fn shake_hands<M: Payload>(node: &Rc<Node<M>>, incoming: Incoming) -> Result<(), Refusal> {
    let is_loopback = incoming.remote_address().ip().to_canonical().is_loopback();
    if is_loopback {
        node.socket.admit_loopback();
    }
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
    hello.check(&node.run)?;
    check_name(node, connection, &hello)?;
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
    if is_named(&hello.task) && hello.task != node.task {
        return Ok(());
    }
    Err(Refusal::Name(hello.task.clone()))
}
