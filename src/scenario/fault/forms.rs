//! The kinds of faults as a scenario has them: what each key says, which others go with it, and
//! what they make.

use std::mem::discriminant;

use crate::faults::FaultDetails;
use crate::simulation::FaultKind::{
    self, Crash, Freeze, FullDisk, Loss, OneWay, Partition, SlowLink, SlowTask, Stop,
    TornCheckpoint,
};

/// How a kind of fault is typed.
pub(super) struct Form {
    /// Its key, which is the kind's name in results, too.
    pub(super) key: &'static str,
    pub(super) says: Says,
    /// The keys that go with it: it needs them all, but for `restart_after`.
    pub(super) takes: &'static [&'static str],
    /// The kind with these details; none if it lacks one that it needs.
    pub(super) make: fn(FaultDetails) -> Option<FaultKind>,
}

/// What the key of a kind says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// To which task it happens, or of which job to each task.
    Each,
    /// Between which tasks it happens, two or more.
    Between,
    /// From which task it happens to which other.
    FromTo,
    /// That it happens, to the run's checkpoints.
    True,
    /// How the run's checkpoints are damaged.
    Damage,
}

/// All kinds. A fault has the key of one.
pub(super) static FORMS: [Form; 10] = [
    form("crash", Says::Each, &["restart_after"], |mut said| {
        Some(Crash { task: said.tasks.pop()?, restart_after: said.restart_after })
    }),
    form("stop", Says::Each, &["restart_after"], |mut said| {
        Some(Stop { task: said.tasks.pop()?, restart_after: said.restart_after })
    }),
    form("freeze", Says::Each, &["for"], |mut said| {
        Some(Freeze { task: said.tasks.pop()?, lasts: said.lasts? })
    }),
    form("partition", Says::Between, &["for"], |said| {
        Some(Partition { tasks: said.tasks, lasts: said.lasts? })
    }),
    form("one_way", Says::FromTo, &["for"], |said| {
        let [from, to] = said.tasks.try_into().ok()?;
        Some(OneWay { from, to, lasts: said.lasts? })
    }),
    form("loss", Says::Between, &["rate", "for"], |said| {
        Some(Loss { tasks: said.tasks, rate: said.rate?, lasts: said.lasts? })
    }),
    form("slow_link", Says::Between, &["factor", "for"], |said| {
        Some(SlowLink { tasks: said.tasks, factor: said.factor?, lasts: said.lasts? })
    }),
    form("slow_task", Says::Each, &["factor", "for"], |mut said| {
        Some(SlowTask { task: said.tasks.pop()?, factor: said.factor?, lasts: said.lasts? })
    }),
    form("full_disk", Says::True, &["for"], |said| Some(FullDisk { lasts: said.lasts? })),
    form("torn_checkpoint", Says::Damage, &[], |said| {
        Some(TornCheckpoint { damage: said.damage? })
    }),
];

const fn form(
    key: &'static str,
    says: Says,
    takes: &'static [&'static str],
    make: fn(FaultDetails) -> Option<FaultKind>,
) -> Form {
    Form { key, says, takes, make }
}

/// How `kind` is typed.
pub(super) fn form_of(kind: &FaultKind) -> &'static Form {
    let makes = |form: &&Form| {
        let made = (form.make)(kind.details());
        made.is_some_and(|made| discriminant(&made) == discriminant(kind))
    };
    FORMS.iter().find(makes).expect("every kind has a form")
}

/// The name of `kind`: its key in a scenario.
pub(crate) fn name_of(kind: &FaultKind) -> &'static str {
    form_of(kind).key
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::TaskName;
    use crate::simulation::Damage;

    #[test]
    fn a_kind_says_what_the_keys_of_its_form_say_and_is_none_without_one_that_it_needs() {
        let second = Some(Duration::from_secs(1));
        let all = |count| FaultDetails {
            tasks: (0..count).map(|index| TaskName::new("worker", index)).collect(),
            restart_after: second,
            lasts: second,
            rate: Some(0.5),
            factor: Some(2.0),
            damage: Some(Damage::Cut),
        };
        for form in &FORMS {
            let all = all(if form.says == Says::Each { 1 } else { 2 });
            let kind = (form.make)(all.clone()).unwrap();
            let FaultDetails { restart_after, lasts, rate, factor, damage, .. } = kind.details();
            let said = [
                ("restart_after", restart_after.is_some()),
                ("rate", rate.is_some()),
                ("factor", factor.is_some()),
                ("for", lasts.is_some()),
            ];
            let said = said.into_iter().filter(|(_, is_said)| *is_said).map(|(key, _)| key);
            assert_eq!(said.collect::<Vec<_>>(), form.takes, "{}", form.key);
            assert_eq!(damage.is_some(), form.says == Says::Damage);
            assert_eq!(form_of(&kind).key, form.key);
            for key in form.takes.iter().filter(|key| **key != "restart_after") {
                let mut fewer = all.clone();
                match *key {
                    "rate" => fewer.rate = None,
                    "factor" => fewer.factor = None,
                    _ => fewer.lasts = None,
                }
                assert_eq!((form.make)(fewer), None, "{} without {key}", form.key);
            }
        }
    }
}
