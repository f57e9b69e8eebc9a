//! The clock that everything below the user's program is given: the wall clock or a simulation's.

mod wall;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::units::Time;

pub use wall::WallClock;
pub(crate) use wall::date;

/// A wait until a point in time. Dropping it cancels the wait.
pub type Sleep = Pin<Box<dyn Future<Output = ()>>>;

/// Tells the time and waits for it. Nothing below `cli` asks the operating system for the time.
pub trait Clock {
    /// The time since the clock began.
    fn now(&self) -> Time;

    /// Waits until `time`; returns at once if that has passed.
    fn sleep_until(&self, time: Time) -> Sleep;

    /// The time since 1970; for a virtual clock, since that clock began.
    fn date(&self) -> Duration;

    /// A number that differs between incarnations of a task; 0 if their start times differ anyway.
    fn birth(&self) -> u64;

    /// Whether the clock stands still while the program computes: another thread gains nothing, and
    /// the time that work takes is to be waited for.
    fn stands_still(&self) -> bool;

    /// Whether the run ends once nothing can happen any more: a timer that is always set would keep
    /// it from that.
    fn ends_when_idle(&self) -> bool;

    /// Whether a wait in vain is detected as a stall, so that no wait needs a deadline of its own.
    fn sees_stalls(&self) -> bool;
}
