//! `Input`: a task's reader of a pipeline, and its position.

mod ahead;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::clock::Clock;
use crate::data::{ByteLen, DataError, Elements, Pipeline};
use crate::runtime::{Code, Error, Result};
use crate::units::{BytesPerSecond, Time, seconds};

use ahead::Ahead;

/// The elements of a pipeline, one after the other, as a task trains on them (TensorFlow: the
/// iterator of a `tf.data.Dataset`, saved by `CheckpointInputPipelineHook`).
///
/// Deployed, a thread of its own reads ahead; in a simulation reading takes as long as
/// `program.read_rate` says, beside the task's computing. The number of elements that the task's
/// steps have taken is counted with each step, and is in checkpoints: a training that is restored
/// goes on with the next element, and so does a worker that comes back.
///
/// Where rounds are of all workers, a worker that comes back alone goes on at the element of the
/// round that it is needed in. If not every step takes as many elements, it assumes that those that
/// it lacks take as many as the earlier ones on average.
pub struct Input<T> {
    state: Rc<State<T>>,
}

shown!([T] Input<T>);

/// An input whose position is saved and restored, of elements of any type.
pub(super) trait Position {
    /// The name in the graph.
    fn name(&self) -> &str;

    /// The number of elements taken.
    fn taken(&self) -> u64;

    /// Goes on after the first `taken` elements.
    fn seek(&self, taken: u64);

    /// Waits until the next element is read.
    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;
}

struct State<T> {
    name: String,
    pipeline: Pipeline<T>,
    clock: Rc<dyn Clock>,
    /// The rate at which a simulation lets elements be read.
    rate: Option<BytesPerSecond>,
    reading: RefCell<Reading<T>>,
}

struct Reading<T> {
    taken: u64,
    reader: Option<Reader<T>>,
    /// The next element, and when a simulation has read it.
    next: Option<(T, Time)>,
    /// When a simulation's reader had read its last element.
    idle_since: Time,
    /// When the last elements were taken, one more than a reader may be ahead.
    takes: VecDeque<Time>,
}

enum Reader<T> {
    /// Reads when it is asked.
    Inline(Elements<T>),
    Thread(Rc<Ahead<T>>),
}

impl<T: ByteLen> Input<T> {
    pub(super) fn new(
        name: &str,
        pipeline: Pipeline<T>,
        clock: Rc<dyn Clock>,
        rate: Option<BytesPerSecond>,
    ) -> Self {
        let (taken, reader, next, takes) = (0, None, None, VecDeque::new());
        let reading = RefCell::new(Reading { taken, reader, next, idle_since: clock.now(), takes });
        let name = name.to_owned();
        Self { state: Rc::new(State { name, pipeline, clock, rate, reading }) }
    }

    /// The next element.
    ///
    /// # Errors
    /// If it can't be read, or a function of the pipeline panics; [`Code::OutOfRange`] after the
    /// last one, by which [`MonitoredSession::close_after`](super::MonitoredSession::close_after)
    /// ends a training cleanly.
    pub async fn next(&self) -> Result<T> {
        self.state.ready().await?;
        self.state.take()
    }

    /// The next element, at once: if it is not read yet, the task stands still meanwhile.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(super) fn take(&self) -> Result<T> {
        self.state.take()
    }

    pub(super) fn position(&self) -> Rc<dyn Position> {
        Rc::clone(&self.state) as Rc<dyn Position>
    }
}

impl<T: ByteLen> State<T> {
    fn take(&self) -> Result<T> {
        let is_there = self.reading.borrow().next.is_some();
        if !is_there {
            self.read_now()?;
        }
        let mut reading = self.reading.borrow_mut();
        let (element, _) = reading.next.take().expect("it has just been read");
        reading.taken += 1;
        if reading.takes.len() > self.pipeline.ahead() {
            reading.takes.pop_front();
        }
        reading.takes.push_back(self.clock.now());
        Ok(element)
    }

