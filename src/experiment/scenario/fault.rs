//! `[[fault]]`: each is one fault, with exactly the keys that its kind needs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::mistakes::Mistakes;
use super::tasks::{Tasks, task_of};
use crate::cluster::TaskName;
use crate::simulation::{Damage, Fault, FaultKind, Faults, Trigger};
use crate::units::{Span, Time};

/// The kinds of faults, for errors.
const KINDS: &str = "`crash`, `stop`, `freeze`, `partition`, `one_way`, `loss`, `slow_link`, \
                     `slow_task`, `full_disk` or `torn_checkpoint`";
/// The kinds of damage to a checkpoint, by their names in a scenario.
const DAMAGE: [(&str, Damage); 2] = [("cut", Damage::Cut), ("changed", Damage::Changed)];

/// A fault as it is typed: when, what, and for how long.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultFile {
    at: Option<Span>,
    crash: Option<String>,
    stop: Option<String>,
    restart_after: Option<Span>,
    freeze: Option<String>,
    partition: Option<Vec<String>>,
    one_way: Option<Vec<String>>,
    loss: Option<Vec<String>>,
    rate: Option<f64>,
    slow_link: Option<Vec<String>>,
    slow_task: Option<String>,
    full_disk: Option<bool>,
    torn_checkpoint: Option<String>,
    factor: Option<f64>,
    #[serde(rename = "for")]
    lasts: Option<Span>,
}

pub(super) fn faults(
    file: Vec<FaultFile>,
    silence: Option<Duration>,
    cluster: &BTreeMap<String, Tasks>,
    has_checkpoints: bool,
    found: &mut Mistakes,
) -> Faults {
    let silence = silence.unwrap_or(Faults::SILENCE);
    found.above_0(silence.as_secs_f64(), "network.silence");
    let read = |(index, fault)| {
        let path = format!("fault[{index}]");
        One { path, cluster, has_checkpoints, found: &mut *found }.read(fault)
    };
    Faults { silence, list: file.into_iter().enumerate().filter_map(read).collect() }
}

/// The fault being read.
struct One<'a> {
    path: String,
    cluster: &'a BTreeMap<String, Tasks>,
    has_checkpoints: bool,
    found: &'a mut Mistakes,
}

