//! Faults as a scenario has them.

use std::time::Duration;

use super::DAMAGE;
use super::forms::{Says, form_of};
use crate::faults::FaultDetails;
use crate::simulation::{Fault, Trigger};
use crate::units::Time;

/// `faults` as a value of the key `fault`: parsed, it gives the same faults.
pub(crate) fn written(faults: &[Fault]) -> String {
    let is_timed = |fault: &Fault| fault.at.time().is_some();
    assert!(faults.iter().all(is_timed), "a scenario has times only: {faults:?}");
    let faults: Vec<String> = faults.iter().map(written_alone).collect();
    format!("[{}]", faults.join(", "))
}

/// `fault` as one of a scenario; of a fault that begins at no given time, what it begins with.
pub(crate) fn written_alone(fault: &Fault) -> String {
    let at = match fault.at {
        Trigger::Time(at) | Trigger::Drawn(at) => exact(at.since(Time::ZERO)),
        Trigger::Delivery(number) => format!("\"delivery {number}\""),
        Trigger::Event(number) => format!("\"event {number}\""),
    };
    let FaultDetails { tasks, restart_after, lasts, rate, factor, damage } = fault.kind.details();
    let form = form_of(&fault.kind);
    let names: Vec<String> = tasks.iter().map(|task| format!("\"{task}\"")).collect();
    let value = match form.says {
        Says::Each => names.concat(),
        Says::Between | Says::FromTo => format!("[{}]", names.join(", ")),
        Says::True => "true".to_owned(),
        Says::Damage => {
            let found = DAMAGE.iter().find(|(_, own)| Some(*own) == damage);
            format!("\"{}\"", found.expect("every damage has a name").0)
        }
    };
    let beside = [
        restart_after.map(|after| format!(", restart_after = {}", exact(after))),
        rate.map(|rate| format!(", rate = {rate:?}")),
        factor.map(|factor| format!(", factor = {factor:?}")),
        lasts.map(|lasts| format!(", for = {}", exact(lasts))),
    ];
    let beside: String = beside.into_iter().flatten().collect();
    format!("{{ at = {at}, {} = {value}{beside} }}", form.key)
}

/// A length of time in the largest unit in which it is a whole number.
fn exact(span: Duration) -> String {
    let nanos = span.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(("ns", 1));
    format!("\"{}{name}\"", nanos / unit)
}
