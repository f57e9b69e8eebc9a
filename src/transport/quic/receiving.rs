//! Receives from a connection into the inbox, and interprets the end of a connection.

use std::any::Any;
use std::panic::resume_unwind;
use std::rc::Rc;

use quinn::{Connection, ConnectionError, RecvStream};
use tokio::sync::mpsc;

use super::super::wire::{Frame, FrameDecoder, Kind, WireError};
use super::super::{Loss, Payload};
use super::node::Node;
use super::peer::Peer;
use super::peer_connection::PeerConnection;
use super::refusal::{Close, Refusal};
use super::silence;

/// The most that is read at a time \[bytes\].
const CHUNK: usize = 1 << 20;

/// Receives on `link` from now on; `control` is its stream for small envelopes.
pub(super) fn start<M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    link: &Rc<PeerConnection>,
    control: RecvStream,
) {
    let receiver = Receiver { node: Rc::clone(node), peer: Rc::clone(peer), link: Rc::clone(link) };
    node.spawn(receiver.clone().read(control, Stream::Control));
    node.spawn(receiver.accept());
    silence::watch(node, peer, link);
}

/// An envelope that has come over lanes, or why there are no more.
pub(super) type Carried = Result<Frame, LaneError>;

pub(super) enum LaneError {
    Refused(Refusal),
    Panic(Box<dyn Any + Send>),
}

/// Receives what the lanes of `link` carry, until they end.
pub(super) fn read_lanes<M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    link: &Rc<PeerConnection>,
    carried: mpsc::Receiver<Carried>,
) {
    let receiver = Receiver { node: Rc::clone(node), peer: Rc::clone(peer), link: Rc::clone(link) };
    node.spawn(receiver.take_carried(carried));
}

/// Loses the peer if `lane` ends before `link` does: what was written to the lane may be lost, and
/// its reader notices that only if a part had come.
pub(super) fn watch_lane<M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    link: &Rc<PeerConnection>,
    lane: Connection,
) {
    let receiver = Receiver { node: Rc::clone(node), peer: Rc::clone(peer), link: Rc::clone(link) };
    node.spawn(async move { receiver.lane_has_ended(&lane.closed().await) });
}

struct Receiver<M> {
    node: Rc<Node<M>>,
    peer: Rc<Peer<M>>,
    link: Rc<PeerConnection>,
}

