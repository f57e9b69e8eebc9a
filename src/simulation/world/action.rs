//! The actions that a tick of the world asks of its owner.

use std::task::Waker;

use crate::runtime::PeerMessage;
use crate::simulation::chore::{Errand, Kernels};
use crate::simulation::events::Missed;
use crate::transport::{Loss, Messages};

/// An action that the owner of a world carries out after a tick.
pub(in crate::simulation) enum Action {
    /// Call a waker: a sleep has ended.
    Wake(Waker),
    /// Wait for the result of kernels and hand it to the actors that asked for it.
    Finish(Box<Kernels>),
    /// Hand messages to the actors of `to`.
    Deliver { from: usize, to: usize, messages: Messages<PeerMessage> },
    /// Tell the actors of `observer` that it has lost `peer`.
    TellLost { observer: usize, peer: usize, loss: Loss },
    /// Stop the program and the actors of a task, and drop the events that it has missed and the
    /// work that it has not done.
    Kill { task: usize, restarts: bool, missed: Vec<Missed>, undone: Vec<Errand> },
    /// Give the run a command other than `Kill`.
    Command(RunCommand),
}

/// A command to the run about a task's program and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum RunCommand {
    /// Stop them, for good unless the task `restarts`.
    Kill { task: usize, restarts: bool },
    /// Start them.
    Start { task: usize },
    /// Ask the task to stop.
    AskToStop { task: usize },
    /// No event is left: unless an actor has something to do, end the run.
    EndStalled,
    /// A replay departs from its tapes: end the run.
    EndDeparted,
    /// The next event is beyond the end of the clock: end the run.
    EndOfTime,
}
