//! The accelerators of a task: their speed, their memory and their links.

use std::num::NonZeroU32;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::cluster::LocalDevice;
use crate::units::{Bytes, BytesPerSecond, seconds};

use super::device::ComputeSpec;
use super::processor::LINKS;

/// The accelerators of a task, `/device:GPU:0` and on, all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpus {
    /// The number of them.
    pub count: NonZeroU32,
    /// The speed of each, with the laws of worker steps.
    pub compute: ComputeSpec,
    /// The memory of each: for the values of the steps that run on it, and the variables that it
    /// holds. `None` for any amount.
    pub capacity: Option<Bytes>,
    /// The link of each to the memory of its host, and back.
    pub host: MemoryLink,
    /// The link from each GPU to the other ones; `None` if values between GPUs go through the host.
    pub peers: Option<MemoryLink>,
}

/// A link between two memories. It carries one value after another, and each way by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLink {
    /// The time before the first byte arrives.
    pub latency: Duration,
    /// The rate \[bytes/s\].
    pub bandwidth: BytesPerSecond,
}

/// A copy over one link: the link's number among those of the task, and its time.
pub(super) type Hop = (usize, Duration);

impl MemoryLink {
    fn time(self, size: Bytes) -> Duration {
        self.latency.saturating_add(seconds(size.0 as f64 / self.bandwidth.0))
    }
}

impl Gpus {
    /// The way of a value of `size` from the memory of one device of the task to another's, of
    /// which at least one is an accelerator.
    pub(super) fn route(
        &self,
        (from, to): (LocalDevice, LocalDevice),
        size: Bytes,
    ) -> SmallVec<[Hop; 2]> {
        let link = |gpu: LocalDevice, way: usize| gpu.index as usize * LINKS + way;
        let into = (link(to, 0), self.host.time(size));
        let out = (link(from, 1), self.host.time(size));
        match (from.is_gpu(), to.is_gpu(), self.peers) {
            (true, true, Some(peers)) => smallvec![(link(from, 2), peers.time(size))],
            (true, true, None) => smallvec![out, into],
            (true, false, _) => smallvec![out],
            (false, _, _) => smallvec![into],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::units::FlopsPerSecond;

    fn gpus(peers: Option<MemoryLink>) -> Gpus {
        let compute = ComputeSpec {
            rate: FlopsPerSecond(1e12),
            memory: BytesPerSecond(1e11),
            efficiency: BTreeMap::new(),
            straggler: None,
            step_time: None,
            stop_cost: Duration::ZERO,
        };
        let host =
            MemoryLink { latency: Duration::from_micros(10), bandwidth: BytesPerSecond(1e9) };
        let count = NonZeroU32::new(4).unwrap();
        Gpus { count, compute, capacity: None, host, peers }
    }

    #[test]
    fn what_goes_from_one_gpu_to_another_takes_their_link_or_goes_through_the_host() {
        let (cpu, one, other) = (LocalDevice::cpu(0), LocalDevice::gpu(0), LocalDevice::gpu(2));
        let size = Bytes(1_000_000);
        let (slow, fast) = (Duration::from_micros(1010), Duration::from_micros(101));
        let apart = gpus(None);
        assert_eq!(apart.route((cpu, other), size).as_slice(), [(2 * LINKS, slow)]);
        assert_eq!(apart.route((one, cpu), size).as_slice(), [(1, slow)]);
        assert_eq!(apart.route((one, other), size).as_slice(), [(1, slow), (2 * LINKS, slow)]);
        let peers =
            MemoryLink { latency: Duration::from_micros(1), bandwidth: BytesPerSecond(1e10) };
        assert_eq!(gpus(Some(peers)).route((one, other), size).as_slice(), [(2, fast)]);
    }
}
