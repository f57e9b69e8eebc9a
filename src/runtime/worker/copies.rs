//! Copies between the memories of a task's devices. What an accelerator sends leaves its memory
//! first, and what it takes comes into its memory first: values of other devices and tasks, feeds
//! and fetches.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::tensor::Tensor;
use crate::transport::PeerId;
use crate::units::Bytes;

use super::Worker;
use super::copied::Copied;
use crate::runtime::compute::{Asker, Calculation};
use crate::runtime::devices::Devices;
use crate::runtime::mail::WorkerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{
    AllReceived, Arrivals, GraphHandle, MasterMessage, PeerMessage, Received, StepId, WorkerMessage,
};
use crate::runtime::outbox::Outbox;

/// The memory of the host, which all processors share.
const HOST: LocalDevice = LocalDevice::cpu(0);

impl Calculation for Copied {
    fn run(&mut self) {}

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.worker, WorkerMail::Copied(self));
    }
}

/// The way out of a device.
pub(super) struct Outlet<'a> {
    pub(super) outbox: &'a Outbox,
    pub(super) devices: &'a Devices,
    pub(super) from: LocalDevice,
}

impl Outlet<'_> {
    /// Sends values of a step to devices of a task: of another or of this one.
    pub(super) fn send(
        &self,
        to: PeerId,
        step: StepId,
        devices: SmallVec<[LocalDevice; 1]>,
        arrivals: Arrivals,
    ) {
        let size = size_of_exact(&arrivals);
        if to != self.outbox.local() {
            let message = WorkerMessage::Tensors { step, devices, arrivals };
            return self.tell(to, message, size);
        }
        let is_near =
            |device: &LocalDevice| size == Bytes(0) || !(self.from.is_gpu() || device.is_gpu());
        let (near, far): (SmallVec<[LocalDevice; 1]>, SmallVec<[LocalDevice; 1]>) =
            devices.into_iter().partition(is_near);
        for device in far {
            let (devices, arrivals) = (SmallVec::from_slice(&[device]), arrivals.clone());
            let message = WorkerMessage::Tensors { step, devices, arrivals };
            self.copy(device, size, Copied::Here(to, message));
        }
        if !near.is_empty() {
            self.outbox.send(to, WorkerMessage::Tensors { step, devices: near, arrivals });
        }
    }

    /// Sends a message with values of this `size` in all, once they have left the device.
    fn tell(&self, to: PeerId, message: impl Into<PeerMessage>, size: Bytes) {
        if self.from.is_gpu() && size > Bytes(0) {
            self.copy(HOST, size, Copied::Out(to, message.into()));
        } else {
            self.outbox.send(to, message);
        }
    }

    /// Tells a master that a part has ended, with the values that it fetches.
    pub(super) fn fetch(&self, master: PeerId, message: MasterMessage) {
        match &message {
            // Without values it still comes after what the part has sent, which is on its way.
            MasterMessage::GraphDone { outcome: Ok(values), .. } if self.from.is_gpu() => {
                let size = size_of(values);
                self.copy(HOST, size, Copied::Out(master, message.into()));
            }
            _ => self.outbox.send(master, message),
        }
    }

    fn copy(&self, to: LocalDevice, size: Bytes, then: Copied) {
        copy(self.devices, (self.from, to), size, then, self.outbox);
    }
}

impl Worker {
    /// Takes a message that has arrived, once its values are in the memory of the device that they
    /// are for.
    pub(super) fn arrived(&mut self, from: PeerId, message: WorkerMessage) {
        if !self.devices.has_gpus() {
            return self.take(from, message);
        }
        match message {
            WorkerMessage::Tensors { step, devices, arrivals } if from != self.outbox.local() => {
                if let Some(arrivals) = self.unpack(from, (step, &devices), arrivals) {
                    self.spread(from, step, &devices, &arrivals);
                }
            }
            message => match message.fed().and_then(|graph| self.registered.get(&graph)) {
                Some(registered) => self.copy_in(from, registered.plan.partition.device, message),
                None => self.take(from, message),
            },
        }
    }

    /// Brings values of another task to each of `devices`.
    fn spread(
        &mut self,
        from: PeerId,
        step: StepId,
        devices: &[LocalDevice],
        arrivals: &AllReceived,
    ) {
        let exact = |(crossing, value): &Received| (*crossing, value.clone().map(Into::into));
        for device in devices {
            let devices = SmallVec::from_slice(&[*device]);
            let arrivals = arrivals.iter().map(exact).collect();
            self.copy_in(from, *device, WorkerMessage::Tensors { step, devices, arrivals });
        }
    }

    /// Copies the values of `message` into the memory of `device`, which then takes them.
    fn copy_in(&mut self, from: PeerId, device: LocalDevice, message: WorkerMessage) {
        let size = message.values_size();
        if !device.is_gpu() || !self.devices.has(device) || size == Bytes(0) {
            return self.take(from, message);
        }
        let then = Copied::Here(from, message);
        copy(&self.devices, (HOST, device), size, then, &self.outbox);
    }

    /// Values have been copied.
    pub(super) fn copied(&mut self, copied: Copied) {
        match copied {
            Copied::Here(from, message) => self.take(from, message),
            Copied::Out(to, message) => self.outbox.send(to, message),
        }
    }
}

impl WorkerMessage {
    /// The partition that it feeds values to.
    fn fed(&self) -> Option<GraphHandle> {
        let Self::RunGraph(order) = self else { return None };
        Some(order.graph)
    }

    /// The size of the values that a device of this task takes.
    fn values_size(&self) -> Bytes {
        match self {
            Self::RunGraph(order) => size_of(&order.feeds),
            Self::Tensors { arrivals, .. } => size_of_exact(arrivals),
            _ => Bytes(0),
        }
    }
}

/// The size of `values` in memory.
fn size_of<'a>(values: impl IntoIterator<Item = &'a Tensor>) -> Bytes {
    Bytes(values.into_iter().map(|value| value.byte_len() as u64).sum())
}

fn size_of_exact(arrivals: &Arrivals) -> Bytes {
    let values = arrivals.iter().filter_map(|(_, value)| value.as_ref());
    Bytes(values.map(|value| value.exact_len() as u64).sum())
}

fn copy(
    devices: &Devices,
    between: (LocalDevice, LocalDevice),
    size: Bytes,
    then: Copied,
    outbox: &Outbox,
) {
    let gpu = if between.0.is_gpu() { between.0 } else { between.1 };
    devices.get(gpu).copy(between, size, Box::new(then), Asker(Rc::clone(&outbox.actors)));
}
