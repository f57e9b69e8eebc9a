//! `LastRead`: when a worker that trains copies of its own last read their centers.
//!
//! Its next exchange is of that version of them, however many steps later it comes. The exchange
//! can't ask for the version itself: others may have moved the centers meanwhile.
//!
//! None of this is in checkpoints: versions are of one epoch. A worker that goes back to a
//! checkpoint notes the version of the centers as they were restored.

use crate::graph::{GraphError, Output, Target, Variable};

/// Suffix of the variable that stores the last-read version of a center, or the global step.
const SUFFIX: &str = "/last_read";

/// The worker's own variables with the global step and the version of each center, as they were
/// when it last read the centers.
pub(super) struct LastRead {
    shared: Variable,
    global_step: Variable,
    versions: Vec<(Variable, Variable)>,
}

impl LastRead {
    /// Creates the variables; a worker reads `centers` first when its own variables get their first
    /// values.
    #[track_caller]
    pub(super) fn new<'a>(
        global_step: &Variable,
        centers: impl Iterator<Item = &'a Variable>,
    ) -> Result<Self, GraphError> {
        let graph = global_step.graph();
        let version_of = |center: &Variable| {
            let (name, first) = (noted(center), version(&center.read()));
            Ok((center.clone(), graph.local_variable(&name, &first)?))
        };
        let versions = centers.map(version_of).collect::<Result<_, GraphError>>()?;
        let own = graph.local_variable(&noted(global_step), &global_step.read())?;
        Ok(Self { shared: global_step.clone(), global_step: own, versions })
    }

    /// Whether `name` is that of such a variable.
    pub(super) fn has(name: &str) -> bool {
        name.ends_with(SUFFIX)
    }

    /// The global step at the last read.
    pub(super) fn read_global_step(&self) -> Output {
        self.global_step.read()
    }

    /// Each center, with its version at the last read.
    pub(super) fn read_versions(&self) -> Vec<(Variable, Output)> {
        self.versions.iter().map(|(center, version)| (center.clone(), version.read())).collect()
    }

    /// Notes that the worker reads the centers, by the reads `centers`, in their order.
    #[track_caller]
    pub(super) fn note(&self, centers: &[Output]) -> Result<Vec<Target>, GraphError> {
        let mut targets = vec![self.global_step.assign(&self.shared.read_again())?];
        for ((_, own), center) in self.versions.iter().zip(centers) {
            targets.push(own.assign(&version(center))?);
        }
        Ok(targets)
    }
}

/// The name of the own variable that says how far `variable` was.
fn noted(variable: &Variable) -> String {
    format!("{}{SUFFIX}", variable.name())
}

/// The version of a variable (i64), by the same read as `value`.
fn version(value: &Output) -> Output {
    value.sibling(1)
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::optimizer::{GradientDescent, IntoOptimizer, LocalSgd};
    use crate::sync::Mode;

    /// The worker's own variables where it averages `w` with so many backups.
    fn own(backups: u32) -> Vec<String> {
        let g = Graph::new();
        let zero = g.constant(0f32);
        let w = g.with_local_variables(|g| g.variable("w", &zero)).unwrap();
        let outer =
            GradientDescent::new(1.0).coordinated(Mode::Sync { backups, cancel: false }, 0, 3);
        let local = LocalSgd::new(GradientDescent::new(0.1), outer, 2);
        local.apply_gradients(&[(w, zero)], &g.global_step().unwrap()).unwrap();
        g.local_initializers().iter().map(|(variable, _)| variable.name()).collect()
    }

    #[test]
    fn only_a_worker_whose_moves_may_come_too_late_notes_its_reads_which_no_checkpoint_has() {
        let all = own(0);
        let noted: Vec<String> = own(1).into_iter().filter(|name| !all.contains(name)).collect();
        assert_eq!(noted, ["w/center/last_read", "global_step/last_read"]);
        assert!(noted.iter().all(|name| LocalSgd::notes_a_read(name)));
        assert!(!all.iter().any(|name| LocalSgd::notes_a_read(name)));
    }
}
