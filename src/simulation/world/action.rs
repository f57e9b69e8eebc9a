//! The actions that a tick of the world asks of its owner.

use std::task::Waker;

use crate::runtime::{Asker, PeerMessage};
use crate::simulation::events::Event;
use crate::simulation::job::Job;
use crate::transport::{Loss, Messages};

/// An action that the owner of a world carries out after a tick.
pub(in crate::simulation) enum Action {
    /// Call a waker: a sleep has ended.
    Wake(Waker),
    /// Wait for a job's result and hand it to `asker`.
    Finish { job: Job, asker: Asker },
    /// Hand messages to the actors of `to`.
    Deliver { from: usize, to: usize, messages: Messages<PeerMessage> },
    /// Tell the actors of `observer` that it has lost `peer`.
    TellLost { observer: usize, peer: usize, loss: Loss },
    /// Stop the program and the actors of a task, and drop the events that it has missed.
    Kill { task: usize, restarts: bool, missed: Vec<Event> },
    /// Start the server and the program of a task.
    Start { task: usize },
    /// Report a stall: no event is left.
    ReportStall,
}
