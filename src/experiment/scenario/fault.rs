//! `[[fault]]`: each is one fault, or one that comes again and again, with exactly the keys that
//! its kind needs.

mod recurring;
mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use self::recurring::{Every, Recurring};
use super::mistakes::Mistakes;
use super::tasks::{Tasks, task_of, tasks_of};
use crate::cluster::TaskName;
use crate::simulation::{Damage, Fault, FaultKind, Faults, Trigger};
use crate::units::{Span, Time};

pub(in crate::experiment) use self::written::{written, written_alone};

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
    every: Option<Every>,
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

/// What faults happen to.
pub(super) struct Setting<'a> {
    pub(super) cluster: &'a BTreeMap<String, Tasks>,
    pub(super) has_checkpoints: bool,
    pub(super) seed: u64,
    /// When the training ends at the latest, if that is limited.
    pub(super) time_limit: Option<Duration>,
}

/// The faults of a scenario, whatever its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFaults {
    /// Those that happen once.
    pub once: Faults,
    /// Those that come again and again.
    pub(super) again: Vec<Recurring>,
}

impl ScenarioFaults {
    /// The faults of a run with `seed`.
    pub(in crate::experiment) fn of_seed(&self, seed: u64) -> Faults {
        let mut faults = self.once.clone();
        faults.list.extend(self.again.iter().flat_map(|recurring| recurring.draw(seed)));
        faults
    }
}

pub(super) fn faults(
    file: Vec<FaultFile>,
    silence: Option<Duration>,
    setting: &Setting<'_>,
    found: &mut Mistakes,
) -> ScenarioFaults {
    let silence = silence.unwrap_or(Faults::SILENCE);
    found.above_0(silence.as_secs_f64(), "network.silence");
    let (mut list, mut again) = (Vec::new(), Vec::new());
    for (index, fault) in file.into_iter().enumerate() {
        let path = format!("fault[{index}]");
        match (One { path, setting, found: &mut *found }).read(fault) {
            Some(FaultTimes::Once(faults)) => list.extend(faults),
            Some(FaultTimes::Again(recurring)) => again.push(recurring),
            None => {}
        }
    }
    ScenarioFaults { once: Faults { silence, list }, again }
}

/// What a `[[fault]]` says.
enum FaultTimes {
    /// A fault of each of its tasks.
    Once(Vec<Fault>),
    Again(Recurring),
}

/// The fault being read.
struct One<'a> {
    path: String,
    setting: &'a Setting<'a>,
    found: &'a mut Mistakes,
}

impl One<'_> {
    /// Reads the fault; none if something is missing. Notes mistakes.
    fn read(mut self, mut file: FaultFile) -> Option<FaultTimes> {
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
        let (at, every) = (file.at, file.every.take());
        let kinds = self.kinds(file);
        if let Some(every) = every {
            self.only(at.is_some(), "at", false, "a fault that happens once; another has `every`");
            return self.recurring(every, kinds?).map(FaultTimes::Again);
        }
        let when = "when it happens, for example \"2s\", or `every` how long";
        let at = Trigger::Time(Time::ZERO.after(self.needed(at, "at", when)?.into()));
        Some(FaultTimes::Once(kinds?.into_iter().map(|kind| Fault { at, kind }).collect()))
    }

    /// What happens, to each of the tasks that are named.
    fn kinds(&mut self, file: FaultFile) -> Option<Vec<FaultKind>> {
        let restart_after = file.restart_after.map(Duration::from);
        self.above_0(restart_after, "restart_after");
        if let Some(name) = file.crash {
            let crash = |task| FaultKind::Crash { task, restart_after };
            Some(self.each(&name, "crash")?.into_iter().map(crash).collect())
        } else if let Some(name) = file.stop {
            let stop = |task| FaultKind::Stop { task, restart_after };
            Some(self.each(&name, "stop")?.into_iter().map(stop).collect())
        } else if let Some(damage) = &file.torn_checkpoint {
            Some(vec![self.damage(damage)?])
        } else {
            self.passing(file)
        }
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
    fn passing(&mut self, file: FaultFile) -> Option<Vec<FaultKind>> {
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
        if let Some(name) = file.freeze {
            let (tasks, lasts) = (self.each(&name, "freeze")?, lasts?);
            let freeze = |task| FaultKind::Freeze { task, lasts };
            return Some(tasks.into_iter().map(freeze).collect());
        }
        if let Some(name) = file.slow_task {
            let (tasks, factor, lasts) = (self.each(&name, "slow_task")?, factor?, lasts?);
            let slow = |task| FaultKind::SlowTask { task, factor, lasts };
            return Some(tasks.into_iter().map(slow).collect());
        }
        Some(vec![if let Some(names) = file.partition {
            FaultKind::Partition { tasks: self.tasks(&names, "partition")?, lasts: lasts? }
        } else if let Some(names) = file.one_way {
            let [from, to] = self.two(&names, "one_way")?;
            FaultKind::OneWay { from, to, lasts: lasts? }
        } else if let Some(names) = file.loss {
            let tasks = self.tasks(&names, "loss")?;
            let rate = self.needed(file.rate, "rate", "the chance of a loss, for example 0.1")?;
            let (path, is_sound) = (self.key("rate"), rate > 0.0 && rate < 1.0);
            self.found.unless(is_sound, path, || format!("{rate} must be above 0 and below 1"));
            FaultKind::Loss { tasks, rate, lasts: lasts? }
        } else if let Some(names) = file.slow_link {
            let tasks = self.tasks(&names, "slow_link")?;
            FaultKind::SlowLink { tasks, factor: factor?, lasts: lasts? }
        } else {
            FaultKind::FullDisk { lasts: lasts? }
        }])
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
        self.found.unless(!is_given || self.setting.has_checkpoints, path, || {
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
        task_of(name, self.setting.cluster).map_err(|why| self.found.note(path, why)).ok()
    }

    /// Reads the task `name`, or all of the job `name`.
    fn each(&mut self, name: &str, key: &str) -> Option<Vec<TaskName>> {
        let path = self.key(key);
        tasks_of(name, self.setting.cluster).map_err(|why| self.found.note(path, why)).ok()
    }

    /// Reads the two tasks in `names`.
    fn two(&mut self, names: &[String], key: &str) -> Option<[TaskName; 2]> {
        let tasks = self.tasks(names, key)?;
        let two = <[TaskName; 2]>::try_from(tasks).ok();
        let path = self.key(key);
        self.found.unless(two.is_some(), path, || "it is from one task to another".to_owned());
        two
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
