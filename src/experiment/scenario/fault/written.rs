//! Faults as a scenario has them.

use std::time::Duration;

use super::DAMAGE;
use crate::cluster::TaskName;
use crate::simulation::{Fault, FaultKind, Trigger};
use crate::units::Time;

/// `faults` as a value of the key `fault`: parsed, it gives the same faults.
pub(in crate::experiment) fn written(faults: &[Fault]) -> String {
    let is_timed = |fault: &Fault| fault.at.time().is_some();
    assert!(faults.iter().all(is_timed), "a scenario has times only: {faults:?}");
    let faults: Vec<String> = faults.iter().map(written_alone).collect();
    format!("[{}]", faults.join(", "))
}

/// `fault` as one of a scenario; of a fault that begins at no given time, what it begins with.
pub(in crate::experiment) fn written_alone(fault: &Fault) -> String {
    let at = match fault.at {
        Trigger::Time(at) | Trigger::Drawn(at) => exact(at.since(Time::ZERO)),
        Trigger::Delivery(number) => format!("\"delivery {number}\""),
        Trigger::Event(number) => format!("\"event {number}\""),
    };
    let list = |tasks: &[TaskName]| {
        let names: Vec<String> = tasks.iter().map(|task| format!("\"{task}\"")).collect();
        format!("[{}]", names.join(", "))
    };
    let ended = |how: &str, task: &TaskName, restart_after: Option<Duration>| {
        let back = restart_after.map(|after| format!(", restart_after = {}", exact(after)));
        format!("{how} = \"{task}\"{}", back.unwrap_or_default())
    };
    let what = match &fault.kind {
        FaultKind::Crash { task, restart_after } => ended("crash", task, *restart_after),
        FaultKind::Stop { task, restart_after } => ended("stop", task, *restart_after),
        FaultKind::Freeze { task, lasts } => {
            format!("freeze = \"{task}\", for = {}", exact(*lasts))
        }
        FaultKind::Partition { tasks, lasts } => {
            format!("partition = {}, for = {}", list(tasks), exact(*lasts))
        }
        FaultKind::OneWay { from, to, lasts } => {
            format!("one_way = [\"{from}\", \"{to}\"], for = {}", exact(*lasts))
        }
        FaultKind::Loss { tasks, rate, lasts } => {
            format!("loss = {}, rate = {rate:?}, for = {}", list(tasks), exact(*lasts))
        }
        FaultKind::SlowLink { tasks, factor, lasts } => {
            let tasks = list(tasks);
            format!("slow_link = {tasks}, factor = {factor:?}, for = {}", exact(*lasts))
        }
        FaultKind::FullDisk { lasts } => format!("full_disk = true, for = {}", exact(*lasts)),
        FaultKind::TornCheckpoint { damage } => {
            let found = DAMAGE.iter().find(|(_, own)| own == damage);
            let (name, _) = found.expect("every damage has a name");
            format!("torn_checkpoint = \"{name}\"")
        }
        FaultKind::SlowTask { task, factor, lasts } => {
            format!("slow_task = \"{task}\", factor = {factor:?}, for = {}", exact(*lasts))
        }
    };
    format!("{{ at = {at}, {what} }}")
}

/// A length of time in the largest unit in which it is a whole number.
fn exact(span: Duration) -> String {
    let nanos = span.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(("ns", 1));
    format!("\"{}{name}\"", nanos / unit)
}
