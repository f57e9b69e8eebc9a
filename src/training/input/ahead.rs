//! A thread that reads a pipeline ahead of the task that trains on it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use tokio::sync::Notify;

use super::{data_error, what};
use crate::data::{ByteLen, DataError, Pipeline};
use crate::runtime::{Code, Error, Result, program_panicked};

/// The elements that a thread has read. The thread ends when this is dropped.
pub(super) struct Ahead<T> {
    name: String,
    elements: Receiver<Element<T>>,
    has_read: Arc<Notify>,
    /// Whether the end, or an error, has been taken.
    has_ended: Cell<bool>,
}

/// An element, the end, or an error, after which there is nothing.
type Element<T> = Result<Option<T>>;

impl<T: ByteLen> Ahead<T> {
    /// Begins to read `pipeline` after its first `taken` elements.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn begin(name: &str, pipeline: Pipeline<T>, taken: u64) -> Result<Self> {
        let (sender, elements) = sync_channel(pipeline.ahead());
        let has_read = Arc::new(Notify::new());
        let teller = Teller { elements: Some(sender), has_read: Arc::clone(&has_read) };
        let name = name.to_owned();
        let what = what(&name);
        let read = move || {
            // A panic in a function of the program's is its error, as in a simulation, where its
            // own task reads.
            let ended = catch_unwind(AssertUnwindSafe(|| read_all(&pipeline, taken, &teller)));
            let error = match ended {
                Ok(Ok(())) => return,
                Ok(Err(error)) => data_error(&what, &error),
                Err(panic) => program_panicked(&*panic),
            };
            teller.tell(Err(error));
        };
        let thread = thread::Builder::new().name(format!("input {name}")).spawn(read);
        thread.map_err(|error| {
            let message = format!("no thread to read the input `{name}`: {error}");
            Error::new(Code::Internal, message)
        })?;
        Ok(Self { name, elements, has_read, has_ended: Cell::default() })
    }

    /// The next element, once it is read.
    pub(super) async fn next(&self) -> Element<T> {
        loop {
            match self.elements.try_recv() {
                Ok(element) => return self.taken(element),
                Err(TryRecvError::Disconnected) => return self.end(),
                Err(TryRecvError::Empty) => {}
            }
            self.has_read.notified().await;
        }
    }

    /// The next element; the calling thread waits for it.
    pub(super) fn wait_for_next(&self) -> Element<T> {
        match self.elements.recv() {
            Ok(element) => self.taken(element),
            Err(_) => self.end(),
        }
    }

    fn taken(&self, element: Element<T>) -> Element<T> {
        self.has_ended.set(!matches!(element, Ok(Some(_))));
        element
    }

    /// The element after a thread has ended: none if the thread had announced the end of the data,
    /// else an error.
    fn end(&self) -> Element<T> {
        if self.has_ended.get() {
            return Ok(None);
        }
        let message = format!("the thread that reads {} has ended in the middle", what(&self.name));
        Err(Error::new(Code::Internal, message))
    }
}

/// The thread's end. However the thread ends, whoever waits is woken.
struct Teller<T> {
    /// `None` only while it is being dropped.
    elements: Option<SyncSender<Element<T>>>,
    has_read: Arc<Notify>,
}

impl<T> Teller<T> {
    /// Hands over an element once there is room. Returns whether another one is to be read.
    fn tell(&self, element: Element<T>) -> bool {
        let goes_on = matches!(element, Ok(Some(_)));
        let sent = self.elements.as_ref().map(|elements| elements.send(element));
        self.has_read.notify_one();
        goes_on && matches!(sent, Some(Ok(())))
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        drop(self.elements.take());
        self.has_read.notify_one();
    }
}

/// Tells all elements of `pipeline` after the first `taken`, and the end, as long as they are
/// wanted.
fn read_all<T: ByteLen>(
    pipeline: &Pipeline<T>,
    taken: u64,
    teller: &Teller<T>,
) -> Result<(), DataError> {
    let mut elements = pipeline.elements()?;
    elements.skip(taken)?;
    while teller.tell(Ok(elements.next()?)) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tensor::{DType, Tensor};

    /// Scalars, of which `broken` makes the third.
    fn numbers(broken: fn() -> Tensor) -> Pipeline<Tensor> {
        let number = move |n: i32| Ok(if n < 2 { Tensor::scalar(n) } else { broken() });
        Pipeline::from_elements(0..5).map(number)
    }

    fn panics() -> Tensor {
        panic!("the third sample is odd")
    }

    /// The error that `ahead` ends with, waited for as a task does and as a run does.
    fn errors(pipeline: &Pipeline<Tensor>) -> [Error; 2] {
        let begin = || Ahead::begin("numbers", pipeline.clone(), 1).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let awaited = runtime.block_on(async {
            let ahead = begin();
            let read = async {
                assert_eq!(ahead.next().await.unwrap(), Some(Tensor::scalar(1)));
                ahead.next().await.unwrap_err()
            };
            tokio::time::timeout(Duration::from_secs(60), read)
                .await
                .expect("nobody waits for ever")
        });
        let ahead = begin();
        assert_eq!(ahead.wait_for_next().unwrap(), Some(Tensor::scalar(1)));
        [awaited, ahead.wait_for_next().unwrap_err()]
    }

    #[test]
    fn a_panic_in_a_pipeline_is_the_error_after_the_elements_before_it() {
        for error in errors(&numbers(panics)) {
            let said = (error.code, error.message.as_str());
            assert_eq!(said, (Code::Internal, "the program panicked: the third sample is odd"));
        }
    }

    #[test]
    fn memory_that_a_pipeline_is_refused_is_the_error_after_the_elements_before_it() {
        for error in errors(&numbers(|| Tensor::zeros(DType::F32, [1 << 20, 1 << 20]))) {
            assert_eq!(error.code, Code::ResourceExhausted, "{error}");
        }
    }

    #[test]
    fn a_thread_that_ends_without_a_word_is_no_end_of_the_data() {
        let (sender, elements) = sync_channel::<Element<Tensor>>(1);
        let has_read = Arc::new(Notify::new());
        let teller = Teller { elements: Some(sender), has_read: Arc::clone(&has_read) };
        let ahead = Ahead { name: "x".into(), elements, has_read, has_ended: Cell::default() };
        teller.tell(Ok(Some(Tensor::scalar(1))));
        drop(teller);
        assert_eq!(ahead.wait_for_next().unwrap(), Some(Tensor::scalar(1)));
        let error = ahead.wait_for_next().unwrap_err();
        assert!(error.code == Code::Internal && error.message.contains("`x`"), "{error}");
    }

    #[test]
    fn whoever_asks_again_after_the_end_is_told_of_the_end() {
        let none = Pipeline::from_elements(Vec::<i32>::new()).map(|n| Ok(Tensor::scalar(n)));
        let ahead = Ahead::begin("numbers", none, 0).unwrap();
        assert_eq!([ahead.wait_for_next(), ahead.wait_for_next()], [Ok(None), Ok(None)]);
    }
}
