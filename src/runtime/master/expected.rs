//! The step that a master expects to follow a training step: its number is told in advance, so that
//! parameter servers can read variables for it when the step before ends, and send them with the
//! answer.
//!
//! Only the very next step of the master can be the expected one. Whatever else is run in between,
//! such as an evaluation or an assignment, might change a variable or have to come first; the step
//! that follows it is then another one, and reads for itself.

use std::sync::Arc;

use super::Master;
use super::step_plan::Ready;
use crate::partition::Request;
use crate::runtime::mail::RunStep;
use crate::runtime::messages::SessionId;

/// A step that is expected.
pub(super) struct Expected {
    session: SessionId,
    request: Arc<Request>,
    number: u64,
}

impl Master {
    /// The number of the step `run`, which begins.
    pub(super) fn number_of(&mut self, run: &RunStep) -> u64 {
        let is_it = |expected: &Expected| {
            let is_same = expected.session == run.session && expected.request == run.request;
            is_same && run.origin.is_some() && !run.is_traced
        };
        match self.expected.take().filter(is_it) {
            Some(expected) => expected.number,
            None => self.new_number(),
        }
    }

    /// The number of the step that is expected to follow `run`, if variables are to be read for it.
    pub(super) fn expect_after(&mut self, run: &RunStep, plan: &Ready) -> Option<u64> {
        let is_remote = plan.parts.iter().any(|part| part.peer != self.outbox.local());
        if !run.reads_ahead || run.is_traced || !is_remote {
            return None;
        }
        let number = self.new_number();
        let (session, request) = (run.session, Arc::clone(&run.request));
        self.expected = Some(Expected { session, request, number });
        Some(number)
    }

    fn new_number(&mut self) -> u64 {
        self.next_step += 1;
        self.next_step - 1
    }
}
