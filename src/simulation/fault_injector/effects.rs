//! The input and the output of the fault injector.

use std::time::Duration;

use crate::simulation::faults::FaultKind;
use crate::transport::Loss;
use crate::units::Time;

/// A point in a fault's course.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::simulation) enum FaultEvent {
    /// The fault of this `number` among those of the run begins.
    Begin { number: usize, kind: FaultKind },
    /// A task that has crashed or stopped starts again.
    Restart { task: usize },
    /// A task is asked to stop, unless that life of it is over.
    AskToStop { task: usize, incarnation: u32, restart_after: Option<Duration> },
    /// A task that was asked to stop, or whose program has ended, is ended if it is still there.
    EndOfGrace { task: usize, incarnation: u32 },
    /// A freeze ends, unless another has extended it or the task has died meanwhile.
    Thaw { task: usize, incarnation: u32 },
    /// A partition ends. It cut these pairs of sender and receiver; others may still cut them.
    Heal { pairs: Vec<(usize, usize)> },
    /// Another fault that lasts for a time ends.
    End { kind: FaultKind },
    /// `observer` has not heard of `peer` for the limit of silence, or hears that it has closed, if
    /// the cause still holds.
    SilenceLimit { observer: usize, peer: usize, cause: SilenceCause },
    /// `observer` learns of a new incarnation of `peer`, unless it has noticed the end of the last.
    PeerRestarted { observer: usize, peer: usize },
    /// `observer` learns that the process of `peer` has ended in good order, unless it has noticed
    /// its end.
    PeerLeft { observer: usize, peer: usize },
    /// Held envelopes can be delivered to a task that listens again.
    ReleaseHeld,
}

impl FaultEvent {
    /// `observer` hears that `peer` has given their connection up.
    pub(in crate::simulation) fn closed(observer: usize, peer: usize) -> Self {
        Self::SilenceLimit { observer, peer, cause: SilenceCause::Closed }
    }
}

/// The cause of a peer's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum SilenceCause {
    Crash,
    /// The freeze with this number; the task's next freeze after it has thawed has another.
    Freeze(u64),
    Partition,
    /// The peer has given the connection up.
    Closed,
}

/// An effect that the owner of a [`FaultInjector`](super::FaultInjector) has to apply.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::simulation) enum FaultEffect {
    /// Stop the task's program and its actors; they start again later if it `restarts`.
    Kill { task: usize, restarts: bool },
    /// Start the task's server and its program.
    Start { task: usize },
    /// Ask the task to stop.
    AskToStop { task: usize },
    /// Apply `event`, by which `observer` hears of `peer`, one latency later.
    Tell { observer: usize, peer: usize, event: FaultEvent },
    /// Tell `observer` that it has lost `peer`.
    TellLost { observer: usize, peer: usize, loss: Loss },
    /// Apply `event` at `at`.
    Schedule { at: Time, event: FaultEvent },
    /// Apply `event`, a limit of silence, at `at` by a timer of `observer`, which stands still
    /// while the observer is frozen.
    Watch { observer: usize, at: Time, event: FaultEvent },
    /// Apply `event` once `task`, which is frozen, runs again.
    Postpone { task: usize, event: FaultEvent },
    /// Stop the task: its processor, its network card and its timers.
    Freeze { task: usize },
    /// Let a frozen task go on where it stopped.
    Resume { task: usize },
    /// Set the factor on the time of what a task's processor does.
    SetSlowdown { task: usize, factor: f64 },
    /// Set the speed of the link from one task to another, as a share of the network's.
    SetLinkSpeed { from: usize, to: usize, speed: f64 },
    /// Try again to deliver the envelopes that are held.
    ReleaseHeld,
}
