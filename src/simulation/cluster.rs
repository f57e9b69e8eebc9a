//! A simulated cluster, and the outcome of its run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{ClusterSpec, TaskName};
use crate::kernels::Numerics;
use crate::runtime::{Encoding, Error, Traffic};
use crate::tape::Tapes;
use crate::units::Time;

use super::audit::Digest;
use super::critical_path::CriticalPathShares;
use super::faults::{Faults, SkippedFault};
use super::gauges::Gauges;
use super::hardware::Hardware;
use super::network::CardTraffic;
use super::processor::ProcessorUsage;
use super::timeline::TimelineSpec;

/// A simulated cluster: its tasks, its hardware, its faults and the seed of all that is random.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The tasks.
    pub spec: ClusterSpec,
    /// What they run on.
    pub hardware: Hardware,
    /// How the values of steps are encoded between tasks.
    pub encoding: Encoding,
    /// Whether the kernels compute numbers, or only shapes.
    pub numerics: Numerics,
    /// The seed of all random draws.
    pub seed: u64,
    /// The faults to inject.
    pub faults: Faults,
    /// The stretch of its timeline that is written, if one is.
    pub timeline: Option<TimelineSpec>,
    /// What an observer sees while it goes on, if there may be one.
    pub gauges: Option<Arc<Gauges>>,
    /// The tapes to replay, if any. What they have stands instead of the network, the compute times
    /// and the faults.
    pub replay: Option<Arc<Tapes>>,
    /// By a task's number and incarnation, how far its date is ahead. If not given, no date is.
    #[cfg(test)]
    pub(crate) dates_ahead: Option<fn(usize, u32) -> Duration>,
}

impl Cluster {
    /// The time by which the date of a task's incarnation is ahead: 0, except in a test of dates.
    pub(super) fn date_ahead(&self, _task: usize, _incarnation: u32) -> Duration {
        #[cfg(test)]
        if let Some(ahead) = self.dates_ahead {
            return ahead(_task, _incarnation);
        }
        Duration::ZERO
    }
}

/// How a run ended, and what was counted during it.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The value that each task's program returned, without the tasks that died for good; or the
    /// error of the first program that failed.
    pub result: Result<BTreeMap<TaskName, T>, Error>,
    /// The virtual time at the end.
    pub ended: Time,
    /// The number of events.
    pub events: u64,
    /// The number of envelopes that arrived.
    pub deliveries: u64,
    /// The hash of all events.
    pub digest: Digest,
    /// What each task sent to others.
    pub sent: BTreeMap<TaskName, Traffic>,
    /// What each task's processor did.
    pub usage: BTreeMap<TaskName, ProcessorUsage>,
    /// What has crossed the network card of each task's host.
    pub cards: BTreeMap<TaskName, CardTraffic>,
    /// Where the time of training steps went.
    pub path: CriticalPathShares,
    /// The faults that did not happen, in the order in which they were skipped.
    pub skipped_faults: Vec<SkippedFault>,
}

impl<T> Outcome<T> {
    /// The outcome of a run of which nothing is known but its `error`.
    pub(super) fn unknown(error: Error) -> Self {
        Self {
            result: Err(error),
            ended: Time::ZERO,
            events: 0,
            deliveries: 0,
            digest: Digest(0),
            sent: BTreeMap::new(),
            usage: BTreeMap::new(),
            cards: BTreeMap::new(),
            path: CriticalPathShares::default(),
            skipped_faults: Vec::new(),
        }
    }
}
