//! The thread that writes a task's lines to its launcher, which may stand still: then the thread
//! waits, and not the task.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Teller {
    orders: Sender<Order>,
    /// The number of lines that have not been written.
    left: Arc<AtomicUsize>,
}

enum Order {
    Write(Vec<u8>),
    /// Say so when all earlier lines are written.
    Answer(Sender<()>),
}

impl Teller {
    /// Starts the thread.
    pub(super) fn start(stream: UnixStream) -> io::Result<Self> {
        let (orders, received) = mpsc::channel();
        let left = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&left);
        let writes = move || write(stream, &received, &counted);
        thread::Builder::new().name("teller".into()).spawn(writes)?;
        Ok(Self { orders, left })
    }

    /// Has `line` written after all earlier ones.
    pub(super) fn write(&self, line: Vec<u8>) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.order(Order::Write(line));
    }

    /// Whether lines wait to be written: the launcher does not read.
    pub(super) fn is_behind(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Waits until all lines are written, or the launcher is gone.
    pub(super) fn flush(&self) {
        let (answer, answered) = mpsc::channel();
        self.order(Order::Answer(answer));
        if answered.recv().is_err() {
            tracing::debug!("the launcher may not have heard all");
        }
    }

    fn order(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::debug!("nobody writes to the launcher any more");
        }
    }
}

/// The loss of the launcher is noticed elsewhere.
fn write(mut stream: UnixStream, orders: &Receiver<Order>, left: &AtomicUsize) {
    for order in orders {
        match order {
            Order::Write(line) => {
                if let Err(error) = stream.write_all(&line) {
                    tracing::debug!(%error, "the launcher does not listen");
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
            Order::Answer(answer) => {
                if answer.send(()).is_err() {
                    tracing::debug!("nobody waits for the launcher any more");
                }
            }
        }
    }
}
