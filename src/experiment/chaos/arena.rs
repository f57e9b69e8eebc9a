//! The two worlds in which a timeline is tried: simulation here, real processes in `launches`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::{Simulated, Trainer, Trial};
use crate::checkpoint::{Memory, Store};
use crate::cluster::TaskName;
use crate::deployment::{Folder, cores};
use crate::runtime;
use crate::simulation::{Fault, FaultKind};
use crate::training::Recording;
use crate::units::Time;

/// A place to try timelines in.
pub(super) trait Arena: Sync {
    /// Trains `trial` under `faults`. It ends a training that still takes steps soon after
    /// `latest`. None if the user has asked to stop.
    fn train(&self, trial: &Trial, faults: &[Fault], latest: Option<Time>) -> Option<Attempt>;

    /// Whether it has faults of this kind.
    fn has(&self, trial: &Trial, kind: &FaultKind) -> bool;

    /// The number of timelines that are tried at once.
    fn jobs(&self) -> usize;

    /// The number of further trials of a timeline that broke a promise, and of trials of each
    /// shorter one. 0 where the same faults always end alike.
    fn repetitions(&self) -> u32;

    /// The seed of the first timeline of `trial`.
    fn first_seed(&self, trial: &Trial) -> u64;

    /// Whether a training that goes back to a checkpoint says exactly which steps are undone: it
    /// does where one clock tells which came before.
    fn undoes_steps(&self) -> bool;
}

/// How a training ended.
#[derive(Default)]
pub(super) struct Attempt {
    pub(super) ended: Time,
    /// Its error, if it has one.
    pub(super) failed: Option<runtime::Error>,
    pub(super) recording: Recording,
    /// The processes that logged nothing for too long while no step was taken.
    pub(super) silent: Vec<(TaskName, Duration)>,
    /// Its checkpoints, if it saves any.
    pub(super) store: Option<Arc<dyn Store>>,
    /// The last error or line of each task that has said anything.
    pub(super) last_words: BTreeMap<TaskName, String>,
    /// The folder of its logs and checkpoints, if it has one.
    pub(super) folder: Option<Folder>,
}

impl Attempt {
    /// The digest of the weights at the end.
    pub(super) fn weights(&self) -> Option<u64> {
        self.recording.ending?.weights_digest
    }
}

/// The simulated world.
pub(super) struct InSimulation<T> {
    trainer: T,
    /// Whether the user has asked to stop.
    stop: Arc<AtomicBool>,
}

impl<T> InSimulation<T> {
    /// Trains with `trainer` until `stop` is true.
    pub(super) fn new(trainer: T, stop: Arc<AtomicBool>) -> Self {
        Self { trainer, stop }
    }
}

impl<T: Trainer> Arena for InSimulation<T> {
    fn train(&self, trial: &Trial, faults: &[Fault], latest: Option<Time>) -> Option<Attempt> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let (store, mut trial) = (Memory::default(), trial.clone());
        if let Some(latest) = latest {
            let limit = latest.since(Time::ZERO) + Duration::from_secs(1);
            trial.settings.stop.time.get_or_insert(limit);
        }
        trial.cluster.faults.list = faults.to_vec();
        trial.keep_all_checkpoints(Arc::new(store.clone()));
        trial.draws_graph = false;
        let Simulated { recording, outcome, .. } = trial.simulate(&self.trainer);
        Some(Attempt {
            ended: outcome.ended,
            failed: outcome.result.err(),
            recording,
            store: Some(Arc::new(store)),
            ..Attempt::default()
        })
    }

    fn has(&self, _: &Trial, _: &FaultKind) -> bool {
        true
    }

    fn jobs(&self) -> usize {
        cores().get()
    }

    fn repetitions(&self) -> u32 {
        0
    }

    fn first_seed(&self, _: &Trial) -> u64 {
        0
    }

    fn undoes_steps(&self) -> bool {
        true
    }
}
