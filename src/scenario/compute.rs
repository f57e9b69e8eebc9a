//! `[compute]`: the speed of the tasks, and their number of devices.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::law::{LawFile, Seconds};
use super::mistakes::Mistakes;
use super::presets::Processor;
use super::tasks::{Tasks, task_of, tasks_of};
use crate::cluster::TaskName;
use crate::kernels::{KernelKind, Numerics};
use crate::simulation::ComputeSpec;
use crate::units::{BytesPerSecond, FlopsPerSecond, Span};

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ComputeFile {
    preset: Option<&'static Processor>,
    rate: Option<FlopsPerSecond>,
    memory: Option<BytesPerSecond>,
    efficiency: Option<BTreeMap<KernelKind, f64>>,
    pub(super) devices: Option<u32>,
    straggler: Option<LawFile<f64>>,
    pub(super) slow: BTreeMap<String, f64>,
    step_time: Option<LawFile<Seconds>>,
    stop_cost: Option<Span>,
    pub(super) numerics: Numerics,
    pub(super) tasks: BTreeMap<String, SpeedFile>,
}

/// What the section says of the speed of a device, and what it says so of a job or of a task.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SpeedFile {
    pub(super) preset: Option<&'static Processor>,
    rate: Option<FlopsPerSecond>,
    memory: Option<BytesPerSecond>,
    efficiency: Option<BTreeMap<KernelKind, f64>>,
    straggler: Option<LawFile<f64>>,
    step_time: Option<LawFile<Seconds>>,
    stop_cost: Option<Span>,
}

impl ComputeFile {
    /// The speed of all devices that have none of their own.
    pub(super) fn speed(self) -> SpeedFile {
        let Self { preset, rate, memory, efficiency, straggler, step_time, stop_cost, .. } = self;
        SpeedFile { preset, rate, memory, efficiency, straggler, step_time, stop_cost }
    }
}

/// A limit beyond the devices of any machine.
pub(super) const MAX_DEVICES: u32 = 1024;

/// The number of devices of a task.
pub(super) fn devices(given: Option<u32>, found: &mut Mistakes) -> NonZeroU32 {
    let devices = given.unwrap_or(1);
    found.unless((1..=MAX_DEVICES).contains(&devices), "compute.devices", || {
        format!("{devices} must be at least 1 and at most {MAX_DEVICES}")
    });
    NonZeroU32::new(devices).unwrap_or(NonZeroU32::MIN)
}

/// The tasks that are slower than the others, each with its factor.
pub(super) fn slow(
    file: &BTreeMap<String, f64>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<TaskName, f64> {
    let mut slow = BTreeMap::new();
    for (name, factor) in file {
        let path = format!("compute.slow.\"{name}\"");
        found.unless(factor.is_finite() && *factor > 0.0, &path, || {
            format!("{factor} must be finite and above 0")
        });
        match task_of(name, cluster) {
            Ok(task) => {
                slow.insert(task, *factor);
            }
            Err(why) => found.note(&path, why),
        }
    }
    slow
}

/// The speed of a device.
pub(super) fn compute(file: SpeedFile, found: &mut Mistakes) -> ComputeSpec {
    let standard = ComputeSpec {
        rate: FlopsPerSecond(50e9),
        memory: BytesPerSecond(10e9),
        efficiency: BTreeMap::new(),
        straggler: None,
        step_time: None,
        stop_cost: Duration::ZERO,
    };
    file.read("compute", found)(&standard)
}

/// The speeds of the tasks that have their own. What is given of a job is of all its tasks; what is
/// given of a task comes before that.
pub(super) fn own_compute(
    file: BTreeMap<String, SpeedFile>,
    all: &ComputeSpec,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> BTreeMap<TaskName, ComputeSpec> {
    let mut own = BTreeMap::new();
    // A job's name comes before those of its tasks.
    for (name, file) in file {
        let path = format!("compute.tasks.\"{name}\"");
        let speed = file.read(&path, found);
        match tasks_of(&name, cluster) {
            Ok(tasks) => {
                for task in tasks {
                    let before = own.get(&task).cloned().unwrap_or_else(|| of_job(&task, all));
                    own.insert(task, speed(&before));
                }
            }
            Err(why) => found.note(&path, why),
        }
    }
    own
}

/// The part of `all` that applies to a task: a parameter server takes no steps, so it has no laws.
pub(super) fn of_job(task: &TaskName, all: &ComputeSpec) -> ComputeSpec {
    match task.job() {
        "ps" => ComputeSpec { straggler: None, step_time: None, ..all.clone() },
        _ => all.clone(),
    }
}

/// Notes the kinds of kernels whose efficiency is no share.
pub(super) fn check_efficiency(
    efficiency: &BTreeMap<KernelKind, f64>,
    key: &str,
    found: &mut Mistakes,
) {
    for (kind, share) in efficiency {
        found.unless(*share > 0.0 && *share <= 1.0, key, || {
            format!("{kind:?}: {share} must be above 0 and at most 1").to_lowercase()
        });
    }
}

impl SpeedFile {
    /// Whether it has all that a preset gives.
    pub(super) fn has_rates(&self) -> bool {
        self.rate.is_some() && self.memory.is_some()
    }

    /// What it changes of a speed that is described already. A law takes the place of both laws.
    pub(super) fn read(
        self,
        path: &str,
        found: &mut Mistakes,
    ) -> impl Fn(&ComputeSpec) -> ComputeSpec + use<> {
        let key = |key: &str| format!("{path}.{key}");
        for (name, rate) in
            [("rate", self.rate.map(|rate| rate.0)), ("memory", self.memory.map(|rate| rate.0))]
        {
            rate.into_iter().for_each(|rate| found.above_0(rate, &key(name)));
        }
        if let Some(efficiency) = &self.efficiency {
            check_efficiency(efficiency, &key("efficiency"), found);
        }
        let are_both = self.straggler.is_some() && self.step_time.is_some();
        found.unless(!are_both, key("step_time"), || {
            "it already is the whole time of a step, which `straggler` can't multiply; remove one \
             of them"
                .to_owned()
        });
        found.unless(self.preset.is_none() || !self.has_rates(), key("preset"), || {
            format!(
                "it gives nothing here, since `rate` and `memory` have values of their own; \
                 remove these (`--unset {path}.rate --unset {path}.memory`), or the preset"
            )
        });
        let rate = self.rate.or(self.preset.map(|preset| preset.rate));
        let memory = self.memory.or(self.preset.map(|preset| preset.memory));
        let efficiency = self.efficiency;
        let straggler = self.straggler.map(|law| law.into_law(&key("straggler"), Some(1.0), found));
        let step_time = self.step_time.map(|law| law.into_law(&key("step_time"), None, found));
        let stop_cost = self.stop_cost.map(Duration::from);
        move |before| {
            let has_law = straggler.is_some() || step_time.is_some();
            let laws = if has_law {
                (&straggler, &step_time)
            } else {
                (&before.straggler, &before.step_time)
            };
            ComputeSpec {
                rate: rate.unwrap_or(before.rate),
                memory: memory.unwrap_or(before.memory),
                efficiency: efficiency.as_ref().unwrap_or(&before.efficiency).clone(),
                straggler: laws.0.clone(),
                step_time: laws.1.clone(),
                stop_cost: stop_cost.unwrap_or(before.stop_cost),
            }
        }
    }
}
