//! Factors on groups of tasks and the links among them, as faults bring and end them.

/// The groups that have a factor. A link between two tasks of several groups has the product of
/// theirs. No factor is ever divided by: once all have ended, the product is 1 again.
#[derive(Default)]
pub(super) struct Factors(Vec<(Vec<usize>, f64)>);

impl Factors {
    pub(super) fn begin(&mut self, tasks: Vec<usize>, factor: f64) {
        self.0.push((tasks, factor));
    }

    /// Ends a `factor` that the group `tasks` was given.
    pub(super) fn end(&mut self, tasks: &[usize], factor: f64) {
        if let Some(own) = self.0.iter().position(|(group, of)| group == tasks && *of == factor) {
            self.0.remove(own);
        }
    }

    /// The factor of the link between two tasks, or of one task; 1 without a group that has both.
    pub(super) fn between(&self, from: usize, to: usize) -> f64 {
        let groups =
            self.0.iter().filter(|(group, _)| group.contains(&from) && group.contains(&to));
        groups.map(|(_, factor)| factor).product()
    }
}
