//! The error of a run in which nothing can happen any more: who waits for what.

use std::rc::Rc;

use crate::cluster::TaskName;
use crate::runtime::{Code, Error, Inquiry, Server, Waiting};

/// The question to all actors of a run in which nothing can happen any more.
pub(super) struct Stall {
    inquiry: Inquiry<Waiting>,
    /// The number of actors that had not answered at the last call of [`Stall::is_explained`].
    unanswered: usize,
}

impl Stall {
    /// Asks the actors of `servers` what they wait for.
    pub(super) fn new<'a>(servers: impl Iterator<Item = &'a Rc<Server>>) -> Self {
        let inquiry = Inquiry::new();
        for server in servers {
            server.inquire(&inquiry);
        }
        Self { inquiry, unanswered: usize::MAX }
    }

    /// Whether all actors have answered, or none has since the last call.
    pub(super) fn is_explained(&mut self) -> bool {
        let unanswered = self.inquiry.unanswered();
        let before = std::mem::replace(&mut self.unanswered, unanswered);
        self.inquiry.is_over() || unanswered == before
    }

    /// The error, which also names the tasks that have `ended`, since their programs have returned.
    pub(super) fn to_error<'a>(&self, ended: impl Iterator<Item = &'a TaskName>) -> Error {
        stalled(&self.inquiry.take(), ended.map(has_ended))
    }
}

fn has_ended(task: &TaskName) -> String {
    let advice = match task.is_parameter_server() {
        true => "; that of a parameter server waits for the workers by `task.join()`",
        false => "",
    };
    format!("{task} has ended: its program has returned{advice}")
}

fn stalled(waiting: &[Waiting], ended: impl Iterator<Item = String>) -> Error {
    let mut lines: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    lines.sort();
    if lines.is_empty() {
        lines.push(
            "no actor waits for another; a program waits for something outside of the simulation"
                .to_owned(),
        );
    }
    lines.extend(ended);
    Error::new(Code::Stalled, format!("nothing can happen any more:\n  {}", lines.join("\n  ")))
}
