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

use super::error::DeploymentError;
use crate::clock::{Clock, WallClock};
use crate::runtime::{is_computing, messages_sent};
use crate::transport::{Polling, envelopes_delivered};
use crate::units::Time;

thread_local! {
    /// The poller of this thread, if it polls.
    static POLLER: RefCell<Option<Poller>> = const { RefCell::new(None) };
}

/// What is known of a thread's sleeps.
struct Poller {
    clock: WallClock,
    polling: Polling,
    /// The waker of `busy_poll`, while that waits until the thread has been woken.
    waker: Option<Waker>,
    /// Since when the thread has waited for an envelope.
    idle_since: Time,
    /// When the thread was last woken.
    woken: Time,
    /// The number of envelopes that had come by then.
    envelopes: u64,
}

/// Runs `future` and its actors on this thread, which polls for messages for `patience` before it
/// sleeps; it sleeps at once if that is zero.
///
/// # Errors
/// If the process may open no more files.
pub(crate) fn block_on<F: Future>(
    patience: Duration,
    future: F,
) -> Result<F::Output, DeploymentError> {
    let mut builder = Builder::new_current_thread();
    builder.on_thread_park(|| {
        with_poller(Poller::notes_envelopes);
    });
    builder.on_thread_unpark(|| {
        if let Some(waker) = with_poller(Poller::wakes).flatten() {
            waker.wake();
        }
    });
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(DeploymentError::system("wait for messages"))?;
    Ok(actix_rt::System::with_tokio_rt(|| runtime).block_on(async move {
        let polls = !patience.is_zero();
        POLLER.set(polls.then(|| Poller::new(patience)));
        if polls {
            actix_rt::spawn(busy_poll());
        }
        future.await
    }))
}

impl Poller {
    fn new(patience: Duration) -> Self {
        let (clock, polling) = (WallClock::new(), Polling::new(patience));
        let (now, envelopes) = (clock.now(), envelopes_delivered());
        Self { clock, polling, waker: None, idle_since: now, woken: now, envelopes }
    }

    /// The thread has been woken. Returns whom to tell, if it is not looking.
    fn wakes(&mut self) -> Option<Waker> {
        self.woken = self.clock.now();
        self.waker.take()
    }

    /// Notes the wait that has ended, if an envelope has come since the thread was woken.
    fn notes_envelopes(&mut self) {
        let envelopes = envelopes_delivered();
        if envelopes != self.envelopes {
            self.polling.has_waited(self.woken.since(self.idle_since));
            (self.idle_since, self.envelopes) = (self.clock.now(), envelopes);
        }
    }
}

/// Calls `act` with this thread's poller, if it has one, and returns its result.
fn with_poller<T>(act: impl FnOnce(&mut Poller) -> T) -> Option<T> {
    POLLER.with_borrow_mut(|poller| poller.as_mut().map(act))
}

/// Each time that something has woken this thread, looks for messages, unless looks were in vain.
async fn busy_poll() {
    loop {
        wake_up().await;
        if with_poller(|poller| poller.polling.looks()) == Some(true) {
            look().await;
        }
    }
}

/// The number of turns after which the envelope that has woken the thread has reached the actors.
const FIRST_TURNS: u32 = 3;
/// The longest turn that finds nothing. In a longer one, another thread had the core.
const LONGEST_TURN: Duration = Duration::from_micros(4);
/// The longest time for which anything but a large kernel takes the core. A sleeping thread that is
/// woken gets a core from a kernel; a polling one does not.
const KERNEL: Duration = Duration::from_micros(500);

/// Keeps the thread awake until its actors have been sent nothing for the poller's patience.
/// Meanwhile it yields the processor to others. While kernels of this task run on other threads it
/// sleeps, which leaves them its core.
async fn look() {
    for _ in 0..FIRST_TURNS {
        tokio::task::yield_now().await;
    }
    let begin = |poller: &mut Poller| {
        poller.notes_envelopes();
        (poller.clock, poller.polling.patience(), poller.envelopes)
    };
    let (clock, patience, before) = with_poller(begin).expect("who looks has a poller");
    let (mut now, mut idle_since, mut polled) = (clock.now(), clock.now(), Duration::ZERO);
    let mut sent = messages_sent();
    while polled < patience && !is_computing() {
        thread::yield_now();
        tokio::task::yield_now().await;
        let then = std::mem::replace(&mut now, clock.now());
        let took = now.since(then);
        if took > KERNEL {
            break;
        }
        polled += took.min(LONGEST_TURN);
        if messages_sent() != sent {
            (sent, idle_since, polled) = (messages_sent(), now, Duration::ZERO);
        }
    }
    with_poller(|poller| {
        (poller.idle_since, poller.envelopes) = (idle_since, envelopes_delivered());
        if poller.envelopes != before || !is_computing() {
            poller.polling.has_looked(poller.envelopes != before);
        }
    });
}

/// Waits until the thread has slept.
async fn wake_up() {
    let mut has_asked = false;
    poll_fn(|context| {
        let is_awake = |poller: &mut Poller| {
            let was_told = has_asked && poller.waker.is_none();
            if !was_told {
                poller.waker = Some(context.waker().clone());
            }
            was_told
        };
        let is_awake = with_poller(is_awake) == Some(true);
        has_asked = true;
        if is_awake { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
