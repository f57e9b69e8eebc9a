//! The variables that towers share, while these are built.

use super::OpId;

/// The variables of the first tower, and how many of them the tower under construction has taken.
#[derive(Default)]
pub(super) struct TowerVariables {
    /// In the order in which the first tower made them.
    made: Vec<OpId>,
    /// None for the first tower.
    taken: Option<usize>,
}

impl TowerVariables {
    /// The tower of this number begins.
    pub(super) fn begin(&mut self, number: usize) {
        self.taken = (number > 0).then_some(0);
    }

    /// Notes a variable of the first tower.
    pub(super) fn note(&mut self, variable: OpId) {
        if self.taken.is_none() {
            self.made.push(variable);
        }
    }

    /// The variable for a later tower that asks for its next one; `None` while the first is built,
    /// which makes them.
    pub(super) fn next(&mut self) -> Option<Option<OpId>> {
        let taken = self.taken.as_mut()?;
        *taken += 1;
        Some(self.made.get(*taken - 1).copied())
    }
}
