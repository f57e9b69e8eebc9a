//! A transport that counts what is sent over it.

use std::cell::Cell;
use std::rc::Rc;

use super::{Inbox, Messages, Payload, PeerId, Transport, envelope_size};
use crate::cluster::TaskName;
use crate::units::Bytes;

/// Counts what goes over a transport, as a simulation does: the messages, not what carries them.
pub(crate) struct Metered<M> {
    inner: Rc<dyn Transport<M>>,
    sent: Cell<u64>,
}

impl<M: Payload> Metered<M> {
    pub(crate) fn new(inner: Rc<dyn Transport<M>>) -> Self {
        Self { inner, sent: Cell::new(0) }
    }

    /// What was sent to other tasks.
    pub(crate) fn sent(&self) -> Bytes {
        Bytes(self.sent.get())
    }
}

impl<M: Payload> Transport<M> for Metered<M> {
    fn local(&self) -> PeerId {
        self.inner.local()
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.inner.resolve(name)
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.inner.name(peer)
    }

    fn send(&self, to: PeerId, messages: Messages<M>) {
        self.sent.set(self.sent.get() + envelope_size(&messages).0);
        self.inner.send(to, messages);
    }

    fn listen(&self, inbox: Rc<dyn Inbox<M>>) {
        self.inner.listen(inbox);
    }

    fn close(&self) {
        self.inner.close();
    }
}
