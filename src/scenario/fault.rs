//! `[[fault]]`: each is one fault, or one that comes again and again, with exactly the keys that
//! its kind needs.

mod forms;
mod recurring;
mod typed;
mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use self::forms::{FORMS, Form, Says};
use self::recurring::Recurring;
use super::error::listed;
use super::mistakes::Mistakes;
use super::tasks::{Tasks, task_of, tasks_of};
use crate::cluster::TaskName;
use crate::faults::FaultDetails;
use crate::simulation::{Damage, Fault, FaultKind, Faults, Trigger};
use crate::units::Time;

pub(crate) use self::forms::name_of;
pub(super) use self::typed::FaultFile;
pub(crate) use self::written::{written, written_alone};

/// The kinds of damage to a checkpoint, by their names in a scenario.
const DAMAGE: [(&str, Damage); 2] = [("cut", Damage::Cut), ("changed", Damage::Changed)];

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
    pub(crate) fn of_seed(&self, seed: u64) -> Faults {
        let mut faults = self.once.clone();
        faults.list.extend(self.again.iter().flat_map(|recurring| recurring.draw(seed)));
        faults
    }
}

pub(super) fn faults(
    file: Vec<FaultFile>,
    silence: Duration,
    setting: &Setting<'_>,
    found: &mut Mistakes,
) -> ScenarioFaults {
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
    fn read(mut self, file: FaultFile) -> Option<FaultTimes> {
        let [(form, names)] = &file.kinds[..] else {
            let kinds = listed(FORMS.iter().map(|form| form.key), "or");
            self.found.note(self.path.clone(), format!("a fault is one of {kinds}"));
            return None;
        };
        let kinds = self.kinds(form, names, file.beside);
        let FaultFile { at, every, .. } = file;
        if let Some(every) = every {
            let (path, is_missing) = (self.key("at"), at.is_none());
            self.found.unless(is_missing, path, || {
                "only of a fault that happens once; another has `every`".to_owned()
            });
            return self.recurring(every, kinds?).map(FaultTimes::Again);
        }
        let when = "when it happens, for example \"2s\", or `every` how long";
        let at = Trigger::Time(Time::ZERO.after(self.needed(at, "at", when)?.into()));
        Some(FaultTimes::Once(kinds?.into_iter().map(|kind| Fault { at, kind }).collect()))
    }

    /// What happens, to each of the tasks in `names`; `beside` says the rest.
    fn kinds(
        &mut self,
        form: &Form,
        names: &[String],
        mut beside: FaultDetails,
    ) -> Option<Vec<FaultKind>> {
        self.check(form, &beside);
        let is_of_disk = matches!(form.says, Says::True | Says::Damage);
        let path = self.key(form.key);
        self.found.unless(!is_of_disk || self.setting.has_checkpoints, path, || {
            "the run has no checkpoints for it to harm; add `[checkpoint]`, or leave the fault out"
                .to_owned()
        });
        let groups = match form.says {
            Says::Each => {
                self.each(&names[0], form.key)?.into_iter().map(|task| vec![task]).collect()
            }
            Says::Between | Says::FromTo => vec![self.tasks(names, form)?],
            Says::True => vec![Vec::new()],
            Says::Damage => {
                beside.damage = Some(self.damage(&names[0], form.key)?);
                vec![Vec::new()]
            }
        };
        let with = |tasks| (form.make)(FaultDetails { tasks, ..beside.clone() });
        groups.into_iter().map(with).collect()
    }

    /// Notes what `beside` a key of this `form` is too much, missing or out of range.
    fn check(&mut self, form: &Form, beside: &FaultDetails) {
        let FaultDetails { restart_after, lasts, rate, factor, .. } = *beside;
        let lasting = "how long it lasts, for example \"500ms\"";
        for (key, is_given, needed) in [
            ("restart_after", restart_after.is_some(), None),
            ("for", lasts.is_some(), Some(lasting)),
            ("rate", rate.is_some(), Some("the chance of a loss, for example 0.1")),
            ("factor", factor.is_some(), Some("how many times as long everything takes")),
        ] {
            let takes = |form: &Form| form.takes.contains(&key);
            let path = self.key(key);
            self.found.unless(!is_given || takes(form), path, || {
                let those = FORMS.iter().filter(|form| takes(form)).map(|form| form.key);
                let (those, own) = (listed(those, "or"), listed(form.takes.iter().copied(), "and"));
                format!("only of {those}; `{}` takes {own}", form.key)
            });
            if let Some(what) = needed.filter(|_| takes(form)) {
                self.needed(is_given.then_some(()), key, what);
            }
        }
        for (key, time) in [("restart_after", restart_after), ("for", lasts)] {
            let path = self.key(key);
            self.found.above_0(time.map_or(1.0, |time| time.as_secs_f64()), &path);
        }
        if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate < 1.0)) {
            self.found.note(self.key("rate"), format!("{rate} must be above 0 and below 1"));
        }
        if let Some(factor) = factor.filter(|factor| !(1.0..=1e6).contains(factor)) {
            let text = format!("{factor} must be at least 1 and at most a million");
            self.found.note(self.key("factor"), text);
        }
    }

    fn damage(&mut self, name: &str, key: &str) -> Option<Damage> {
        let found = DAMAGE.iter().find(|(own, _)| *own == name);
        let path = self.key(key);
        self.found.unless(found.is_some(), path, || {
            format!("`{name}` is no damage: \"cut\" or \"changed\"")
        });
        found.map(|(_, damage)| *damage)
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn needed<T>(&mut self, value: Option<T>, key: &str, what: &str) -> Option<T> {
        if value.is_none() {
            self.found.note(self.path.clone(), format!("`{key}` is missing: {what}"));
        }
        value
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

    /// Reads the tasks in `names`: at least two, each once, and two of a way.
    fn tasks(&mut self, names: &[String], form: &Form) -> Option<Vec<TaskName>> {
        let tasks: Vec<TaskName> =
            names.iter().filter_map(|name| self.task(name, form.key)).collect();
        let is_once = |(index, task): (usize, &TaskName)| !tasks[..index].contains(task);
        let are_several = names.len() >= 2 && tasks.iter().enumerate().all(is_once);
        let is_way = form.says == Says::FromTo;
        let is_sound = are_several && !(is_way && names.len() > 2);
        let path = self.key(form.key);
        self.found.unless(is_sound, path, || {
            let wish = match is_way {
                true => "it is from one task to another",
                false => "it is between two tasks or more, each named once",
            };
            wish.to_owned()
        });
        (is_sound && tasks.len() == names.len()).then_some(tasks)
    }
}
