//! `[compute]`: the speed of the tasks, and their number of devices.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;

use super::law::{LawFile, Seconds};
use super::mistakes::Mistakes;
use super::tasks::{Tasks, task_of};
use crate::cluster::TaskName;
use crate::kernels::Numerics;
use crate::simulation::ComputeSpec;
use crate::units::{BytesPerSecond, FlopsPerSecond};

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ComputeFile {
    rate: Option<FlopsPerSecond>,
    memory: Option<BytesPerSecond>,
    pub(super) devices: Option<u32>,
    straggler: Option<LawFile<f64>>,
    pub(super) slow: BTreeMap<String, f64>,
    step_time: Option<LawFile<Seconds>>,
    pub(super) numerics: Numerics,
}

/// A limit beyond the devices of any machine.
const MAX_DEVICES: u32 = 1024;

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
            Err(why) => found.note(path, why),
        }
    }
    slow
}

/// The speed of a device.
pub(super) fn compute(file: ComputeFile, found: &mut Mistakes) -> ComputeSpec {
    let rate = file.rate.unwrap_or(FlopsPerSecond(50e9));
    let memory = file.memory.unwrap_or(BytesPerSecond(10e9));
    found.above_0(rate.0, "compute.rate");
    found.above_0(memory.0, "compute.memory");
    let are_both = file.straggler.is_some() && file.step_time.is_some();
    found.unless(!are_both, "compute.step_time", || {
        "it already is the whole time of a step, which `straggler` can't multiply; remove one of \
         them"
            .to_owned()
    });
    ComputeSpec {
        rate,
        memory,
        straggler: file.straggler.map(|law| law.into_law("compute.straggler", Some(1.0), found)),
        step_time: file.step_time.map(|law| law.into_law("compute.step_time", None, found)),
    }
}
