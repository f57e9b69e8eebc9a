//! The end of a run: all programs have returned, one has failed, or nothing can happen any more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::task::JoinError;

use crate::cluster::TaskName;
use crate::runtime::{Code, Error, Waiting, WaitingList};

use super::programs::Servers;
use super::world::SimulatedWorld;

/// What a task's program returned. A panic in it is its error, and not one of the simulation.
/// None where a fault has ended it.
pub(super) fn panic_as_error<T>(
    joined: Result<Result<T, Error>, JoinError>,
) -> Option<Result<T, Error>> {
    let error = match joined {
        Ok(returned) => return Some(returned),
        Err(error) => error,
    };
    let panic = error.try_into_panic().ok()?;
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or(panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the program panicked: {}", text.unwrap_or("without a message"));
    Some(Err(Error::new(Code::Internal, message)))
}

/// What is known of the end of a run.
pub(super) struct Ending<T> {
    state: RefCell<EndingState<T>>,
}

struct EndingState<T> {
    returned: BTreeMap<TaskName, T>,
    /// Those that return or fail: all but those that have died for good.
    tasks: usize,
    ended: Option<oneshot::Sender<Result<BTreeMap<TaskName, T>, Error>>>,
}

pub(super) type Ended<T> = oneshot::Receiver<Result<BTreeMap<TaskName, T>, Error>>;

impl<T> Ending<T> {
    pub(super) fn new(tasks: usize) -> (Rc<Self>, Ended<T>) {
        let (sender, ended) = oneshot::channel();
        let state = EndingState { returned: BTreeMap::new(), tasks, ended: Some(sender) };
        (Rc::new(Self { state: RefCell::new(state) }), ended)
    }

    /// A task's program has returned: the first error, or the last task, ends the run.
    pub(super) fn returned(&self, task: TaskName, result: Result<T, Error>) {
        let mut state = self.state.borrow_mut();
        match result {
            Ok(value) => {
                state.returned.insert(task, value);
                state.end_if_all_returned();
            }
            Err(error) => state.end(Err(error.on(&task))),
        }
    }

    /// A task has died for good.
    pub(super) fn gone(&self) {
        let mut state = self.state.borrow_mut();
        state.tasks -= 1;
        state.end_if_all_returned();
    }

    fn stalled(&self, waiting: &WaitingList) {
        let mut state = self.state.borrow_mut();
        let list = waiting.lock().expect("nobody panics while writing what it waits for");
        state.end(Err(stalled(&list)));
    }
}

impl<T> EndingState<T> {
    fn end_if_all_returned(&mut self) {
        if self.returned.len() == self.tasks {
            let all = std::mem::take(&mut self.returned);
            self.end(Ok(all));
        }
    }

    /// Only the first end counts.
    fn end(&mut self, result: Result<BTreeMap<TaskName, T>, Error>) {
        let ended = self.ended.take();
        if ended.is_some_and(|ended| ended.send(result).is_err()) {
            tracing::debug!("the run has ended already");
        }
    }
}

/// When nothing can happen any more, asks all actors what they wait for; when they have answered,
/// ends the run.
pub(super) fn watch_for_stall<T: 'static>(
    world: &Rc<SimulatedWorld>,
    servers: Servers,
    ending: &Rc<Ending<T>>,
) {
    let (again, ending) = (Rc::clone(world), Rc::clone(ending));
    world.when_stalled(move || {
        let waiting: WaitingList = Arc::new(Mutex::new(Vec::new()));
        servers.borrow().iter().flatten().for_each(|server| server.inquire(&waiting));
        again.when_stalled(move || ending.stalled(&waiting));
    });
}

fn stalled(waiting: &[Waiting]) -> Error {
    let mut lines: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    lines.sort();
    if lines.is_empty() {
        lines.push(
            "no actor waits for another; a program waits for something that is not of this world"
                .to_owned(),
        );
    }
    Error::new(Code::Stalled, format!("nothing can happen any more:\n  {}", lines.join("\n  ")))
}
