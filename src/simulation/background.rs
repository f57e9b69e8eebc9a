//! Background work: real arithmetic on rayon's threads, while the simulation goes on in virtual
//! time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{hint, thread};

use crate::kernels::Cost;
use crate::runtime::{Calculation, attempt};

/// Work that costs less stays on the simulation's own thread: offering it would take longer.
const WORTH_OFFERING: Cost = Cost { flops: 20_000, bytes: 40_000, is_unbounded: false };

/// Once the simulation needs one of the waiting calculations, a thread is woken for the others if
/// they cost this much together.
const WORTH_A_THREAD: Cost = Cost { flops: 200_000, bytes: 400_000, is_unbounded: false };

/// If the waiting calculations cost this much together, a thread is woken at once. For less that
/// would not pay: waking takes the simulation some 10 us.
const WORTH_WAKING: Cost = Cost { flops: 20_000_000, bytes: 20_000_000, is_unbounded: false };

/// A thread looks this many times for the end of a calculation before it sleeps: for about as long
/// as waking up would take.
const LOOKS: u32 = 2_000;

/// A thread that has done all calculations looks this many times for another before it stops: for
/// some milliseconds, in which a simulation of many tasks comes to several.
const LOOKS_FOR_MORE: u32 = 3_000;

/// The number of simulations that run. Where there are several, no thread looks for calculations:
/// it would take a core from another one, or do the work of that one meanwhile.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread calculates for a simulation.
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// A calculation that has run, or its panic.
type Ran = thread::Result<Box<dyn Calculation>>;

/// The calculations of one simulation that wait for a thread.
#[derive(Clone)]
pub(super) struct Background(Arc<Shared>);

/// What the simulation and the threads that help it share.
struct Shared {
    offers: Mutex<Offers>,
    /// The number of those that wait, for a thread that looks for one.
    waiting: AtomicUsize,
    _counted: Counted,
}

#[derive(Default)]
struct Offers {
    /// By ascending number.
    waiting: VecDeque<Offer>,
    /// What those that wait cost together.
    total: Total,
    next_number: u64,
    /// The number of rayon's threads that do these; each stops when none has come for a while.
    helpers: usize,
    /// Whether one of them has nothing to do and looks for more.
    is_one_looking: bool,
}

/// What several calculations cost together; one, such as a loop, can cost the largest `u64`.
#[derive(Clone, Copy, Default)]
struct Total {
    flops: u128,
    bytes: u128,
}

impl From<Cost> for Total {
    fn from(Cost { flops, bytes, .. }: Cost) -> Self {
        Self { flops: u128::from(flops), bytes: u128::from(bytes) }
    }
}

/// A simulation, counted among those that run.
struct Counted;

struct Offer {
    number: u64,
    cost: Cost,
    calculation: Box<dyn Calculation>,
    end: Arc<End>,
}

/// A piece of arithmetic that is done by the time its result is needed.
pub(super) enum Pending {
    /// Too small for another thread; done by the thread that waits for it.
    Small(Box<dyn Calculation>),
    /// Offered to rayon's threads; one of them may have begun it.
    Offered(Offered),
}

/// A calculation that others may do. Who drops it needs it no more, and withdraws it.
pub(super) struct Offered {
    background: Background,
    number: u64,
    end: Arc<End>,
    /// Whether nobody has waited for it yet.
    is_open: bool,
}

/// The end of a calculation that a thread of rayon's has taken.
#[derive(Default)]
pub(super) struct End {
    ran: Mutex<Option<Ran>>,
    has_come: Condvar,
}

impl Background {
    /// No calculations yet, of a simulation that begins.
    pub(super) fn new() -> Self {
        let (offers, waiting) = (Mutex::default(), AtomicUsize::new(0));
        Self(Arc::new(Shared { offers, waiting, _counted: Counted::new() }))
    }

    /// Offers `calculation` to rayon's threads if its `cost` is worth it.
    pub(super) fn start(&self, calculation: Box<dyn Calculation>, cost: Cost) -> Pending {
        if !cost.is_unbounded && !is_worth(cost, WORTH_OFFERING) {
            return Pending::Small(calculation);
        }
        let end = Arc::new(End::default());
        let mut offers = self.lock();
        let number = offers.next_number;
        offers.next_number += 1;
        offers.push(Offer { number, cost, calculation, end: Arc::clone(&end) });
        self.tell(&offers);
        if is_worth(offers.total, WORTH_WAKING) {
            self.wake_helper(offers);
        }
        Pending::Offered(Offered { background: self.clone(), number, end, is_open: true })
    }

    /// Has one more thread of rayon's do what waits, unless one looks for it or all do already.
    fn wake_helper(&self, mut offers: MutexGuard<'_, Offers>) {
        if !offers.is_one_looking && offers.helpers < rayon::current_num_threads() {
            offers.helpers += 1;
            drop(offers); // the helper needs them at once
            let background = self.clone();
            rayon::spawn(move || background.help());
        }
    }

    /// Does what waits until nothing has come for a while.
    fn help(&self) {
        // A thread that waits for a part of a kernel may help meanwhile; that kernel is then late.
        let is_within_another = HELPS.replace(true);
        loop {
            while let Some(Offer { calculation, end, .. }) = self.next() {
                end.comes(run(calculation));
            }
            if !self.look_for_more(!is_within_another) {
                break;
            }
        }
        HELPS.set(is_within_another);
    }

