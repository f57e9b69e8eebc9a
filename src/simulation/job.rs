//! Jobs: real arithmetic on rayon's threads, while the simulation goes on in virtual time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::kernels::Cost;
use crate::runtime::{Calculation, attempt};

/// Work that costs less stays on the simulation's own thread: waking another would take longer.
const WORTH_A_THREAD: Cost = Cost { flops: 200_000, bytes: 400_000 };

/// A calculation that has run, or its panic.
type Ran = thread::Result<Box<dyn Calculation>>;

/// A piece of arithmetic that is done by the time its result is needed.
pub(super) enum Job {
    /// Too small for another thread; done by the thread that waits for it.
    Small(Box<dyn Calculation>),
    /// Offered to rayon, which may have begun it.
    Offered(Arc<Shared>),
}

pub(super) struct Shared {
    progress: Mutex<Progress>,
    finished: Condvar,
}

enum Progress {
    Waiting(Box<dyn Calculation>),
    Running,
    Done(Ran),
}

impl Job {
    /// Offers `calculation` to rayon if its `cost` is worth it.
    pub(super) fn start(calculation: Box<dyn Calculation>, cost: Cost) -> Self {
        if cost.flops < WORTH_A_THREAD.flops && cost.bytes < WORTH_A_THREAD.bytes {
            return Self::Small(calculation);
        }
        let progress = Mutex::new(Progress::Waiting(calculation));
        let shared = Arc::new(Shared { progress, finished: Condvar::new() });
        let offered = Arc::clone(&shared);
        rayon::spawn_fifo(move || offered.run_unless_taken());
        Self::Offered(shared)
    }

    /// Waits until the work is done. Does it itself if rayon has not begun. Returns its panic.
    pub(super) fn finish(self) -> Ran {
        match self {
            Self::Small(mut calculation) => attempt(&mut *calculation).map(|()| calculation),
            Self::Offered(shared) => {
                shared.run_unless_taken();
                shared.wait()
            }
        }
    }
}

impl Shared {
    fn run_unless_taken(&self) {
        let Some(mut calculation) = self.take() else { return };
        let ran = attempt(&mut *calculation).map(|()| calculation);
        *self.lock() = Progress::Done(ran);
        self.finished.notify_all();
    }

    /// Takes the calculation if nobody has, and marks it as running.
    fn take(&self) -> Option<Box<dyn Calculation>> {
        let progress = &mut *self.lock();
        match std::mem::replace(progress, Progress::Running) {
            Progress::Waiting(calculation) => Some(calculation),
            taken => {
                *progress = taken;
                None
            }
        }
    }

    fn wait(&self) -> Ran {
        let mut progress = self.lock();
        while !matches!(*progress, Progress::Done(_)) {
            progress = self.finished.wait(progress).expect("nobody panics while holding this lock");
        }
        match std::mem::replace(&mut *progress, Progress::Running) {
            Progress::Done(ran) => ran,
            Progress::Waiting(_) | Progress::Running => unreachable!("it was done just now"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("nobody panics while holding this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Asker;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Count(Arc<AtomicU32>);

    impl Calculation for Count {
        fn run(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn done(self: Box<Self>, _: &Asker) {}
    }

    #[test]
    fn work_large_or_small_is_done_once_and_by_the_time_that_it_is_waited_for() {
        let runs = Arc::new(AtomicU32::new(0));
        for (count, flops) in (1..).zip([1, WORTH_A_THREAD.flops].repeat(200)) {
            let job = Job::start(Box::new(Count(Arc::clone(&runs))), Cost { flops, bytes: 0 });
            assert!(job.finish().is_ok());
            assert_eq!(runs.load(Ordering::Relaxed), count);
        }
    }
}
