//! What a session connects to: the master of a server, of this process or another.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use crate::clock::Clock;
use crate::cluster::TaskName;

use crate::runtime::mail::MasterMail;
use crate::runtime::mailbox::Address;

/// A server as a session reaches it, in this process or another (TensorFlow: `server.target`).
#[derive(Clone)]
pub struct ServerTarget {
    task: TaskName,
    /// The server's master, or what stands in for it here.
    pub(crate) master: Address<MasterMail>,
    pub(crate) clock: Rc<dyn Clock>,
    /// Keeps the connection of a program that is no task.
    _connection: Option<Rc<dyn Any>>,
}

shown!(ServerTarget, task);

impl ServerTarget {
    /// The server of `task`, whose master takes mail at `master`.
    pub(crate) fn new(
        task: TaskName,
        master: Address<MasterMail>,
        clock: Rc<dyn Clock>,
        connection: Option<Rc<dyn Any>>,
    ) -> Self {
        Self { task, master, clock, _connection: connection }
    }

    pub(crate) fn task(&self) -> &TaskName {
        &self.task
    }
}

impl fmt::Display for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trainyard://{}", self.task)
    }
}
