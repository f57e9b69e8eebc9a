//! The error of a run in which nothing can happen any more: who waits for what.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use crate::runtime::{Code, Error, Server, Waiting, WaitingList};

/// A question to all actors about what they wait for.
pub(super) struct Inquiry {
    answers: WaitingList,
    /// The number of actors that had not answered at the last call of [`Inquiry::is_over`].
    unanswered: usize,
}

impl Inquiry {
    pub(super) fn new<'a>(servers: impl Iterator<Item = &'a Rc<Server>>) -> Self {
        let answers: WaitingList = Arc::new(Mutex::new(Vec::new()));
        for server in servers {
            server.inquire(&answers);
        }
        Self { unanswered: usize::MAX, answers }
    }

    /// Whether the inquiry is over: all actors have answered, or none has since the last call.
    pub(super) fn is_over(&mut self) -> bool {
        // An actor drops its copy of the list once it has answered.
        let unanswered = Arc::strong_count(&self.answers) - 1;
        let before = std::mem::replace(&mut self.unanswered, unanswered);
        unanswered == 0 || unanswered == before
    }

    pub(super) fn to_error(&self) -> Error {
        let waiting = self.answers.lock().expect("nobody panics while writing what it waits for");
        stalled(&waiting)
    }
}

fn stalled(waiting: &[Waiting]) -> Error {
    let mut lines: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    lines.sort();
    if lines.is_empty() {
        lines.push(
            "no actor waits for another; a program waits for something outside of the simulation"
                .to_owned(),
        );
    }
    Error::new(Code::Stalled, format!("nothing can happen any more:\n  {}", lines.join("\n  ")))
}
