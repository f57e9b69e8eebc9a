//! The receivers of the values that a partition sends: what goes to one of them at a time travels
//! as one message, but each large value as one of its own.

use std::collections::BTreeSet;
use std::mem;

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::partition::{CrossingId, Partition};
use crate::tensor::Tensor;
use crate::transport::PeerId;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::gathered::Gathered;
use crate::runtime::messages::{Arrivals, StepId, second_large};
use crate::runtime::outbox::Outbox;
use crate::runtime::worker::copies::Outlet;

/// Devices of a task that receive the same values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Receiver {
    peer: PeerId,
    devices: SmallVec<[LocalDevice; 1]>,
}

/// The receivers of a partition.
pub(super) struct Receivers {
    /// In order.
    all: Vec<Receiver>,
    /// By position of the send: its receiver's place in `all`, and its edge.
    of_send: Vec<(u32, CrossingId)>,
}

/// Values to send, by the place of their receiver. Empty between uses, and kept for its storage.
pub(super) type Outgoing = Gathered<u32, Arrivals>;

impl Receivers {
    /// The receivers of `partition`.
    ///
    /// # Errors
    /// It sends to a task that is not in the cluster.
    pub(super) fn of(partition: &Partition, outbox: &Outbox) -> Result<Self> {
        let mut receivers = Vec::new();
        for send in &partition.sends {
            let unknown = || {
                let (task, to) = (&partition.task, &send.to);
                let message =
                    format!("{task} does not know the task {to}, to which it has to send");
                Error::new(Code::Unavailable, message)
            };
            let peer = outbox.resolve(&send.to).ok_or_else(unknown)?;
            receivers.push(Receiver { peer, devices: SmallVec::from_slice(&send.devices) });
        }
        let mut all = receivers.clone();
        all.sort();
        all.dedup();
        let place = |receiver| all.binary_search(receiver).expect("all has each of them") as u32;
        let crossings = partition.sends.iter().map(|send| send.crossing);
        let of_send = receivers.iter().map(place).zip(crossings).collect();
        Ok(Self { all, of_send })
    }

    /// The tasks that values go to, each once.
    pub(super) fn peers(&self) -> BTreeSet<PeerId> {
        self.all.iter().map(|receiver| receiver.peer).collect()
    }

    /// Sends `values` of a step, each with the position of its send, and empties the list.
    pub(super) fn send(
        &self,
        values: &mut Vec<(u32, Option<Tensor>)>,
        step: StepId,
        outlet: &Outlet<'_>,
        outgoing: &mut Outgoing,
    ) {
        if values.is_empty() {
            return;
        }
        for (send, value) in values.drain(..) {
            let (place, crossing) = self.of_send[send as usize];
            outgoing.of(place, Arrivals::default).push((crossing, value.map(Into::into)));
        }
        for (place, mut arrivals) in outgoing.drain() {
            let Receiver { peer, devices } = &self.all[place as usize];
            while let Some(second) = second_large(&arrivals) {
                let later = arrivals.drain(second..).collect();
                let first = mem::replace(&mut arrivals, later);
                outlet.send(*peer, step, devices.clone(), first);
            }
            outlet.send(*peer, step, devices.clone(), arrivals);
        }
    }
}
