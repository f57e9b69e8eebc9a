//! Sends a peer's queue over a connection: small envelopes through one stream, in order and several
//! at a time; large ones each on a stream of its own, which yields to that of the small ones and to
//! those of earlier large ones.

use std::rc::Rc;

use quinn::{Connection, SendStream, WriteError};

use super::super::wire::{Kind, Outgoing, WireError};
use super::super::{Loss, Messages, Payload};
use super::lanes;
use super::node::Node;
use super::peer::Peer;
use super::peer_connection::PeerConnection;
use super::priorities::open_large;
use super::refusal::{Close, Refusal};

/// The length above which an envelope has a stream of its own \[bytes\].
pub(crate) const LARGE_ENVELOPE: usize = 64 << 10;
/// The length up to which small envelopes are gathered \[bytes\].
const GATHERED: usize = 64 << 10;
/// The piece of a tensor that is written at a time \[bytes\]: much less than a window, much more
/// than a packet.
const SLICE: usize = 512 << 10;

/// Sends on `link` from now on; `control` is its stream for small envelopes.
pub(super) fn start<M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    link: &Rc<PeerConnection>,
    control: SendStream,
) {
    let sender =
        Sender { node: Rc::clone(node), peer: Rc::clone(peer), link: Rc::clone(link), control };
    node.spawn(sender.run());
    link.wake.notify_one();
    node.progress.notify_waiters();
}

struct Sender<M> {
    node: Rc<Node<M>>,
    peer: Rc<Peer<M>>,
    link: Rc<PeerConnection>,
    control: SendStream,
}

impl<M: Payload> Sender<M> {
    /// Sends until the connection is closed; the receiver notices that and wakes the sender.
    async fn run(mut self) {
        while self.link.connection.close_reason().is_none() {
            self.link.wake.notified().await;
            if let Err(error) = self.send_all().await {
                tracing::debug!(peer = %self.peer.name, %error, "sending has ended");
                return;
            }
        }
    }

    async fn send_all(&mut self) -> Result<(), Refusal> {
        loop {
            let gathered = self.gather();
            if gathered.is_empty() {
                break;
            }
            self.control.write_chunk(gathered.into()).await?;
        }
        self.part().await
    }

    /// Takes envelopes off the queue: gathers small ones and starts to write large ones.
    fn gather(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < GATHERED {
            let Some((messages, size)) = self.peer.pop(&self.link) else { break };
            match Outgoing::envelope(&messages, &self.node.limits.wire) {
                Ok(frame) if frame.len() > LARGE_ENVELOPE => self.begin_large(frame, size),
                Ok(frame) if bytes.is_empty() && frame.tensors.is_empty() => {
                    bytes = frame.head;
                    self.peer.written(&self.link, size);
                }
                Ok(frame) => {
                    frame.write_to(&mut bytes);
                    self.peer.written(&self.link, size);
                }
                Err(error) => self.give_up(&messages, &error),
            }
        }
        bytes
    }

    /// Gives up the connection, because a message can't be sent and the tasks that wait for it must
    /// learn of that.
    fn give_up(&self, messages: &Messages<M>, error: &WireError) {
        tracing::error!(to = %self.peer.name, %error, ?messages, "an envelope can't be sent");
        self.peer.lose(&self.node, Loss::Broken, Close::Lost);
    }

    fn begin_large(&self, frame: Outgoing, size: usize) {
        let Self { node, peer, link, .. } = self;
        let (node, peer, link) = (Rc::clone(node), Rc::clone(peer), Rc::clone(link));
        let number = link.sent.large.get();
        link.sent.large.set(number + 1);
        link.sent.unfinished.set(link.sent.unfinished.get() + 1);
        self.node.spawn(async move {
            let turn = link.large.acquire().await;
            let written = match lanes::lanes_for(&node, &peer, &link, frame.len()) {
                Some(lanes) => lanes.write(number, frame).await,
                None => write_large(&link.connection, number, frame).await,
            };
            drop(turn);
            link.sent.unfinished.set(link.sent.unfinished.get() - 1);
            peer.written(&link, size);
            if let Err(error) = written {
                tracing::debug!(
                    task = %node.task, peer = %peer.name, %error,
                    "a large envelope was not sent"
                );
            }
            link.wake.notify_one();
        });
    }

    /// Sends `Bye` once everything is written, and `Taken` once everything before the peer's `Bye`
    /// has arrived.
    async fn part(&mut self) -> Result<(), Refusal> {
        let PeerConnection { sent, received, .. } = &*self.link;
        if received.is_taken.get() && received.bye.take().is_some() {
            self.control.write_chunk(Outgoing::plain(Kind::Taken, &())?.head.into()).await?;
        }
        if sent.bye.get() == Some(0) && sent.unfinished.get() == 0 && !self.peer.is_owed() {
            sent.bye.set(Some(sent.large.get() + 1));
            self.control
                .write_chunk(Outgoing::plain(Kind::Bye, &sent.large.get())?.head.into())
                .await?;
        }
        Ok(())
    }
}

async fn write_large(
    connection: &Connection,
    number: u64,
    frame: Outgoing,
) -> Result<(), WriteError> {
    let mut stream = open_large(connection, number).await?;
    for mut piece in frame.into_pieces() {
        while !piece.is_empty() {
            stream.write_chunk(piece.split_to(piece.len().min(SLICE))).await?;
        }
    }
    let _closed_connections_say_so_elsewhere = stream.finish();
    Ok(())
}
