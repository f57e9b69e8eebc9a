//! Busy polling: an idle thread polls for messages for a while before it sleeps.
//!
//! Waking a sleeping thread takes tens of microseconds, longer than a message takes through the
//! loopback and longer than most kernels of a small model; polling takes one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::clock::{Clock, WallClock};
use crate::runtime::{is_computing, messages_sent};
use crate::transport::envelopes_delivered;

/// Twice what a message takes there and back.
pub(crate) const PATIENCE: Duration = Duration::from_micros(100);

thread_local! {
    /// The poller's waker, while it waits until the thread has been woken.
    static POLLER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// How long each of `tasks` tasks that share `cores` cores polls, where the user has not said so.
/// Measured on two cores: with four tasks, polling doubles the speed of small steps; with six, it
/// gains a seventh or more; with seven it gains nothing.
pub(crate) fn standard_patience(tasks: usize, cores: usize) -> Duration {
    if tasks > 3 * cores { Duration::ZERO } else { PATIENCE }
}

/// Runs `future` and its actors on this thread, which polls for messages for `patience` before it
/// sleeps; it sleeps at once if that is zero.
pub(crate) fn block_on<F: Future>(patience: Duration, future: F) -> F::Output {
    let runtime = || {
        let mut builder = Builder::new_current_thread();
        builder.on_thread_unpark(|| {
            if let Some(poller) = POLLER.take() {
                poller.wake();
            }
        });
        builder
            .enable_all()
            .build()
            .expect("the system has what a runtime needs: it had it a moment ago")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(async move {
        if !patience.is_zero() {
            actix_rt::spawn(busy_poll(patience, WallClock::new()));
        }
        future.await
    })
}

/// The greatest number of wake-ups without a poll, after polls in vain.
const MOST_SKIPPED: u32 = 256;

/// The number of turns after which the envelope that has woken the thread has reached the actors.
const FIRST_TURNS: u32 = 3;

/// Each time that something has woken this thread, keeps it awake until its actors have been sent
/// nothing for `patience`. Meanwhile it yields the processor to others. If no further message comes
/// within that time, as while a large tensor arrives, it polls more and more rarely. While kernels
/// of this task run on other threads it sleeps, which leaves them its core.
async fn busy_poll(patience: Duration, clock: WallClock) {
    let (mut skipped, mut to_skip) = (0, 0);
    loop {
        wake_up().await;
        if skipped < to_skip {
            skipped += 1;
            continue;
        }
        let was_worth_it = look(patience, clock).await;
        skipped = 0;
        to_skip = if was_worth_it { 0 } else { (2 * to_skip + 1).min(MOST_SKIPPED) };
    }
}

/// The time that a look at the socket takes at most; what is longer, another thread had the core.
const LONGEST_LOOK: Duration = Duration::from_micros(4);
/// What takes the core for longer is a large kernel. A thread that sleeps is given a core from it
/// when it is woken; one that polls is not.
const KERNEL: Duration = Duration::from_micros(500);

/// Polls until the actors have been sent nothing for `patience`. Returns whether an envelope has
/// come, beside what has woken the thread.
async fn look(patience: Duration, clock: WallClock) -> bool {
    for _ in 0..FIRST_TURNS {
        tokio::task::yield_now().await;
    }
    let before = envelopes_delivered();
    let (mut sent, mut now, mut polled) = (messages_sent(), clock.now(), Duration::ZERO);
    while polled < patience && !is_computing() {
        thread::yield_now();
        tokio::task::yield_now().await;
        let then = std::mem::replace(&mut now, clock.now());
        let took = now.since(then);
        if took > KERNEL {
            break;
        }
        polled += took.min(LONGEST_LOOK);
        if messages_sent() != sent {
            (sent, polled) = (messages_sent(), Duration::ZERO);
        }
    }
    envelopes_delivered() != before
}

/// Waits until the thread has slept.
async fn wake_up() {
    let mut has_asked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_asked, true) && POLLER.with_borrow(Option::is_none) {
            return Poll::Ready(());
        }
        POLLER.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}