impl<M> Clone for Receiver<M> {
    fn clone(&self) -> Self {
        let Self { node, peer, link } = self;
        Self { node: Rc::clone(node), peer: Rc::clone(peer), link: Rc::clone(link) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Frames for as long as the connection lasts.
    Control,
    /// One envelope.
    Large,
}

impl<M: Payload> Receiver<M> {
    /// Accepts the streams of large envelopes until the connection ends.
    async fn accept(self) {
        let error = loop {
            match self.link.connection.accept_uni().await {
                Ok(stream) => self.node.spawn(self.clone().read(stream, Stream::Large)),
                Err(error) => break error,
            }
        };
        self.has_ended(&error);
        self.link.wake.notify_one();
    }

    async fn take_carried(self, mut carried: mpsc::Receiver<Carried>) {
        let mut has_carried = false;
        while let Some(next) = carried.recv().await {
            has_carried |= next.is_ok();
            let taken = match next {
                Ok(frame) => self.take(frame).map(|()| self.has_a_large_one()),
                Err(LaneError::Refused(refusal)) => Err(refusal),
                Err(LaneError::Panic(panic)) => resume_unwind(panic),
            };
            match taken {
                // The peer has given up opening them; or it uses them, and watches them, too.
                Err(Refusal::Connection(_)) if !has_carried => {}
                Err(Refusal::Connection(error)) => self.lane_has_ended(&error),
                taken => self.has_read(taken),
            }
        }
        if has_carried {
            self.lane_has_ended(&ConnectionError::LocallyClosed);
        }
    }

    fn lane_has_ended(&self, error: &ConnectionError) {
        if self.link.is_alive.get() {
            tracing::debug!(peer = %self.peer.name, %error, "a lane has ended");
            self.peer.lose(&self.node, Loss::Broken, Close::Lost);
        }
    }

    /// The link has ended.
    fn has_ended(&self, error: &ConnectionError) {
        if self.link.is_alive.get() {
            tracing::debug!(peer = %self.peer.name, %error, "the connection has ended");
            if let (Loss::Unheard, ConnectionError::ApplicationClosed(closed)) =
                (meaning(error), error)
            {
                let told = String::from_utf8_lossy(&closed.reason);
                let told = told.escape_debug(); // it comes from the network
                let (task, peer) = (&self.node.task, &self.peer.name);
                tracing::warn!(
                    "{told}: the network loses what goes from {task} to {peer}, or {task} stood \
                     still"
                );
            }
            self.peer.lose(&self.node, meaning(error), Close::Lost);
        }
    }

    async fn read(self, mut stream: RecvStream, kind: Stream) {
        self.has_read(self.frames(&mut stream, kind).await);
    }

    /// A stream has been read to its end, or why not.
    fn has_read(&self, read: Result<(), Refusal>) {
        match read {
            Ok(()) => {}
            Err(refusal @ Refusal::Wire(_)) => {
                let (who, why) = (self.peer.name.to_string(), refusal.to_string());
                self.link.close(Close::Garbage, &why);
                self.node.note_refusal(who, &refusal, why);
                if self.link.is_alive.get() {
                    self.peer.lose(&self.node, Loss::Broken, Close::Garbage);
                }
            }
            Err(error) => tracing::debug!(peer = %self.peer.name, %error, "a stream has ended"),
        }
    }

    async fn frames(&self, stream: &mut RecvStream, kind: Stream) -> Result<(), Refusal> {
        let mut decoder = FrameDecoder::new(self.node.limits.wire);
        let mut frames = 0u64;
        while let Some(chunk) = stream.read_chunk(CHUNK, true).await? {
            let mut bytes = &chunk.bytes[..];
            while let Some(frame) = decoder.push(&mut bytes)? {
                if kind == Stream::Large && (frames > 0 || frame.kind != Kind::Envelope) {
                    return Err(WireError::OutOfPlace(format!("{:?}", frame.kind)).into());
                }
                frames += 1;
                self.take(frame)?;
            }
        }
        if !decoder.is_between_frames() || (kind == Stream::Large && frames == 0) {
            return Err(WireError::Message("it is cut short".to_owned()).into());
        }
        if kind == Stream::Large {
            self.has_a_large_one();
        }
        Ok(())
    }

    fn has_a_large_one(&self) {
        self.link.received.large.set(self.link.received.large.get() + 1);
        self.end_if_all_is_here();
    }

    fn take(&self, frame: Frame) -> Result<(), Refusal> {
        match frame.kind {
            Kind::Envelope => {
                let messages = frame.messages()?;
                if self.link.is_alive.get() {
                    self.node.deliver(self.peer.id, messages);
                }
            }
            Kind::Bye => {
                self.link.received.bye.set(Some(frame.plain()?));
                self.end_if_all_is_here();
            }
            Kind::Taken => {
                self.link.sent.is_taken.set(true);
                self.node.progress.notify_waiters();
            }
            Kind::Hello => return Err(WireError::OutOfPlace("Hello".to_owned()).into()),
        }
        Ok(())
    }

    /// Reports that the peer has stopped, once everything that it sent has arrived on every link.
    fn end_if_all_is_here(&self) {
        if self.link.has_taken_all() {
            self.link.wake.notify_one();
            self.peer.end_if_it_has_parted(&self.node);
        }
    }
}

/// The loss that the end of a connection stands for.
fn meaning(error: &ConnectionError) -> Loss {
    match error {
        ConnectionError::ApplicationClosed(closed)
            if closed.error_code == Close::Stopped.code() =>
        {
            Loss::Stopped
        }
        ConnectionError::ApplicationClosed(closed)
            if closed.error_code == Close::Outlived.code() =>
        {
            Loss::Outlived
        }
        ConnectionError::ApplicationClosed(closed) if closed.error_code == Close::Silent.code() => {
            Loss::Unheard
        }
        // A later incarnation of the peer answers so; one that gave this connection up may, too.
        ConnectionError::Reset => Loss::Restarted,
        ConnectionError::TimedOut => Loss::Silent,
        _ => Loss::Broken,
    }
}

#[cfg(test)]
mod tests {
    use quinn::ApplicationClose;

    use super::*;

    #[test]
    fn a_task_whose_peer_has_met_a_later_incarnation_is_told_so_and_not_that_the_peer_is_silent() {
        let closed = |close: Close| {
            let reason = bytes::Bytes::new();
            ConnectionError::ApplicationClosed(ApplicationClose {
                error_code: close.code(),
                reason,
            })
        };
        assert_eq!(meaning(&closed(Close::Outlived)), Loss::Outlived);
        assert_eq!(meaning(&closed(Close::Lost)), Loss::Broken);
        assert_eq!(meaning(&closed(Close::Silent)), Loss::Unheard);
        assert_eq!(meaning(&ConnectionError::TimedOut), Loss::Silent);
        let refused = Refusal::Connection(closed(Close::Outlived)).refused();
        assert_eq!(refused, Some(crate::transport::Refused::Outlived));
    }
}
