//! Real arithmetic under virtual time: on rayon's threads while the simulation goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::kernels::Cost;

/// Work that costs less is done by the simulation's own thread: to wake another takes longer.
const WORTH_A_THREAD: Cost = Cost { flops: 200_000, bytes: 400_000 };

/// A piece of arithmetic that rayon may have begun, and that is done when it is waited for.
pub(super) struct Job(Arc<Shared>);

struct Shared {
    run: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_done: AtomicBool,
    lock: Mutex<()>,
    finished: Condvar,
}

impl Job {
    /// Offers `run` to rayon where its `cost` makes that worth while.
    pub(super) fn start(run: Box<dyn FnOnce() + Send>, cost: Cost) -> Self {
        let shared = Arc::new(Shared {
            run: Mutex::new(Some(run)),
            is_done: AtomicBool::new(false),
            lock: Mutex::new(()),
            finished: Condvar::new(),
        });
        if cost.flops >= WORTH_A_THREAD.flops || cost.bytes >= WORTH_A_THREAD.bytes {
            let offered = Arc::clone(&shared);
            rayon::spawn_fifo(move || offered.run_unless_taken());
        }
        Self(shared)
    }

    /// Returns once the work is done; does it itself where nobody has begun.
    pub(super) fn finish(self) {
        self.0.run_unless_taken();
        let mut guard = self.0.lock.lock().expect("nobody panics while holding this lock");
        while !self.0.is_done.load(Ordering::Acquire) {
            guard = self.0.finished.wait(guard).expect("nobody panics while holding this lock");
        }
    }
}

impl Shared {
    fn run_unless_taken(&self) {
        let taken = self.run.lock().expect("nobody panics while taking work").take();
        let Some(run) = taken else { return };
        run();
        let _guard = self.lock.lock().expect("nobody panics while holding this lock");
        self.is_done.store(true, Ordering::Release);
        self.finished.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn work_large_or_small_is_done_once_and_by_the_time_that_it_is_waited_for() {
        let runs = Arc::new(AtomicU32::new(0));
        for (count, flops) in (1..).zip([1, WORTH_A_THREAD.flops].repeat(200)) {
            let counted = Arc::clone(&runs);
            let add = move || {
                counted.fetch_add(1, Ordering::Relaxed);
            };
            Job::start(Box::new(add), Cost { flops, bytes: 0 }).finish();
            assert_eq!(runs.load(Ordering::Relaxed), count);
        }
    }
}
