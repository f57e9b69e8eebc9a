//! A message thread that looks for messages where it has nothing to do, as a deployed one does.

use std::time::Duration;

use crate::transport::Polling;

/// What wakes a message thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum WokenBy {
    Envelope,
    /// Kernels of the task have ended on one of its devices.
    Kernels,
}

/// Whether a message thread looks for messages before it sleeps.
#[derive(Clone)]
pub(super) struct IdlePolling {
    polling: Polling,
    is_looking: bool,
    /// Whether an envelope has come since the look began, beside what had woken the thread.
    has_found: bool,
}

impl IdlePolling {
    /// A thread that begins with a look of `patience`.
    pub(super) fn new(patience: Duration) -> Self {
        let mut polling = Polling::new(patience);
        Self { is_looking: polling.looks(), polling, has_found: false }
    }

    /// The thread is that of a new process.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::new(self.polling.patience());
    }

    /// For how long the thread polls; nothing if it sleeps at once.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.is_looking.then(|| self.polling.patience())
    }

    /// Something comes after the thread has had nothing to do for `wait`, during which its task
    /// computed or not. Returns whether the thread slept.
    pub(super) fn wakes(&mut self, wait: Duration, by: WokenBy, computes: bool) -> bool {
        let patience = self.patience().filter(|_| !computes).unwrap_or_default();
        if wait <= patience {
            self.has_found |= by == WokenBy::Envelope;
            return false;
        }
        if self.is_looking && (self.has_found || !computes) {
            self.polling.has_looked(self.has_found);
        }
        if by == WokenBy::Envelope {
            self.polling.has_waited(wait);
        }
        (self.is_looking, self.has_found) = (self.polling.looks(), false);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WokenBy::{Envelope, Kernels};

    const PATIENCE: Duration = Duration::from_micros(100);
    const LONG: Duration = Duration::from_micros(101);

    #[test]
    fn a_thread_sleeps_once_it_has_waited_in_vain_for_its_patience_and_soon_at_once() {
        let mut polling = IdlePolling::new(PATIENCE);
        assert!(!polling.wakes(PATIENCE, Envelope, false), "it polls, and finds an envelope");
        assert!(polling.wakes(LONG, Envelope, false));
        assert_eq!(polling.patience(), Some(PATIENCE), "the look before was not in vain");
        assert!(polling.wakes(LONG, Envelope, false), "this one is");
        assert_eq!(polling.patience(), None);
        assert!(polling.wakes(Duration::from_nanos(1), Envelope, false), "it slept at once");
        assert_eq!(polling.patience(), Some(PATIENCE), "it would have found that envelope");
    }

    #[test]
    fn while_its_task_computes_a_thread_sleeps_and_that_is_no_look_in_vain() {
        let mut polling = IdlePolling::new(PATIENCE);
        for _ in 0..3 {
            assert!(polling.wakes(Duration::from_nanos(1), Kernels, true));
            assert_eq!(polling.patience(), Some(PATIENCE));
        }
    }

    #[test]
    fn a_thread_without_patience_sleeps_where_it_has_nothing_to_do() {
        let mut polling = IdlePolling::new(Duration::ZERO);
        assert!(!polling.wakes(Duration::ZERO, Envelope, false), "it has only just ended");
        assert!(polling.wakes(Duration::from_nanos(1), Envelope, false));
    }
}
