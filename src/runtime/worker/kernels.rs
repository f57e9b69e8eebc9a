//! A step's kernels on the devices of its task.

use std::rc::Rc;
use std::time::Duration;

use tracing::trace_span;

use super::Worker;
use crate::runtime::compute::{Asker, Calculation, Work, WorkerStep};
use crate::runtime::error::Error;
use crate::runtime::mail::WorkerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{Origin, StepPart};
use crate::runtime::worker::executor::{Batch, NodeFailure};
use crate::units::Time;

impl Worker {
    /// Hop 5 of a step: sends kernels to the device, which returns them as `Computed`.
    pub(super) fn launch(&self, mut batch: Box<Batch>, origin: Option<Origin>) {
        let StepPart { step, device } = batch.part;
        let _span = trace_span!("kernels", step = step.number, count = batch.nodes.len()).entered();
        let device = self.devices.get(device);
        batch.numerics = device.numerics();
        let step = origin.map(|origin| WorkerStep { master: step.master, origin });
        let (cost, asker) = (batch.cost, Asker(Rc::clone(&self.link.actors)));
        device.launch(Work { step, cost, calculation: batch, asker });
    }

    pub(super) fn computed(&mut self, mut batch: Box<Batch>) {
        let part = batch.part;
        let now = self.clock.now();
        let Some(running) = self.steps.get_mut(&part) else { return };
        let before = running.computed.map_or(Duration::ZERO, |(from, until)| until.since(from));
        let busy = before + now.since(running.launched);
        running.computed = Some((Time(now.0.saturating_sub(busy.as_nanos() as u64)), now));
        match std::mem::replace(&mut batch.outcome, Ok(())) {
            Ok(()) => {
                if let Some(trace) = &mut running.trace {
                    trace.end(&batch.nodes, now);
                }
                running.executor.computed(batch);
                self.run_ready(part);
            }
            Err(NodeFailure { node, code, message }) => {
                self.fail_node(part, node, Error::new(code, message));
            }
        }
    }
}

impl Calculation for Batch {
    fn run(&mut self) {
        self.compute();
    }

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.worker, WorkerMail::Computed(self));
    }
}
