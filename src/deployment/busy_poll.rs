//! Busy polling: a thread that has nothing to do looks for messages for a while before it sleeps.
//!
//! To wake a sleeping thread takes tens of microseconds, longer than the way of a message through
//! the loopback and longer than most kernels of a small model; looking takes one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::clock::{Clock, WallClock};
use crate::runtime::messages_sent;

thread_local! {
    /// The poller, while it waits for the thread to have been woken.
    static POLLER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Has a thread that wakes up tell its poller.
pub(crate) fn prepare(builder: &mut Builder) {
    builder.on_thread_unpark(|| {
        if let Some(poller) = POLLER.take() {
            poller.wake();
        }
    });
}

/// For how many wakings at most it does not look, where looking was in vain.
const MOST_SKIPPED: u32 = 256;

/// So many looks pass at most between what one message makes the actors of a task tell one another.
const LOOKS_WITHIN_A_TURN: u32 = 3;

/// Keeps this thread awake until its actors have been told nothing for as long as `patience`, each
/// time that something has woken it. Whoever else can use the processor has it meanwhile. Where no
/// message follows another that soon, as while kernels run or a large tensor arrives, it looks ever
/// more seldom.
pub(crate) async fn busy_poll(patience: Duration, clock: WallClock) {
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

/// Looks for messages until none has come for as long as `patience`; says whether one came while it
/// looked, beside those that actors tell one another on account of the one before.
async fn look(patience: Duration, clock: WallClock) -> bool {
    let mut last = (messages_sent(), clock.now());
    let (mut looks, mut was_worth_it) = (0, false);
    while clock.now().since(last.1) < patience {
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
