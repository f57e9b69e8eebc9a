//! Values that arrive from other devices: for steps that wait for them, or kept for steps to come.

use smallvec::SmallVec;
use tracing::trace_span;

use crate::cluster::LocalDevice;
use crate::partition::CrossingId;
use crate::runtime::error::{Code, Error};
use crate::runtime::messages::{
    AllReceived, Arrivals, GraphHandle, Received, SentValue, StepId, StepPart, unpacked,
};
use crate::tensor::within_memory;
use crate::transport::PeerId;

use super::{RegisteredPartition, Worker};

impl Worker {
    /// Hop 6 of a step: brings values from other devices to the steps that wait for them.
    pub(super) fn receive(
        &mut self,
        from: PeerId,
        step: StepId,
        devices: &[LocalDevice],
        arrivals: &AllReceived,
    ) {
        let _span =
            trace_span!("rendezvous", step = step.number, values = arrivals.len()).entered();
        let mut in_vain = 0;
        for device in devices {
            let part = StepPart { step, device: *device };
            let Some(running) = self.steps.get_mut(&part) else {
                self.keep(from, part, arrivals);
                continue;
            };
            let registered =
                self.registered.get(&running.graph).expect("a partition outlives its steps");
            for arrival in arrivals {
                let is_due = registered.receives(arrival.0, from, &self.outbox);
                if !is_due || !running.executor.receive(arrival.clone()) {
                    in_vain += 1;
                }
            }
            self.run_ready(part);
        }
        if in_vain > 0
            && let Some(values) = self.dropped.count(from, in_vain, self.clock.now())
        {
            tracing::warn!(
                values, step = step.number, from = %self.outbox.name(from),
                "values that nobody waits for; dropped"
            );
        }
    }

    /// Decodes values for `devices`, if they came packed. The step fails there if this task has no
    /// memory for them, or their sender had none to pack them.
    pub(super) fn unpack(
        &mut self,
        from: PeerId,
        (step, devices): (StepId, &[LocalDevice]),
        arrivals: Arrivals,
    ) -> Option<AllReceived> {
        // Only what is packed can be refused: the others need no list.
        let mut crossings: SmallVec<[CrossingId; 4]> = SmallVec::new();
        if arrivals.iter().any(|(_, value)| matches!(value, Some(SentValue::Packed(_)))) {
            crossings.extend(arrivals.iter().map(|(one, _)| *one));
        }
        let refused = match within_memory(|| unpacked(arrivals)) {
            Ok(Ok(arrivals)) => return Some(arrivals),
            Ok(Err(why)) => Error::new(Code::ResourceExhausted, why).on(&self.outbox.name(from)),
            Err(refused) => Error::from(refused).on(&self.outbox.name(self.outbox.local())),
        };
        for device in devices {
            let part = StepPart { step, device: *device };
            let is_due = |registered: &RegisteredPartition| {
                crossings.iter().any(|one| registered.receives(*one, from, &self.outbox))
            };
            match self.steps.get(&part).map(|running| running.graph) {
                Some(graph) if self.registered.get(&graph).is_some_and(is_due) => {
                    self.fail(part, refused.clone());
                }
                None if self.partitions_with_room(part, crossings.len()).any(is_due) => {
                    self.refuse_early(from, part, crossings.len(), refused.clone());
                }
                _ => {} // nobody waits for them
            }
        }
        None
    }

    /// Notes that so many values of `from`, for a step whose order to run is still on its way,
    /// could not be kept.
    fn refuse_early(&mut self, from: PeerId, part: StepPart, values: usize, refused: Error) {
        let error = refused.to_string();
        if !self.rendezvous.refuse(part, refused)
            && let Some(values) = self.dropped.count(from, values as u64, self.clock.now())
        {
            tracing::warn!(
                values, step = part.step.number, from = %self.outbox.name(from), error,
                "values are dropped whose step will wait for them"
            );
        }
    }

    /// Keeps values of `from` for a step whose order to run is still on its way: those that a
    /// partition registered here receives. A step's partitions are registered on all tasks before
    /// it begins.
    fn keep(&mut self, from: PeerId, part: StepPart, arrivals: &AllReceived) {
        let partitions = || self.partitions_with_room(part, arrivals.len());
        if partitions().next().is_none() {
            return tracing::debug!(
                step = part.step.number, from = %self.outbox.name(from),
                "values for a device without a graph that could take them; dropped"
            );
        }
        let is_due = |(crossing, _): &&Received| {
            partitions().any(|one| one.receives(*crossing, from, &self.outbox))
        };
        let due: AllReceived = arrivals.iter().filter(is_due).cloned().collect();
        let room = partitions().map(|one| one.senders.len()).max().unwrap_or(0);
        let are_all_due = due.len() == arrivals.len();
        if !self.rendezvous.offer(part, due, room) || !are_all_due {
            tracing::debug!(
                step = part.step.number, from = %self.outbox.name(from),
                "values of a step that is not to come; dropped"
            );
        }
    }

    /// The partitions of the master of `part` on its device that receive so many values or more. A
    /// message has values for one of them, so that others need no look at each value.
    fn partitions_with_room(
        &self,
        part: StepPart,
        values: usize,
    ) -> impl Iterator<Item = &RegisteredPartition> {
        let first = GraphHandle { master: part.step.master, number: 0 };
        let last = GraphHandle { number: u64::MAX, ..first };
        let partitions = self.registered.range(first..=last).map(|(_, partition)| partition);
        partitions.filter(move |one| {
            one.plan.partition.device == part.device && one.senders.len() >= values
        })
    }
}
