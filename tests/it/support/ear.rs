//! A peer that only listens.

use std::any::Any;
use std::cell::RefCell;

use trainyard::runtime::{MasterMessage, PeerMessage};
use trainyard::transport::{Inbox, Loss, Messages, PeerId};

/// The answers that came for a peer's master.
#[derive(Default)]
pub(crate) struct Ear(pub(crate) RefCell<Vec<MasterMessage>>);

impl Inbox<PeerMessage> for Ear {
    fn deliver(&self, _: PeerId, messages: Messages<PeerMessage>) {
        let answer = |message| match message {
            PeerMessage::Master(answer) => Some(answer),
            _ => None,
        };
        self.0.borrow_mut().extend(messages.into_iter().filter_map(answer));
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, _: &(dyn Any + Send)) {}
}
