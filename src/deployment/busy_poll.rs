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

thread_local! {
    /// The poller's waker, while it waits until the thread has been woken.
    static POLLER: RefCell<Option<Waker>> = const { RefCell::new(None) };
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

/// The greatest number of polls between two messages that actors of one task send each other
/// because of one message from outside.
const LOOKS_WITHIN_A_TURN: u32 = 3;

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

/// Polls until no message has come for `patience`. Returns whether one came from outside, beside
/// those that actors send each other because of an earlier one.
async fn look(patience: Duration, clock: WallClock) -> bool {
    let mut last = (messages_sent(), clock.now());
    let (mut looks, mut was_worth_it) = (0, false);
    while clock.now().since(last.1) < patience && !is_computing() {
        thread::yield_now();
        tokio::task::yield_now().await;
        looks += 1;
        if messages_sent() != last.0 {
            last = (messages_sent(), clock.now());
            was_worth_it |= looks > LOOKS_WITHIN_A_TURN;
            looks = 0;
        }
    }
    was_worth_it
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
