//! The clock that everything below the user's program is handed: the wall's or a simulation's.

mod wall;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::units::Time;

pub use wall::WallClock;
pub(crate) use wall::date;

/// A wait that ends at a point in time. Dropping it ends the wait.
pub type Sleep = Pin<Box<dyn Future<Output = ()>>>;

/// Tells the time, and waits for it. Nothing below `cli` asks the operating system instead.
pub trait Clock {
    /// The time since the clock began.
    fn now(&self) -> Time;

    /// Waits until `time`; not at all where that has passed.
    fn sleep_until(&self, time: Time) -> Sleep;

    /// The time since 1970; in a world that has a time of its own, since the beginning of that.
    fn date(&self) -> Duration {
        self.now().since(Time::ZERO)
    }

    /// Whether the time stands still while the program computes, so that nothing is gained by
    /// computing elsewhere.
    fn is_virtual(&self) -> bool {
        false
    }

    /// A number by which this process differs from another life of the same task; 0 where the time
    /// tells them apart.
    fn birth(&self) -> u64 {
        0
    }

    /// Whether somebody sees when nothing can happen any more: then no wait needs a limit of its
    /// own.
    fn sees_stalls(&self) -> bool {
        false
    }
}
