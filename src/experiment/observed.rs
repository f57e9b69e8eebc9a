//! What a world observes of a run, beside the training's own record: the same for both worlds.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::cluster::TaskName;
use crate::report::Usage;
use crate::runtime::Traffic;
use crate::simulation::{self, Activity, Cluster, Outcome};
use crate::units::{Bytes, Time};

/// The world's observations of a run, beside the run's own record.
pub(crate) struct Observed {
    /// The end of the run, on the run's own clock.
    pub(crate) ended: Time,
    /// The data that each task sent to others.
    pub(crate) sent: BTreeMap<TaskName, Traffic>,
    /// What each task of a simulation was busy with.
    pub(super) usage: BTreeMap<TaskName, Usage>,
    /// The critical paths of a simulation's steps.
    pub(super) path: Option<simulation::CriticalPath>,
    /// The number of events of a simulation.
    pub(crate) events: Option<u64>,
    /// The digest of a simulation.
    pub(crate) digest: Option<String>,
}

impl Observed {
    /// Of a deployment that has ended at `ended`.
    pub(crate) fn deployed(ended: Time, sent: BTreeMap<TaskName, Traffic>) -> Self {
        Self { ended, sent, usage: BTreeMap::new(), path: None, events: None, digest: None }
    }

    /// Of a simulation of `cluster`.
    pub(super) fn simulated(outcome: &Outcome<()>, cluster: &Cluster) -> Self {
        let tasks = outcome.usage.keys().cloned();
        Self {
            ended: outcome.ended,
            sent: outcome.sent.clone(),
            usage: tasks
                .map(|task| (task.clone(), usage(outcome, &task, cluster.main_devices(&task))))
                .collect(),
            path: Some(outcome.path.clone()),
            events: Some(outcome.events),
            digest: Some(outcome.digest.to_string()),
        }
    }
}

/// What `task` was busy with in a simulation.
fn usage(outcome: &Outcome<()>, task: &TaskName, devices: NonZeroU32) -> Usage {
    use Activity::{HandingOver, Kernels, Operations, Receiving, Sending, SmallKernels, Waking};
    let seconds = outcome.ended.as_secs_f64().max(f64::MIN_POSITIVE);
    let processor = &outcome.usage[task];
    let share = |activities: &[Activity]| -> f64 {
        activities.iter().map(|one| processor.of(*one).as_secs_f64()).sum::<f64>() / seconds
    };
    let card = &outcome.cards[task];
    let crossing = |bytes: Bytes| bytes.0 as f64 / card.rate.0 / seconds;
    Usage {
        compute: share(&[Kernels, SmallKernels]) / f64::from(devices.get()),
        messages: share(&[Sending, Receiving, Waking, Operations, HandingOver]),
        card_out: crossing(card.out),
        card_in: crossing(card.into),
    }
}
