//! The transport between tasks of one process: messages are delivered at once and without a copy.
//! Nobody is told that a task has closed its end: what is sent to it is lost, with a warning.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Inbox, Messages, Payload, PeerId, Peers, Transport};
use crate::cluster::{ClusterSpec, TaskName};

/// A network of tasks on one thread.
pub struct InMemoryNetwork<M> {
    tasks: Vec<TaskName>,
    inboxes: RefCell<Vec<Option<Rc<dyn Inbox<M>>>>>,
}

shown!([M] InMemoryNetwork<M>, tasks);

impl<M: Payload> InMemoryNetwork<M> {
    /// A network between the tasks of `cluster`.
    pub fn new(cluster: &ClusterSpec) -> Rc<Self> {
        let tasks: Vec<TaskName> = cluster.tasks().collect();
        let inboxes = RefCell::new(tasks.iter().map(|_| None).collect());
        Rc::new(Self { tasks, inboxes })
    }

    /// The transport of `task`; `None` if it is not in the cluster.
    pub fn endpoint(self: &Rc<Self>, task: &TaskName) -> Option<Rc<dyn Transport<M>>> {
        let local = self.tasks.iter().position(|name| name == task)?;
        Some(Rc::new(Endpoint { network: Rc::clone(self), local: PeerId(local as u32) }))
    }
}

struct Endpoint<M> {
    network: Rc<InMemoryNetwork<M>>,
    local: PeerId,
}

impl<M: Payload> Endpoint<M> {
    fn set_inbox(&self, inbox: Option<Rc<dyn Inbox<M>>>) {
        self.network.inboxes.borrow_mut()[self.local.0 as usize] = inbox;
    }
}

impl<M: Payload> Transport<M> for Endpoint<M> {
    fn peers(&self) -> &dyn Peers {
        self
    }

    fn send(&self, to: PeerId, messages: Messages<M>) {
        let inbox = self.network.inboxes.borrow()[to.0 as usize].clone();
        match inbox {
            Some(inbox) => inbox.deliver(self.local, messages),
            None => {
                let (to, count) = (self.name(to), messages.len());
                tracing::warn!(%to, count, "messages are lost: the task does not listen");
            }
        }
    }

    fn listen(&self, inbox: Rc<dyn Inbox<M>>) {
        self.set_inbox(Some(inbox));
    }

    fn close(&self) {
        self.set_inbox(None);
    }
}

impl<M: Payload> Peers for Endpoint<M> {
    fn local(&self) -> PeerId {
        self.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.network.tasks.iter().position(|task| task == name).map(|i| PeerId(i as u32))
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.network.tasks[peer.0 as usize].clone()
    }
}
