//! Reading ahead: when a step has ended, its part here reads what the step that is expected to
//! follow reads first, and sends it in one envelope with the answer to the master. A step that
//! reads what its own last update has left takes one round trip instead of two.
//!
//! What was read belongs to one step of one registered partition: if the master orders another step
//! instead, or the variables are reset, it is thrown away, here and at the receivers.

use super::Worker;
use super::copies::Outlet;
use super::executor::Executor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::ParameterServerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, MasterMessage, StepId};
use crate::runtime::state::Served;
use crate::transport::PeerId;

/// A step that has not been ordered, and for which variables are read.
pub(super) struct Ahead {
    step: StepId,
    executor: Executor,
    /// While the parameter server reads: the answer for the step before, and its master.
    before: Option<(PeerId, MasterMessage)>,
    /// Whether the variables have been reset since.
    is_void: bool,
}

impl Worker {
    /// Answers `master` that a part has ended; if a step is expected to follow, together with what
    /// that step reads first.
    pub(super) fn answer(
        &mut self,
        master: PeerId,
        answer: MasterMessage,
        handle: GraphHandle,
        next: Option<StepId>,
    ) {
        let registered = self.registered.get(&handle).expect("a partition outlives its steps");
        let from = registered.plan.partition.device;
        // It is another one if the master has run the partition again meanwhile. What a GPU sends
        // leaves it over a link, in an order of its own.
        let next = next.filter(|next| registered.expected == Some(*next) && !from.is_gpu());
        let Some(step) = next.filter(|_| !registered.plan.tables.read_first.is_empty()) else {
            let outlet = Outlet { outbox: &self.outbox, devices: &self.devices, from };
            return outlet.fetch(master, answer);
        };
        let mut executor = self.begin(handle, step);
        let mut reads = self.outbox.actors.requests.take();
        if executor.read_first(&mut reads).is_err() {
            return self.outbox.send(master, answer);
        }
        self.devices.get(executor.plan().partition.device).operate(reads.len());
        let read = ParameterServerMail::ReadAhead { graph: handle, step, reads };
        tell(&self.outbox.actors.parameter_server, read);
        let before = Some((master, answer));
        let registered = self.registered.get_mut(&handle).expect("a partition outlives its steps");
        registered.ahead = Some(Ahead { step, executor, before, is_void: false });
    }

    /// Takes what has been read for `step`, sends it, and answers for the step before.
    pub(super) fn read_ahead(&mut self, handle: GraphHandle, step: StepId, served: Vec<Served>) {
        let Some(registered) = self.registered.get_mut(&handle) else { return };
        let Some(mut ahead) = registered.ahead.take_if(|ahead| ahead.step == step) else { return };
        let before = ahead.before.take();
        if !served.is_empty() {
            for Served { ticket, outcome } in served {
                let outputs = outcome.expect("what could not be read at once was not read");
                ahead.executor.served(ticket.node, outputs);
            }
            let from = registered.plan.partition.device;
            let outlet = Outlet { outbox: &self.outbox, devices: &self.devices, from };
            let sends = ahead.executor.sends();
            registered.receivers.send(sends, step, &outlet, &mut self.outgoing);
            registered.ahead = Some(ahead);
        }
        before.into_iter().for_each(|(master, answer)| self.outbox.send(master, answer));
    }

    /// The executor of `step`, if it was begun ahead. If another was, that one is given up.
    ///
    /// # Errors
    /// If the variables have been reset since.
    pub(super) fn take_ahead(
        &mut self,
        handle: GraphHandle,
        step: StepId,
    ) -> Result<Option<Executor>> {
        let registered = self.registered.get_mut(&handle).expect("it was just there");
        let Some(Ahead { step: begun, executor, before, is_void }) = registered.ahead.take() else {
            return Ok(None);
        };
        if let Some((master, answer)) = before {
            self.outbox.send(master, answer);
            return Ok(None);
        }
        if begun != step {
            return Ok(None);
        }
        if is_void {
            let message = format!("the variables of step {} were reset before it ran", step.number);
            return Err(Error::new(Code::Aborted, message));
        }
        Ok(Some(executor))
    }

    /// `step` of a partition begins, and `next` is expected to follow. What has come for another
    /// step that was expected is dropped.
    pub(super) fn expect(&mut self, handle: GraphHandle, step: StepId, next: Option<StepId>) {
        let registered = self.registered.get_mut(&handle).expect("it was just there");
        let expected = std::mem::replace(&mut registered.expected, next);
        if let Some(expected) = expected.filter(|expected| *expected != step) {
            self.rendezvous.abort(expected);
        }
    }

    /// Whether `step` is expected, so that values wait for it that were read ahead.
    pub(super) fn is_expected(&self, step: &StepId) -> bool {
        self.registered.values().any(|one| one.expected == Some(*step))
    }
}

impl super::RegisteredPartition {
    /// Its variables have been reset: the step that was begun ahead can't be taken.
    pub(super) fn void_ahead(&mut self) {
        self.ahead.iter_mut().for_each(|ahead| ahead.is_void = true);
    }
}
