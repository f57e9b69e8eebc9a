//! What a world observes of a run, beside the training's own record: the same for both worlds.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::cluster::TaskName;
use crate::report::TaskUsage;
use crate::runtime::Traffic;
use crate::simulation::{self, Activity, Cluster, Fault, Outcome, SkipReason, SkippedFault};
use crate::units::{Bytes, Time};

/// The world's observations of a run, beside the run's own record.
pub(super) struct Observed {
    /// The end of the run, on the run's own clock.
    pub(super) ended: Time,
    /// The data that each task sent to others.
    pub(super) sent: BTreeMap<TaskName, Traffic>,
    /// What each task of a simulation was busy with, until `ended`.
    pub(super) usage: BTreeMap<TaskName, TaskUsage>,
    /// The critical paths of a simulation's steps.
    pub(super) path: Option<simulation::CriticalPathShares>,
    /// The number of events of a simulation.
    pub(super) events: Option<u64>,
    /// The digest of a simulation.
    pub(super) digest: Option<String>,
    /// The faults that did not happen.
    pub(super) skipped_faults: Vec<SkippedFault>,
}

impl Observed {
    /// Of a deployment that has ended at `ended`.
    pub(super) fn deployed(ended: Time, sent: BTreeMap<TaskName, Traffic>) -> Self {
        Self {
            ended,
            sent,
            usage: BTreeMap::new(),
            path: None,
            events: None,
            digest: None,
            skipped_faults: Vec::new(),
        }
    }

    /// The same, where tasks were started one by one: nobody has inflicted these `faults` on them.
    pub(super) fn without(self, faults: &[Fault]) -> Self {
        let why = SkipReason::NobodyInflicts;
        let skipped = |fault: &Fault| SkippedFault { fault: fault.clone(), why };
        Self { skipped_faults: faults.iter().map(skipped).collect(), ..self }
    }

    /// What each task of a simulation was busy with in a training that ended at `ended`. A world
    /// may go on, until a lost worker is given up.
    pub(super) fn usage_until(&self, ended: Time) -> BTreeMap<TaskName, TaskUsage> {
        let longer = self.ended.as_secs_f64() / ended.as_secs_f64().max(f64::MIN_POSITIVE);
        let within = |share: f64| (share * longer).min(1.0);
        let of = |usage: &TaskUsage| TaskUsage {
            compute: within(usage.compute),
            messages: within(usage.messages),
            card_out: within(usage.card_out),
            card_in: within(usage.card_in),
        };
        self.usage.iter().map(|(task, usage)| (task.clone(), of(usage))).collect()
    }

    /// Of a simulation of `cluster`.
    pub(super) fn simulated(outcome: &Outcome<()>, cluster: &Cluster) -> Self {
        let tasks = outcome.usage.keys().cloned();
        Self {
            ended: outcome.ended,
            sent: outcome.sent.clone(),
            usage: tasks
                .map(|task| {
                    (task.clone(), usage(outcome, &task, cluster.hardware.main_devices(&task)))
                })
                .collect(),
            path: Some(outcome.path.clone()),
            events: Some(outcome.events),
            digest: Some(outcome.digest.to_string()),
            skipped_faults: outcome.skipped_faults.clone(),
        }
    }
}

/// What `task` was busy with in a simulation.
fn usage(outcome: &Outcome<()>, task: &TaskName, devices: NonZeroU32) -> TaskUsage {
    use Activity::{HandingOver, Kernels, Operations, Receiving, Sending, SmallKernels, Waking};
    let seconds = outcome.ended.as_secs_f64().max(f64::MIN_POSITIVE);
    let processor = &outcome.usage[task];
    let share = |activities: &[Activity]| -> f64 {
        activities.iter().map(|one| processor.of(*one).as_secs_f64()).sum::<f64>() / seconds
    };
    let card = &outcome.cards[task];
    let crossing = |bytes: Bytes| bytes.0 as f64 / card.rate.0 / seconds;
    TaskUsage {
        compute: share(&[Kernels, SmallKernels]) / f64::from(devices.get()),
        messages: share(&[Sending, Receiving, Waking, Operations, HandingOver]),
        card_out: crossing(card.out),
        card_in: crossing(card.into),
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;
    use crate::report::SkippedFaultText;
    use crate::training::train;

    #[test]
    fn the_report_names_the_faults_that_did_not_happen() {
        let text = "fault = [{ at = '1h', crash = 'worker:1' }, \
                    { at = '1us', slow_task = 'worker:1', factor = 2, for = '1ms' }]\n\
                    [cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
                    [stop]\nsteps = 4\n[[run]]\nname = 'a'\nmode = 'sync'\n";
        let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
        let late = r#"{ at = "3600s", crash = "worker:1" }"#;
        let expected = [SkippedFaultText::new(late, "the run had ended before")];
        assert_eq!(report.runs[0].skipped_faults, expected);
        assert_eq!(report.runs[0].faults, [("slow_task".to_owned(), 1)].into());
    }

    #[test]
    fn faults_that_a_law_draws_are_counted_and_those_in_vain_are_nobodys() {
        let text = "fault = [{ every = '10ms', freeze = 'worker:1', for = '1ms' }]\n\
                    [cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
                    [compute]\nstep_time = { law = 'constant', value = '10ms' }\n\
                    [stop]\nsteps = 40\ntime = '1min'\n[[run]]\nname = 'a'\nmode = 'sync'\n";
        let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
        let [run] = &report.runs[..] else { panic!("one run") };
        let expected = (run.seconds * 1e3 / 11.0) as u64;
        assert!(run.faults["freeze"].abs_diff(expected) <= 1, "{:?} of {expected}", run.faults);
        assert_eq!(run.skipped_faults, []);
    }
}