impl One<'_> {
    /// Reads the fault; none if something is missing. Notes mistakes.
    fn read(mut self, file: FaultFile) -> Option<Fault> {
        let kinds = [
            file.crash.is_some(),
            file.stop.is_some(),
            file.freeze.is_some(),
            file.partition.is_some(),
            file.one_way.is_some(),
            file.loss.is_some(),
            file.slow_link.is_some(),
            file.slow_task.is_some(),
            file.full_disk == Some(true),
            file.torn_checkpoint.is_some(),
        ];
        if kinds.iter().filter(|given| **given).count() != 1 {
            self.found.note(self.path.clone(), format!("a fault is one of {KINDS}"));
            return None;
        }
        let is_slow = file.slow_link.is_some() || file.slow_task.is_some();
        let ends = file.crash.is_some() || file.stop.is_some();
        self.only(
            file.restart_after.is_some(),
            "restart_after",
            ends,
            "a task that crashes or is asked to stop",
        );
        self.only(file.rate.is_some(), "rate", file.loss.is_some(), "a fault that loses packets");
        self.only(file.factor.is_some(), "factor", is_slow, "a fault that slows something down");
        self.only(
            file.lasts.is_some(),
            "for",
            !ends && file.torn_checkpoint.is_none(),
            "a fault that passes; a crash or a stop has `restart_after`",
        );
        self.saved(file.full_disk == Some(true), "full_disk");
        self.saved(file.torn_checkpoint.is_some(), "torn_checkpoint");
        let at = self.needed(file.at, "at", "when it happens, for example \"2s\"");
        let restart_after = file.restart_after.map(Duration::from);
        self.above_0(restart_after, "restart_after");
        let kind = if let Some(name) = file.crash {
            self.task(&name, "crash").map(|task| FaultKind::Crash { task, restart_after })
        } else if let Some(name) = file.stop {
            self.task(&name, "stop").map(|task| FaultKind::Stop { task, restart_after })
        } else if let Some(damage) = &file.torn_checkpoint {
            self.damage(damage)
        } else {
            self.passing(file)
        };
        Some(Fault { at: Trigger::Time(Time::ZERO.after(Duration::from(at?))), kind: kind? })
    }

    fn damage(&mut self, name: &str) -> Option<FaultKind> {
        let found = DAMAGE.iter().find(|(own, _)| *own == name);
        let path = self.key("torn_checkpoint");
        self.found.unless(found.is_some(), path, || {
            format!("`{name}` is no damage: \"cut\" or \"changed\"")
        });
        found.map(|(_, damage)| FaultKind::TornCheckpoint { damage: *damage })
    }

    /// Reads a fault that lasts for a time.
    fn passing(&mut self, file: FaultFile) -> Option<FaultKind> {
        let lasts = self
            .needed(file.lasts, "for", "how long it lasts, for example \"500ms\"")
            .map(Duration::from);
        self.above_0(lasts, "for");
        let factor = match file.slow_link.is_some() || file.slow_task.is_some() {
            true => self.needed(file.factor, "factor", "how many times as long everything takes"),
            false => None,
        };
        if let Some(factor) = factor {
            let (path, is_sound) = (self.key("factor"), (1.0..=1e6).contains(&factor));
            let wish = || format!("{factor} must be at least 1 and at most a million");
            self.found.unless(is_sound, path, wish);
        }
        if file.full_disk == Some(true) {
            return Some(FaultKind::FullDisk { lasts: lasts? });
        }
        if let Some(name) = file.freeze {
            return Some(FaultKind::Freeze { task: self.task(&name, "freeze")?, lasts: lasts? });
        }
        if let Some(names) = file.partition {
            return Some(FaultKind::Partition {
                tasks: self.tasks(&names, "partition")?,
                lasts: lasts?,
            });
        }
        if let Some(names) = file.one_way {
            let [from, to]: [TaskName; 2] = match self.tasks(&names, "one_way")?.try_into() {
                Ok(two) => two,
                Err(_) => {
                    let path = self.key("one_way");
                    self.found.note(path, "it is from one task to another".to_owned());
                    return None;
                }
            };
            return Some(FaultKind::OneWay { from, to, lasts: lasts? });
        }
        if let Some(names) = file.loss {
            let tasks = self.tasks(&names, "loss")?;
            let rate = self.needed(file.rate, "rate", "the chance of a loss, for example 0.1")?;
            let (path, is_sound) = (self.key("rate"), rate > 0.0 && rate < 1.0);
            self.found.unless(is_sound, path, || format!("{rate} must be above 0 and below 1"));
            return Some(FaultKind::Loss { tasks, rate, lasts: lasts? });
        }
        if let Some(names) = file.slow_link {
            let tasks = self.tasks(&names, "slow_link")?;
            return Some(FaultKind::SlowLink { tasks, factor: factor?, lasts: lasts? });
        }
        let task = self.task(&file.slow_task?, "slow_task")?;
        Some(FaultKind::SlowTask { task, factor: factor?, lasts: lasts? })
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn only(&mut self, is_given: bool, key: &str, fits: bool, of: &str) {
        let path = self.key(key);
        self.found.unless(!is_given || fits, path, || format!("only of {of}"));
    }

    /// Notes a fault of checkpoints in a scenario that has none.
    fn saved(&mut self, is_given: bool, key: &str) {
        let path = self.key(key);
        self.found.unless(!is_given || self.has_checkpoints, path, || {
            "the run has no checkpoints for it to harm; add `[checkpoint]`, or leave the fault out"
                .to_owned()
        });
    }

    fn needed<T>(&mut self, value: Option<T>, key: &str, what: &str) -> Option<T> {
        if value.is_none() {
            self.found.note(self.path.clone(), format!("`{key}` is missing: {what}"));
        }
        value
    }

    fn above_0(&mut self, time: Option<Duration>, key: &str) {
        let path = self.key(key);
        self.found.above_0(time.map_or(1.0, |time| time.as_secs_f64()), &path);
    }

    fn task(&mut self, name: &str, key: &str) -> Option<TaskName> {
        let path = self.key(key);
        task_of(name, self.cluster).map_err(|why| self.found.note(path, why)).ok()
    }

    /// Reads the tasks in `names`: at least two, each once.
    fn tasks(&mut self, names: &[String], key: &str) -> Option<Vec<TaskName>> {
        let tasks: Vec<TaskName> = names.iter().filter_map(|name| self.task(name, key)).collect();
        let is_once = |(index, task): (usize, &TaskName)| !tasks[..index].contains(task);
        let are_several = names.len() >= 2 && tasks.iter().enumerate().all(is_once);
        let path = self.key(key);
        self.found.unless(are_several, path, || {
            "it is between two tasks or more, each named once".to_owned()
        });
        (are_several && tasks.len() == names.len()).then_some(tasks)
    }
}

/// `faults` as a value of the key `fault`: parsed, it gives the same faults.
pub(crate) fn written(faults: &[Fault]) -> String {
    let is_timed = |fault: &Fault| matches!(fault.at, Trigger::Time(_));
    assert!(faults.iter().all(is_timed), "a scenario has times only: {faults:?}");
    let faults: Vec<String> = faults.iter().map(written_alone).collect();
    format!("[{}]", faults.join(", "))
}

/// `fault` as one of a scenario; of a fault that begins at no given time, what it begins with.
pub(crate) fn written_alone(fault: &Fault) -> String {
    let at = match fault.at {
        Trigger::Time(at) => exact(at.since(Time::ZERO)),
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
