//! The variables that towers share or mirror, while these are built.

use super::OpId;

/// The variables of the first tower, and how many of them the tower under construction has taken.
/// A model that is built once more, to be evaluated, takes its own again.
#[derive(Default)]
pub(super) struct TowerVariables {
    /// Whether each tower has mirrors of the trainable ones.
    are_mirrored: bool,
    /// In the order in which the first tower made them.
    made: Vec<OpId>,
    /// None while variables are made, by the first tower.
    taken: Option<Taken>,
}

/// The number of the tower under construction, and how many variables it has taken.
pub(super) type Taken = (usize, usize);

impl TowerVariables {
    /// Variables of which each tower has mirrors.
    pub(super) fn mirrored() -> Self {
        Self { are_mirrored: true, ..Self::default() }
    }

    /// Whether each tower has mirrors of the trainable ones.
    pub(super) fn are_mirrored(&self) -> bool {
        self.are_mirrored
    }

    /// The tower of this number begins.
    pub(super) fn begin(&mut self, number: usize) {
        self.taken = (number > 0).then_some((number, 0));
    }

    /// Where the tower under construction is in the list of variables.
    pub(super) fn place(&self) -> Taken {
        self.taken.unwrap_or((0, self.made.len()))
    }

    /// Goes on from `place`: what was made or taken since is taken again. Returns what
    /// [`TowerVariables::go_on`] needs after that.
    pub(super) fn take_again(&mut self, place: Taken) -> Option<Taken> {
        self.taken.replace(place)
    }

    /// Goes on as before [`TowerVariables::take_again`].
    pub(super) fn go_on(&mut self, taken: Option<Taken>) {
        self.taken = taken;
    }

    /// Notes a variable of the first tower.
    pub(super) fn note(&mut self, variable: OpId) {
        if self.taken.is_none() {
            self.made.push(variable);
        }
    }

    /// The variable of the first tower that stands for the next one of a later tower, if there is
    /// one, and that tower's number; `None` while the first is built, which makes them.
    pub(super) fn next(&mut self) -> Option<(usize, Option<OpId>)> {
        let (tower, taken) = self.taken.as_mut()?;
        *taken += 1;
        Some((*tower, self.made.get(*taken - 1).copied()))
    }
}
