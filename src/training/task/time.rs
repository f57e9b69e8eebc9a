//! A task's clock, and work that takes time.

use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::Task;
use crate::clock::Clock;
use crate::runtime::{Code, Error, Result, program_panicked};
use crate::units::Time;

impl Task {
    fn clock(&self) -> &Rc<dyn Clock> {
        self.inner.parts.server.clock()
    }

    /// The time on the task's clock.
    pub fn now(&self) -> Time {
        self.clock().now()
    }

    /// The time since 1970; in a simulation, since the beginning of virtual time.
    pub(in crate::training) fn date(&self) -> Duration {
        self.clock().date()
    }

    /// Whether time stands still while the program computes, as in a simulation.
    pub(in crate::training) fn computes_in_no_time(&self) -> bool {
        self.clock().stands_still()
    }

    /// Runs blocking work: on another thread when deployed; inline in simulation, where virtual
    /// time does not advance.
    ///
    /// # Errors
    /// If the work panics.
    pub(in crate::training) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if self.clock().stands_still() {
            return Ok(work());
        }
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| match error.try_into_panic() {
            Ok(panic) => program_panicked(&*panic),
            Err(error) => {
                Error::new(Code::Internal, format!("work beside the actors failed: {error}"))
            }
        })
    }

    /// In a simulation, lets the time pass that work takes which [`Task::blocking`] did at once.
    pub(in crate::training) async fn take_simulated_time(&self, span: Duration) {
        if self.clock().stands_still() && !span.is_zero() {
            self.sleep(span).await;
        }
    }

    /// Waits for `pause` by the task's clock: virtual time in a simulation, real time when
    /// deployed. The training may end meanwhile: ask `should_stop` after it.
    pub async fn sleep(&self, pause: Duration) {
        let clock = self.clock();
        clock.sleep_until(clock.now().after(pause)).await;
    }

    /// `limit`, or none where the clock detects stalls: a simulation without faults.
    pub(in crate::training) fn limit(&self, limit: Duration) -> Option<Duration> {
        (!self.clock().sees_stalls()).then_some(limit)
    }

    /// Waits for `done`, but no longer than `limit`, if there is one. `None` if that passed.
    pub(in crate::training) async fn within<T>(
        &self,
        limit: Option<Duration>,
        done: impl Future<Output = T>,
    ) -> Option<T> {
        let passed = async {
            match limit {
                Some(limit) => self.sleep(limit).await,
                None => pending().await,
            }
        };
        match select(pin!(done), pin!(passed)).await {
            Either::Left((value, _)) => Some(value),
            Either::Right(_) => None,
        }
    }
}
