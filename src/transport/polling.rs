//! When a thread that waits for messages polls for them instead of sleeping, in both worlds.

use std::time::Duration;

/// The greatest number of wake-ups without a look, after looks in vain.
const MOST_SKIPPED: u32 = 256;

/// Decides at each wake-up of a thread whether it *looks* for messages: polls for them until it has
/// had none for its patience, and sleeps only then. If looks are in vain, as while a large tensor
/// arrives, it looks more and more rarely; until it has waited no longer for a message, asleep,
/// than it would have polled.
#[derive(Clone, Debug)]
pub(crate) struct Polling {
    patience: Duration,
    skipped: u32,
    to_skip: u32,
}

impl Polling {
    /// A task's patience, unless its user says otherwise: a little longer than a null step takes
    /// whose messages all have to wake their receivers, so that tasks that sleep begin to poll.
    pub(crate) const PATIENCE: Duration = Duration::from_micros(300);

    /// A thread that polls for `patience`, and looks at its first wake-up; it never does if that is
    /// zero.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, skipped: 0, to_skip: 0 }
    }

    /// How long a look goes on without a message.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// The thread has slept and was woken. Returns whether it looks.
    pub(crate) fn looks(&mut self) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        let looks = self.skipped >= self.to_skip;
        self.skipped = if looks { 0 } else { self.skipped + 1 };
        looks
    }

    /// A look has ended, in which a message came, beside what had woken the thread, or none did.
    pub(crate) fn has_looked(&mut self, a_message_came: bool) {
        self.to_skip = if a_message_came { 0 } else { (2 * self.to_skip + 1).min(MOST_SKIPPED) };
    }

    /// A message has ended a sleep; the thread had had nothing to do for `wait`.
    pub(crate) fn has_waited(&mut self, wait: Duration) {
        if wait <= self.patience {
            self.to_skip = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of looks in vain in `wakings` wake-ups, each after a wait that was too long to
    /// poll through.
    fn looks_in_vain(polling: &mut Polling, wakings: u32) -> usize {
        let look = |_: &u32| {
            polling.has_waited(polling.patience() * 2);
            let looks = polling.looks();
            if looks {
                polling.has_looked(false);
            }
            looks
        };
        (0..wakings).filter(look).count()
    }

    #[test]
    fn a_thread_that_looks_in_vain_does_so_ever_more_rarely() {
        let mut polling = Polling::new(Polling::PATIENCE);
        assert_eq!(looks_in_vain(&mut polling, 1), 1);
        assert_eq!(looks_in_vain(&mut polling, 1 + 1 + 3 + 1), 2, "after one, and after three");
        let once_in_257 = looks_in_vain(&mut polling, 257 * 10 + 500) - 10;
        assert!(once_in_257 <= 7, "{once_in_257} more");
    }

    #[test]
    fn a_message_during_a_look_or_after_a_short_sleep_has_the_thread_look_at_its_next_wake_up() {
        let mut polling = Polling::new(Polling::PATIENCE);
        looks_in_vain(&mut polling, 1_000);
        assert!(!polling.looks());
        polling.has_waited(Polling::PATIENCE + Duration::from_nanos(1));
        assert!(!polling.looks());
        polling.has_waited(Polling::PATIENCE);
        assert!(polling.looks());
        polling.has_looked(true);
        assert!(polling.looks());
    }

    #[test]
    fn a_thread_without_patience_never_looks() {
        let mut polling = Polling::new(Duration::ZERO);
        polling.has_waited(Duration::ZERO);
        assert!(!polling.looks());
    }
}
