//! What has been done for a training's steps, so that nothing is done twice for one that is taken
//! again.
//!
//! A step is taken again when its answer was lost with the way to a task: what it asked of other
//! tasks, and of that one, may have been done. Who takes steps takes one after the other, so that
//! the last of each is enough.

use std::collections::BTreeMap;

use crate::runtime::messages::Origin;

/// What came of the last step of each training of each master. A master of another life has another
/// number: what is left of the lives before is a few bytes each.
#[derive(Debug)]
pub(super) struct Done<T>(BTreeMap<(u64, u64), (u64, T)>);

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Done<T> {
    /// What came of the step, if it has been done.
    pub(super) fn done(&self, master: u64, origin: Origin) -> Option<T> {
        self.0
            .get(&(master, origin.training))
            .filter(|(last, _)| *last >= origin.number)
            .map(|(_, came)| *came)
    }

    /// The step has been done.
    pub(super) fn note(&mut self, master: u64, origin: Origin, came: T) {
        self.0.insert((master, origin.training), (origin.number, came));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_taken_again_has_been_done_and_the_next_one_has_not() {
        let mut done = Done::default();
        let origin = |number| Origin { training: 3, number };
        assert_eq!(done.done(7, origin(0)), None);
        done.note(7, origin(0), 'a');
        assert_eq!((done.done(7, origin(0)), done.done(7, origin(1))), (Some('a'), None));
        done.note(7, origin(1), 'b');
        assert_eq!(done.done(7, origin(1)), Some('b'));
        assert_eq!(
            (done.done(8, origin(1)), done.done(7, Origin { training: 4, number: 0 })),
            (None, None)
        );
    }
}
