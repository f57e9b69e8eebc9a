//! Processes that log nothing while the training takes no step: every wait is to be told, a line
//! each [`NOTICE`].

use crate::deployment::control::BEAT_EVERY;
use crate::runtime::NOTICE;

/// The beats between two lines about a wait.
pub(super) const TELL_EVERY: u32 = (NOTICE.as_secs() / BEAT_EVERY.as_secs()) as u32;
/// The longest silence \[beats\]: three lines of a wait.
pub(super) const LONGEST: u32 = 3 * TELL_EVERY;

/// How long a process has logged nothing.
#[derive(Default)]
pub(super) struct Quiet {
    /// The length of its log \[bytes\].
    logged: u64,
    /// The global step that it was at.
    global_step: u64,
    /// The beats since it logged, took a step, or stood still.
    beats: u32,
}

impl Quiet {
    /// It is at `global_step`.
    pub(super) fn steps(&mut self, global_step: u64) -> bool {
        std::mem::replace(&mut self.global_step, global_step) != global_step
    }

    /// A step was taken.
    pub(super) fn begin_again(&mut self) {
        self.beats = 0;
    }

    /// Counts a beat, with a log of length `logged`. Returns whether the silence is too long now.
    pub(super) fn beat(&mut self, logged: u64) -> bool {
        let was_logged = std::mem::replace(&mut self.logged, logged) != logged;
        self.beats = if was_logged { 0 } else { self.beats + 1 };
        self.beats == LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_silent_when_thirty_beats_have_brought_no_line_and_no_step() {
        let mut quiet = Quiet::default();
        let silent = |quiet: &mut Quiet, logged, beats: u32| {
            (0..beats).filter(|_| quiet.beat(logged)).count()
        };
        assert_eq!(silent(&mut quiet, 80, 30), 0, "the first beat saw the line");
        assert_eq!(silent(&mut quiet, 160, 30), 0, "so did this one");
        assert!(quiet.steps(1) && !quiet.steps(1) && quiet.steps(2));
        quiet.begin_again();
        assert_eq!(silent(&mut quiet, 160, 29), 0);
        assert_eq!(silent(&mut quiet, 160, 40), 1, "it is told once");
    }
}
