//! Jobs: real arithmetic on rayon's threads, while the simulation goes on in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{hint, thread};

use crate::kernels::Cost;
use crate::runtime::{Calculation, attempt};

/// Work that costs less stays on the simulation's own thread: handing it over would take longer.
const WORTH_A_THREAD: Cost = Cost { flops: 200_000, bytes: 400_000 };

/// While the waiting jobs cost less together, no thread is woken for them, unless the simulation
/// needs one of them: waking takes it some 10 us.
const WORTH_WAKING: Cost = Cost { flops: 20_000_000, bytes: 20_000_000 };

/// How often a thread looks for the end of a job before it sleeps: for about as long as waking up
/// would take.
const LOOKS: u32 = 2_000;

/// A calculation that has run, or its panic.
type Ran = thread::Result<Box<dyn Calculation>>;

/// The jobs of one simulation that wait for a thread.
#[derive(Clone, Default)]
pub(super) struct Jobs(Arc<Mutex<Offers>>);

#[derive(Default)]
struct Offers {
    /// By ascending number.
    waiting: VecDeque<Offer>,
    /// What those that wait cost together.
    cost: Cost,
    next_number: u64,
    /// The number of rayon's threads that do these jobs; each stops when none waits.
    helpers: usize,
}

struct Offer {
    number: u64,
    cost: Cost,
    calculation: Box<dyn Calculation>,
    end: Arc<End>,
}

/// A piece of arithmetic that is done by the time its result is needed.
pub(super) enum Job {
    /// Too small for another thread; done by the thread that waits for it.
    Small(Box<dyn Calculation>),
    /// Offered to rayon's threads; one of them may have begun it.
    Offered { jobs: Jobs, number: u64, end: Arc<End> },
}

/// The end of a job that a thread of rayon's has taken.
#[derive(Default)]
pub(super) struct End {
    ran: Mutex<Option<Ran>>,
    has_come: Condvar,
}

impl Jobs {
    /// Offers `calculation` to rayon's threads if its `cost` is worth it.
    pub(super) fn start(&self, calculation: Box<dyn Calculation>, cost: Cost) -> Job {
        if !is_worth(cost, WORTH_A_THREAD) {
            return Job::Small(calculation);
        }
        let end = Arc::new(End::default());
        let mut offers = self.lock();
        let number = offers.next_number;
        offers.next_number += 1;
        offers.push(Offer { number, cost, calculation, end: Arc::clone(&end) });
        if is_worth(offers.cost, WORTH_WAKING) {
            self.wake_helper(&mut offers);
        }
        drop(offers);
        Job::Offered { jobs: self.clone(), number, end }
    }

    /// Has one more thread of rayon's do what waits, unless all do already.
    fn wake_helper(&self, offers: &mut Offers) {
        if offers.helpers < rayon::current_num_threads() {
            offers.helpers += 1;
            let jobs = self.clone();
            rayon::spawn(move || jobs.help());
        }
    }

    /// Does what waits until nothing does.
    fn help(&self) {
        while let Some(Offer { calculation, end, .. }) = self.next() {
            end.comes(run(calculation));
        }
    }

    /// The first that waits. Without one, the helper that asks is no longer counted.
    fn next(&self) -> Option<Offer> {
        let mut offers = self.lock();
        let next = offers.take(0);
        if next.is_none() {
            offers.helpers -= 1;
        }
        next
    }

    /// Takes the job of this number back, unless a helper has begun it. If others wait, somebody
    /// does them meanwhile.
    fn take_back(&self, number: u64) -> Option<Box<dyn Calculation>> {
        let mut offers = self.lock();
        let index = offers.waiting.binary_search_by_key(&number, |offer| offer.number).ok()?;
        let offer = offers.take(index)?;
        if offers.helpers == 0 && !offers.waiting.is_empty() {
            self.wake_helper(&mut offers);
        }
        Some(offer.calculation)
    }

    fn lock(&self) -> MutexGuard<'_, Offers> {
        self.0.lock().expect("nobody panics while holding this lock")
    }
}

impl Offers {
    fn push(&mut self, offer: Offer) {
        self.cost.flops += offer.cost.flops;
        self.cost.bytes += offer.cost.bytes;
        self.waiting.push_back(offer);
    }

    fn take(&mut self, index: usize) -> Option<Offer> {
        let offer = self.waiting.remove(index)?;
        self.cost.flops -= offer.cost.flops;
        self.cost.bytes -= offer.cost.bytes;
        Some(offer)
    }
}

impl Job {
    /// Waits until the work is done. Does it itself if nobody has begun. Returns its panic.
    pub(super) fn finish(self) -> Ran {
        match self {
            Self::Small(calculation) => run(calculation),
            Self::Offered { jobs, number, end } => match jobs.take_back(number) {
                Some(calculation) => run(calculation),
                None => end.wait(),
            },
        }
    }
}

impl End {
    fn comes(&self, ran: Ran) {
        *self.lock() = Some(ran);
        self.has_come.notify_one();
    }

    fn wait(&self) -> Ran {
        for _ in 0..LOOKS {
            if let Some(ran) = self.lock().take() {
                return ran;
            }
            hint::spin_loop();
        }
        let mut ran = self.lock();
        loop {
            if let Some(ran) = ran.take() {
                return ran;
            }
            ran = self.has_come.wait(ran).expect("nobody panics while holding this lock");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ran>> {
        self.ran.lock().expect("nobody panics while holding this lock")
    }
}

fn run(mut calculation: Box<dyn Calculation>) -> Ran {
    attempt(&mut *calculation).map(|()| calculation)
}

/// Whether `cost` is `least` or more, in operations or in bytes.
fn is_worth(cost: Cost, least: Cost) -> bool {
    cost.flops >= least.flops || cost.bytes >= least.bytes
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
        let (jobs, runs) = (Jobs::default(), Arc::new(AtomicU32::new(0)));
        for (count, flops) in (1..).zip([1, WORTH_A_THREAD.flops].repeat(200)) {
            let job = jobs.start(Box::new(Count(Arc::clone(&runs))), Cost { flops, bytes: 0 });
            assert!(job.finish().is_ok());
            assert_eq!(runs.load(Ordering::Relaxed), count);
        }
    }

    #[test]
    fn jobs_that_wait_together_are_each_done_once_whichever_is_needed_first() {
        for flops in [WORTH_A_THREAD.flops, WORTH_WAKING.flops] {
            let (jobs, runs) = (Jobs::default(), Arc::new(AtomicU32::new(0)));
            let start =
                |_| jobs.start(Box::new(Count(Arc::clone(&runs))), Cost { flops, bytes: 0 });
            let mut started: Vec<Job> = (0..300).map(start).collect();
            let dropped = started.split_off(200);
            assert!(started.into_iter().rev().all(|job| job.finish().is_ok()));
            assert!(runs.load(Ordering::Relaxed) >= 200);
            drop(dropped);
            while jobs.lock().helpers > 0 {
                thread::yield_now();
            }
            let left = jobs.lock().waiting.len() as u32;
            assert_eq!(runs.load(Ordering::Relaxed) + left, 300);
        }
    }
}
