//! A step's kernels on the devices of its task, and the time that they take.

use std::rc::Rc;
use std::time::Duration;

use tracing::trace_span;

use super::Worker;
use super::steps::RunningPartition;
use crate::graph::Op;
use crate::runtime::compute::{Asker, Calculation, Work, WorkerStep};
use crate::runtime::error::Error;
use crate::runtime::mail::WorkerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{Origin, StepPart};
use crate::runtime::worker::executor::{Batch, NodeFailure};
use crate::transport::PeerId;
use crate::units::Time;

impl Worker {
    /// Hop 5 of a step: sends kernels to the device, which returns them as `Computed`.
    pub(super) fn launch(&self, mut batch: Box<Batch>, origin: Option<Origin>) {
        let StepPart { step, device } = batch.part;
        let _span = trace_span!("kernels", step = step.number, count = batch.nodes.len()).entered();
        let device = self.devices.get(device);
        batch.numerics = device.numerics();
        let step = origin.map(|origin| WorkerStep { master: step.master, origin });
        let (cost, asker) = (batch.cost, Asker(Rc::clone(&self.outbox.actors)));
        device.launch(Work { step, cost, calculation: batch, asker });
    }

    pub(super) fn computed(&mut self, mut batch: Box<Batch>) {
        let part = batch.part;
        let now = self.clock.now();
        let Some(running) = self.steps.get_mut(&part) else { return };
        running.end_piece(now);
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

impl RunningPartition {
    /// Whether `node` is an update that the task computes in a step of its own, and that waits for
    /// no other worker's gradient.
    pub(super) fn is_own_update(&self, node: u32, local: PeerId) -> bool {
        let Op::ApplyGradient { replica, .. } = &self.executor.plan().node(node).op else {
            return false;
        };
        self.master == local && !replica.is_some_and(|replica| replica.mode.needs().has_rounds())
    }

    /// The devices are given `pieces` of the step's work.
    pub(super) fn begin_pieces(&mut self, pieces: usize, now: Time) {
        if self.pieces == 0 {
            self.launched = now;
        }
        self.pieces += pieces;
    }

    /// The devices have done a piece of the step's work. Time in which they do several counts once.
    pub(super) fn end_piece(&mut self, now: Time) {
        self.pieces -= 1;
        if self.pieces > 0 {
            return;
        }
        let before = self.computed.map_or(Duration::ZERO, |(from, until)| until.since(from));
        let busy = before + now.since(self.launched);
        self.computed = Some((Time(now.0.saturating_sub(busy.as_nanos() as u64)), now));
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
