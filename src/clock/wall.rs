//! The wall clock: real time since the clock was made.
#![expect(clippy::disallowed_methods, reason = "it is the wall clock")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use super::{Clock, Sleep};
use crate::units::Time;

/// Real time. Its sleeps need tokio's timer, which rounds them up to milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    began: Instant,
    birth: u64,
}

impl WallClock {
    /// A clock that begins now.
    #[expect(
        clippy::new_without_default,
        reason = "two clocks that began at different times differ"
    )]
    pub fn new() -> Self {
        Self { began: Instant::now(), birth: RandomState::new().build_hasher().finish() }
    }
}

impl Clock for WallClock {
    fn now(&self) -> Time {
        Time::ZERO.after(self.began.elapsed())
    }

    fn date(&self) -> Duration {
        date().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn birth(&self) -> u64 {
        self.birth
    }

    fn stands_still(&self) -> bool {
        false
    }

    fn ends_when_idle(&self) -> bool {
        false
    }

    fn sees_stalls(&self) -> bool {
        false
    }

    fn sleep_until(&self, time: Time) -> Sleep {
        let deadline = self.began + Duration::from_nanos(time.0);
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}

/// The machine's date, from which a certificate's validity is counted.
pub(crate) fn date() -> SystemTime {
    SystemTime::now()
}
