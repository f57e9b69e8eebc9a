//! Groups: which series of a report can be ranked with each other.

use std::collections::BTreeSet;

use crate::report::aim::Aim;
use crate::report::series::{Series, series};
use crate::report::{Report, Run, Swept};

/// What series have in common that can be ranked.
#[derive(PartialEq)]
struct Kind<'a> {
    settings: &'a Swept,
    /// The program by number and the target, if runs differ in them.
    aim: Option<(usize, Option<f64>)>,
    origin: Origin,
}

/// The global step that a series went on from: 0 if it began anew. Of one whose runs went on from
/// different ones all of them, and its name, since it is like no other.
#[derive(PartialEq)]
struct Origin {
    steps: BTreeSet<u64>,
    alone: Option<String>,
}

impl Origin {
    fn of(series: &Series<'_>) -> Self {
        let steps = series.runs.iter().map(|run| run.resumed_from.unwrap_or(0));
        let steps: BTreeSet<u64> = steps.collect();
        let alone = (steps.len() > 1).then(|| series.name());
        Self { steps, alone }
    }

    /// ` (from step 1570)`; nothing if all began anew.
    fn render(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(u64::to_string).collect();
        match &steps[..] {
            [step] if step == "0" => String::new(),
            [step] => format!(" (from step {step})"),
            _ => format!(" (from steps {})", steps.join(", ")),
        }
    }
}

/// The series of one kind: those that can be ranked.
pub(super) struct Group<'a> {
    kind: Kind<'a>,
    pub(super) target: Option<f64>,
    pub(super) series: Vec<Series<'a>>,
}

impl Report {
    /// For each point of a sweep that has runs with several aims, or that went on from different
    /// steps: a line that says which runs are compared with which.
    pub(in crate::report) fn kept_apart(&self) -> Vec<String> {
        let groups = self.groups();
        let mut points: Vec<(&Swept, Vec<&Group<'_>>)> = Vec::new();
        for group in &groups {
            let settings = group.kind.settings;
            match points.iter_mut().find(|(known, _)| *known == settings) {
                Some((_, there)) => there.push(group),
                None => points.push((settings, vec![group])),
            }
        }
        let several = points.into_iter().filter(|(_, groups)| groups.len() > 1);
        several.map(|(_, groups)| apart(&groups)).collect()
    }

    /// The series of this report, those together that can be ranked.
    pub(super) fn groups(&self) -> Vec<Group<'_>> {
        let mut found: Vec<Group<'_>> = Vec::new();
        // Whoever found the training finished is compared with none.
        let trained = |series: &Series<'_>| !series.runs.iter().all(|run| run.had_nothing_to_do());
        for series in series(self).into_iter().filter(trained) {
            let (settings, origin) = (series.settings(), Origin::of(&series));
            let kind = Kind { settings, aim: self.aim(series.runs[0]), origin };
            match found.iter_mut().find(|group| group.kind == kind) {
                Some(group) => group.series.push(series),
                None => {
                    let target = kind.aim.map_or(self.target, |(_, target)| target);
                    found.push(Group { kind, target, series: vec![series] });
                }
            }
        }
        found
    }

    /// The program and the target of `run`, if runs differ in them.
    fn aim(&self, run: &Run) -> Option<(usize, Option<f64>)> {
        // A tuned run has lost its learning rate.
        let has = |aim: &&Aim| {
            run.settings.iter().all(|(key, value)| aim.settings.get(key) == Some(value))
        };
        let aim = self.aims.iter().filter(|aim| aim.run == run.run).find(has)?;
        Some((aim.program, aim.target))
    }

    /// Whether the runs are to reach different accuracies.
    pub(in crate::report) fn has_own_targets(&self) -> bool {
        self.aims.iter().any(|aim| aim.target != self.target)
    }

    /// The accuracy that `run` is to reach, by itself.
    pub(in crate::report) fn own_target(&self, run: &Run) -> Option<f64> {
        self.aim(run)?.1
    }
}

/// That the runs of each of `groups` are compared with each other alone.
fn apart(groups: &[&Group<'_>]) -> String {
    let names = |group: &&Group<'_>| {
        let from = group.kind.origin.render();
        let names = group.series.iter().map(|series| format!("`{}`{from}", series.name()));
        names.collect::<Vec<_>>().join(", ")
    };
    let first = groups[0];
    let differ = |is_other: fn(&Group<'_>, &Group<'_>) -> bool| {
        groups.iter().any(|group| is_other(group, first))
    };
    let aims = if differ(|group, first| group.target != first.target) {
        Some("targets differ")
    } else {
        differ(|group, first| group.kind.aim != first.kind.aim).then_some("models or data differ")
    };
    let origins = differ(|group, first| group.kind.origin != first.kind.origin)
        .then_some("some went on from a checkpoint that others did not");
    let why = aims.into_iter().chain(origins).collect::<Vec<_>>().join(", and ");
    let names = groups.iter().map(names).collect::<Vec<_>>().join(" | ");
    format!("{why}, so that only these are compared with each other: {names}")
}
