//! The ends of a process's sessions on other servers: one stand-in for each master, and, for a
//! program that is no task, its end of the network.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::clock::Clock;
use crate::cluster::TaskName;
use crate::transport::{Inbox, Loss, Messages, PeerId, Transport};

use super::RemoteMaster;
use crate::runtime::inquiry::Inquiry;
use crate::runtime::log_limit::LogLimit;
use crate::runtime::mail::MasterMail;
use crate::runtime::mailbox::{Address, tell};
use crate::runtime::messages::{ClientMessage, PeerMessage};
use crate::runtime::panics::Panics;
use crate::runtime::patience::Patience;
use crate::runtime::target::ServerTarget;
use crate::runtime::waiting::Waiting;

/// The masters of other servers that this process has sessions on.
#[derive(Default)]
pub(crate) struct RemoteMasters {
    masters: RefCell<BTreeMap<PeerId, Address<MasterMail>>>,
    /// Whether this process is asked to stop.
    stop_requested: Rc<Cell<bool>>,
}

impl RemoteMasters {
    /// The stand-in for the master of `peer`; a new one if there is none.
    pub(crate) fn reach(
        &self,
        peer: PeerId,
        transport: &Rc<dyn Transport<PeerMessage>>,
        clock: &Rc<dyn Clock>,
        patience: Patience,
        panics: &Rc<Panics>,
    ) -> Address<MasterMail> {
        let mut masters = self.masters.borrow_mut();
        let address = masters.entry(peer).or_insert_with(|| {
            let address = Address::new();
            let (transport, clock) = (Rc::clone(transport), Rc::clone(clock));
            let (own, stop) = (address.clone(), &self.stop_requested);
            address.run(RemoteMaster::new(transport, clock, peer, own, patience, stop), panics);
            address
        });
        address.clone()
    }

    /// Takes a message of the master of `from`.
    pub(crate) fn deliver(&self, from: PeerId, message: ClientMessage) {
        match self.masters.borrow().get(&from) {
            Some(master) => tell(master, MasterMail::FromMaster(message)),
            None => tracing::debug!(?from, "an answer that nobody waits for; dropped"),
        }
    }

    /// The way to `peer` has broken.
    pub(crate) fn lost(&self, peer: PeerId, loss: Loss) {
        if let Some(master) = self.masters.borrow().get(&peer) {
            tell(master, MasterMail::Lost { peer, loss });
        }
    }

    /// Asks each what it waits for.
    pub(crate) fn inquire(&self, inquiry: &Inquiry<Waiting>) {
        for master in self.masters.borrow().values() {
            tell(master, MasterMail::Inquire(inquiry.ask()));
        }
    }

    /// This process is asked to stop: it waits no longer for servers that it can't reach.
    pub(crate) fn request_stop(&self) {
        self.stop_requested.set(true);
    }

    /// Ends all sessions on other servers.
    pub(crate) fn stop(&self) {
        for master in self.masters.take().values() {
            tell(master, MasterMail::Stop);
        }
    }
}

/// A program's end of the network, if the program is no task. Its sessions end when it is dropped.
pub(crate) struct ClientEnd {
    masters: Rc<RemoteMasters>,
    transport: Rc<dyn Transport<PeerMessage>>,
    clock: Rc<dyn Clock>,
    patience: Patience,
    panics: Rc<Panics>,
}

/// Takes answers, and nothing else: nobody gives a client orders.
struct Answers {
    masters: Rc<RemoteMasters>,
    clock: Rc<dyn Clock>,
    orders: RefCell<LogLimit>,
}

impl ClientEnd {
    pub(crate) fn new(
        transport: Rc<dyn Transport<PeerMessage>>,
        clock: Rc<dyn Clock>,
        patience: Patience,
    ) -> Rc<Self> {
        let masters = Rc::new(RemoteMasters::default());
        let (clock_there, orders) = (Rc::clone(&clock), RefCell::default());
        let answers = Answers { masters: Rc::clone(&masters), clock: clock_there, orders };
        transport.listen(Rc::new(answers));
        Rc::new(Self { masters, transport, clock, patience, panics: Rc::default() })
    }

    /// The server of `task`; none if it is not known here.
    pub(crate) fn target(self: &Rc<Self>, task: &TaskName) -> Option<ServerTarget> {
        let peer = self.transport.peers().resolve(task)?;
        let Self { masters, transport, clock, patience, panics } = &**self;
        let master = masters.reach(peer, transport, clock, *patience, panics);
        let clock = Rc::clone(clock);
        let connection: Rc<dyn Any> = Rc::<Self>::clone(self);
        Some(ServerTarget::new(task.clone(), master, clock, Some(connection)))
    }
}

impl ClientEnd {
    /// Ends all sessions.
    pub(crate) fn stop(&self) {
        self.masters.stop();
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inbox<PeerMessage> for Answers {
    fn deliver(&self, from: PeerId, messages: Messages<PeerMessage>) {
        for message in messages {
            match message {
                PeerMessage::Client(message) => self.masters.deliver(from, message),
                _ => {
                    if let Some(orders) = self.orders.borrow_mut().count(from, 1, self.clock.now())
                    {
                        tracing::warn!(?from, orders, "a client takes no orders; dropped");
                    }
                }
            }
        }
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        self.masters.lost(peer, loss);
    }

    fn broken(&self, _: &(dyn Any + Send)) {
        self.masters.stop(); // no session waits for an answer that nobody carries
    }
}
