//! A thread that reads a pipeline ahead of the task that trains on it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use tokio::sync::Notify;

use crate::data::{ByteLen, DataError, Pipeline};
use crate::runtime::{Code, Error, Result};

/// The elements that a thread has read. The thread ends when this is dropped.
pub(super) struct Ahead<T> {
    elements: Receiver<Element<T>>,
    has_read: Arc<Notify>,
}

/// An element, the end, or an error, after which there is nothing.
type Element<T> = Result<Option<T>, DataError>;

impl<T: ByteLen> Ahead<T> {
    /// Begins to read `pipeline` after its first `taken` elements.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn begin(name: &str, pipeline: Pipeline<T>, taken: u64) -> Result<Self> {
        let (sender, elements) = sync_channel(pipeline.ahead());
        let has_read = Arc::new(Notify::new());
        let told = Arc::clone(&has_read);
        let read = move || {
            let send = |element: Element<T>| {
                let goes_on = matches!(element, Ok(Some(_)));
                let is_wanted = sender.send(element).is_ok();
                told.notify_one();
                is_wanted && goes_on
            };
            let mut elements = match pipeline.elements() {
                Ok(elements) => elements,
                Err(error) => {
                    send(Err(error));
                    return;
                }
            };
            if let Err(error) = elements.skip(taken) {
                send(Err(error));
                return;
            }
            while send(elements.next()) {}
        };
        let thread = thread::Builder::new().name(format!("input {name}")).spawn(read);
        thread.map_err(|error| {
            let message = format!("no thread to read the input `{name}`: {error}");
            Error::new(Code::Internal, message)
        })?;
        Ok(Self { elements, has_read })
    }

    /// The next element, once it is read.
    pub(super) async fn next(&self) -> Element<T> {
        loop {
            match self.elements.try_recv() {
                Ok(element) => return element,
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            self.has_read.notified().await;
        }
    }

    /// The next element; the calling thread waits for it.
    pub(super) fn wait_for_next(&self) -> Element<T> {
        self.elements.recv().unwrap_or(Ok(None))
    }
}