    /// The first that waits. If much is left, a further helper does it.
    fn next(&self) -> Option<Offer> {
        let mut offers = self.lock();
        let next = offers.take(0);
        self.tell(&offers);
        if is_worth(offers.total, WORTH_WAKING) {
            self.wake_helper(offers);
        }
        next
    }

    /// Looks for another calculation if the helper that asks `has_time`, no other helper looks, and
    /// a core is free for it. Without one, this helper is no longer counted.
    fn look_for_more(&self, has_time: bool) -> bool {
        let mut offers = self.lock();
        if has_time && !offers.is_one_looking && has_a_free_core() {
            offers.is_one_looking = true;
            drop(offers);
            for _ in 0..LOOKS_FOR_MORE {
                if self.0.waiting.load(Ordering::Relaxed) > 0 || !has_a_free_core() {
                    break;
                }
                rayon::yield_now(); // kernels may be spread over several threads
                thread::yield_now();
            }
            offers = self.lock();
            offers.is_one_looking = false;
        }
        let is_one_waiting = !offers.waiting.is_empty();
        offers.helpers -= usize::from(!is_one_waiting);
        is_one_waiting
    }

    /// Withdraws the calculation of this number, unless a helper has begun it.
    fn withdraw(&self, number: u64) -> Option<Offer> {
        let mut offers = self.lock();
        let offer = offers.take_numbered(number);
        self.tell(&offers);
        offer
    }

    /// Takes the calculation of this number back, unless a helper has begun it. If others wait,
    /// somebody does them meanwhile.
    fn take_back(&self, number: u64) -> Option<Box<dyn Calculation>> {
        let mut offers = self.lock();
        let offer = offers.take_numbered(number)?;
        self.tell(&offers);
        if offers.helpers == 0 && is_worth(offers.total, WORTH_A_THREAD) {
            self.wake_helper(offers);
        }
        Some(offer.calculation)
    }

    /// Tells the helper that looks how many wait.
    fn tell(&self, offers: &Offers) {
        self.0.waiting.store(offers.waiting.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Offers> {
        self.0.offers.lock().expect("nobody panics while holding this lock")
    }
}

/// Whether the only simulation leaves a core to a thread that looks for its calculations.
fn has_a_free_core() -> bool {
    RUNNING.load(Ordering::Relaxed) == 1 && rayon::current_num_threads() > 1
}

impl Counted {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Offers {
    fn push(&mut self, offer: Offer) {
        let cost = Total::from(offer.cost);
        self.total.flops += cost.flops;
        self.total.bytes += cost.bytes;
        self.waiting.push_back(offer);
    }

    fn take_numbered(&mut self, number: u64) -> Option<Offer> {
        let index = self.waiting.binary_search_by_key(&number, |offer| offer.number).ok()?;
        self.take(index)
    }

    fn take(&mut self, index: usize) -> Option<Offer> {
        let offer = self.waiting.remove(index)?;
        let cost = Total::from(offer.cost);
        self.total.flops -= cost.flops;
        self.total.bytes -= cost.bytes;
        Some(offer)
    }
}

impl Pending {
    /// Waits until the work is done. Does it itself if nobody has begun. Returns its panic.
    pub(super) fn finish(self) -> Ran {
        match self {
            Self::Small(calculation) => run(calculation),
            Self::Offered(mut offered) => {
                offered.is_open = false;
                match offered.background.take_back(offered.number) {
                    Some(calculation) => run(calculation),
                    None => offered.end.wait(),
                }
            }
        }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if self.is_open {
            // The values that it would have computed with.
            drop(self.background.withdraw(self.number));
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
fn is_worth(cost: impl Into<Total>, least: Cost) -> bool {
    let (cost, least) = (cost.into(), Total::from(least));
    cost.flops >= least.flops || cost.bytes >= least.bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Asker;
    use std::sync::atomic::AtomicU32;

    struct Count(Arc<AtomicU32>);

    impl Calculation for Count {
        fn run(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn done(self: Box<Self>, _: &Asker) {}
    }

    #[test]
    fn work_large_or_small_is_done_once_and_by_the_time_that_it_is_waited_for() {
        let (background, runs) = (Background::new(), Arc::new(AtomicU32::new(0)));
        for (count, flops) in (1..).zip([1, WORTH_OFFERING.flops].repeat(200)) {
            let pending = background
                .start(Box::new(Count(Arc::clone(&runs))), Cost { flops, ..Cost::default() });
            assert!(pending.finish().is_ok());
            assert_eq!(runs.load(Ordering::Relaxed), count);
        }
    }

    #[test]
    fn calculations_that_wait_together_are_each_done_once_whichever_is_needed_first() {
        for flops in [WORTH_OFFERING.flops, WORTH_WAKING.flops] {
            let (background, runs) = (Background::new(), Arc::new(AtomicU32::new(0)));
            let start = |_| {
                background
                    .start(Box::new(Count(Arc::clone(&runs))), Cost { flops, ..Cost::default() })
            };
            let mut started: Vec<Pending> = (0..300).map(start).collect();
            let dropped = started.split_off(200);
            assert!(started.into_iter().rev().all(|pending| pending.finish().is_ok()));
            assert!(runs.load(Ordering::Relaxed) >= 200);
            drop(dropped);
            while background.lock().helpers > 0 {
                thread::yield_now();
            }
            assert!(background.lock().waiting.is_empty(), "who drops one withdraws it");
            assert!(runs.load(Ordering::Relaxed) <= 300);
        }
    }
}
