//! The signal that wakes the programs which wait for something that others note in a shared state.

use tokio::sync::Notify;

/// Wakes all that wait for a change of the state beside it.
#[derive(Default)]
pub(crate) struct Signal(Notify);

impl Signal {
    /// The state has changed: all that wait look again.
    pub(crate) fn raise(&self) {
        self.0.notify_waiters();
    }

    /// Waits until `look` finds something in the state.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            // Made before the look: a signal that is raised after it then ends the wait.
            let raised = self.0.notified();
            if let Some(found) = look() {
                return found;
            }
            raised.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_signal_has_all_that_wait_look_again_and_a_change_before_it_is_found_at_once() {
        let (state, signal) = (&Cell::new(0), &Signal::default());
        let reaches = |least: u32| signal.until(move || Some(state.get()).filter(|n| *n >= least));
        let mut context = Context::from_waker(Waker::noop());
        let (mut one, mut two) = (pin!(reaches(1)), pin!(reaches(2)));
        assert_eq!(one.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(two.as_mut().poll(&mut context), Poll::Pending);
        state.set(1);
        signal.raise();
        assert_eq!(one.as_mut().poll(&mut context), Poll::Ready(1));
        assert_eq!(two.as_mut().poll(&mut context), Poll::Pending);
        state.set(2);
        assert_eq!(pin!(reaches(2)).poll(&mut context), Poll::Ready(2));
    }

    #[test]
    fn a_signal_that_is_raised_during_the_look_is_not_missed() {
        let (looks, signal) = (Cell::new(0), Signal::default());
        let look = || {
            looks.set(looks.get() + 1);
            signal.raise(); // as by what the look itself sets off
            (looks.get() == 2).then_some(())
        };
        let found = pin!(signal.until(look)).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(found, Poll::Ready(()));
    }
}
