//! One process that is followed, and what is known of it.

use std::time::Duration;

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::oneshot;

use super::listener::Exit;
use super::quiet::Quiet;
use super::slowness::Slowness;
use super::task_record::TaskRecord;
use crate::cluster::TaskName;

/// Why a process is about to end in good order: a fault has asked it, or a parameter server, to
/// stop.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    /// Whether it was this process that was asked.
    pub(super) is_own: bool,
    /// The time from its end until it is started again.
    pub(super) restart_after: Option<Duration>,
}

/// One process, and what is known of it.
pub(super) struct Followee {
    pub(super) task: TaskName,
    pub(super) way: Option<OwnedWriteHalf>,
    pub(super) kill: Option<oneshot::Sender<()>>,
    /// The process's number, until it is gone.
    pub(super) id: Option<u32>,
    /// The number of faults that stop it at present.
    pub(super) stops: u32,
    /// How much slower faults make it.
    pub(super) slowness: Slowness,
    /// Whether it was killed by a fault, or has ended, and is not started again yet.
    pub(super) is_down: bool,
    /// The fault that ends it in good order, if one does.
    pub(super) stop: Option<Stop>,
    /// How it ended by that fault, if it does not start again.
    pub(super) stopped: Option<Exit>,
    /// How often it was started again after an end of its own.
    pub(super) restarts: u32,
    /// Whether this is not its first process: an earlier one was killed by a fault, or ended.
    pub(super) is_again: bool,
    /// Whether the process has said that it runs.
    pub(super) has_begun: bool,
    pub(super) record: TaskRecord,
    /// The number of beats since it was last heard of.
    pub(super) unheard: u32,
    pub(super) quiet: Quiet,
    /// How it failed, with the number of failures before it.
    pub(super) failed: Option<(usize, Exit)>,
    /// Whether it is gone and did not fail.
    pub(super) has_ended: bool,
}

impl Followee {
    /// The process `id` of `task`, which was started just now: `way` leads to it, and without
    /// `kill` it is killed.
    pub(super) fn new(
        task: TaskName,
        way: OwnedWriteHalf,
        kill: oneshot::Sender<()>,
        id: Option<u32>,
    ) -> Self {
        Self {
            task,
            way: Some(way),
            kill: Some(kill),
            id,
            stops: 0,
            slowness: Slowness::default(),
            is_down: false,
            stop: None,
            stopped: None,
            restarts: 0,
            is_again: false,
            has_begun: false,
            record: TaskRecord::default(),
            unheard: 0,
            quiet: Quiet::default(),
            failed: None,
            has_ended: false,
        }
    }

    /// Whether its process runs.
    pub(super) fn runs(&self) -> bool {
        !self.has_ended && !self.is_down && self.failed.is_none()
    }

    /// Whether it is a parameter server that was asked to stop, and is not gone: the tasks that
    /// it ends are not to find it.
    pub(super) fn is_ending_others(&self) -> bool {
        let is_asked = self.stop.is_some_and(|stop| stop.is_own);
        is_asked && self.id.is_some() && self.task.is_parameter_server()
    }

    /// Whether its process runs and has begun.
    pub(super) fn waits(&self) -> bool {
        self.has_begun && self.runs()
    }
}
