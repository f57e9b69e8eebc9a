//! Rankings: the verdicts between runs with one aim. A sample of one model says nothing of a sample
//! of another, nor the time to one accuracy of that to another.

use super::{Aim, Report, Run, Verdict};

impl Report {
    /// The program and the target of `run`, if they are known.
    fn aim(&self, run: &Run) -> Option<(usize, Option<f64>)> {
        // A tuned run has lost its learning rate.
        let has = |aim: &Aim| {
            run.settings.iter().all(|(key, value)| aim.settings.get(key) == Some(value))
        };
        let aim = self.aims.iter().find(|aim| aim.run == run.run && has(aim))?;
        Some((aim.program, aim.target))
    }

    /// Whether the runs are to reach different accuracies.
    pub(super) fn has_own_targets(&self) -> bool {
        self.aims.iter().any(|aim| aim.target != self.target)
    }

    /// The accuracy that `run` is to reach, by itself.
    pub(super) fn own_target(&self, run: &Run) -> Option<f64> {
        self.aim(run)?.1
    }

    /// The verdicts between runs with the same aim, each with their target.
    pub(super) fn rankings(&self) -> Vec<(Option<f64>, Verdict)> {
        let mut aims = Vec::new();
        for aim in self.runs.iter().map(|run| self.aim(run)) {
            if !aims.contains(&aim) {
                aims.push(aim);
            }
        }
        let of = |report: &Self| {
            let verdicts = report.verdicts().into_iter();
            verdicts.map(|verdict| (report.target, verdict)).collect::<Vec<_>>()
        };
        if aims.len() < 2 {
            return of(self);
        }
        let alike = |aim: Option<(usize, Option<f64>)>| {
            let runs = self.runs.iter().filter(|run| self.aim(run) == aim).cloned().collect();
            Self { runs, target: aim.and_then(|(_, target)| target), ..self.clone() }
        };
        aims.into_iter().flat_map(|aim| of(&alike(aim))).collect()
    }
}