    /// Reads the next element, without waiting elsewhere.
    fn read_now(&self) -> Result<()> {
        let reader = self.thread()?;
        let element = match reader {
            Some(thread) => thread.wait_for_next(),
            None => self.read_inline(),
        };
        self.keep(element)
    }

    async fn read(&self) -> Result<()> {
        let element = match self.thread()? {
            Some(thread) => thread.next().await,
            None => self.read_inline(),
        };
        self.keep(element)
    }

    /// The thread that reads, if one does. Begins to read, if nothing has.
    fn thread(&self) -> Result<Option<Rc<Ahead<T>>>> {
        let mut reading = self.reading.borrow_mut();
        if reading.reader.is_none() {
            let (pipeline, taken) = (self.pipeline.clone(), reading.taken);
            reading.reader = Some(if self.clock.stands_still() {
                let elements = pipeline.elements().and_then(|mut elements| {
                    elements.skip(taken)?;
                    Ok(elements)
                });
                Reader::Inline(elements.map_err(|error| self.failed(&error))?)
            } else {
                Reader::Thread(Rc::new(Ahead::begin(&self.name, pipeline, taken)?))
            });
        }
        Ok(match &reading.reader {
            Some(Reader::Thread(thread)) => Some(Rc::clone(thread)),
            _ => None,
        })
    }

    fn read_inline(&self) -> Result<Option<T>> {
        match &mut self.reading.borrow_mut().reader {
            Some(Reader::Inline(elements)) => elements.next().map_err(|error| self.failed(&error)),
            _ => Ok(None),
        }
    }

    /// Keeps `element` until it is taken.
    fn keep(&self, element: Result<Option<T>>) -> Result<()> {
        let mut reading = self.reading.borrow_mut();
        let element = match element {
            Ok(Some(element)) => element,
            ended => {
                reading.reader = None;
                return Err(match ended {
                    Err(error) => error,
                    Ok(_) => self.end(reading.taken),
                });
            }
        };
        let span = seconds(self.rate.map_or(0.0, |rate| element.byte_len() as f64 / rate.0));
        let has_room_since = match reading.takes.len() > self.pipeline.ahead() {
            true => reading.takes[0],
            false => Time::ZERO,
        };
        let read = reading.idle_since.max(has_room_since).after(span);
        reading.idle_since = read;
        reading.next = Some((element, read));
        Ok(())
    }

    fn end(&self, taken: u64) -> Error {
        let name = &self.name;
        if taken == 0 {
            let message = format!("the input `{name}` has no elements for this task");
            return Error::new(Code::InvalidArgument, message);
        }
        Error::new(
            Code::OutOfRange,
            format!("the input `{name}` has ended, after {taken} elements"),
        )
    }

    fn failed(&self, error: &DataError) -> Error {
        data_error(&what(&self.name), error)
    }
}

/// The input `name`, as errors call it.
fn what(name: &str) -> String {
    format!("the input `{name}`")
}

/// The error of a task for which data of `what` can't be read.
pub(crate) fn data_error(what: &str, error: &DataError) -> Error {
    Error::new(error.code(), format!("{what}: {error}"))
}

impl<T: ByteLen> Position for State<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn taken(&self) -> u64 {
        self.reading.borrow().taken
    }

    fn seek(&self, taken: u64) {
        let mut reading = self.reading.borrow_mut();
        if reading.taken == taken {
            return;
        }
        let (idle_since, takes) = (self.clock.now(), VecDeque::new());
        *reading = Reading { taken, reader: None, next: None, idle_since, takes };
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async move {
            let is_there = self.reading.borrow().next.is_some();
            if !is_there {
                self.read().await?;
            }
            let read = self.reading.borrow().next.as_ref().map(|(_, read)| *read);
            if let Some(read) =
                read.filter(|read| self.clock.stands_still() && *read > self.clock.now())
            {
                self.clock.sleep_until(read).await;
            }
            Ok(())
        })
    }
}
