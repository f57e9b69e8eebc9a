//! The units of a task's processor, and their order among its queues.

/// A unit of a task's processor, which does one piece of work after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum ProcessorUnit {
    MessageThread,
    /// One of the task's devices: first the processors, then the accelerators.
    Device(usize),
    /// The threads that carry large envelopes, together.
    Lanes,
    /// One way of a link between memories: [`LINKS`] for each accelerator.
    Link(usize),
}

/// The links of an accelerator: from its host's memory, to it, and to other accelerators.
pub(in crate::simulation) const LINKS: usize = 3;

/// The units of a task's processor.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulation) struct Layout {
    /// The number of its host.
    pub(in crate::simulation) host: usize,
    /// The number of its devices that run on the host's cores.
    pub(in crate::simulation) cpus: usize,
    /// The number of its accelerators.
    pub(in crate::simulation) gpus: usize,
    /// Whether it has lanes.
    pub(in crate::simulation) has_lanes: bool,
}

impl Layout {
    /// The number of units.
    pub(super) fn queues(self) -> usize {
        self.lanes() + usize::from(self.has_lanes)
    }

    /// Whether the unit at `queue` runs on the cores of the host.
    pub(super) fn is_on_host(self, queue: usize) -> bool {
        queue <= self.cpus || queue == self.lanes()
    }

    /// The place of the lanes, which come last.
    fn lanes(self) -> usize {
        1 + self.cpus + self.gpus * (1 + LINKS)
    }

    /// The place of `unit` among them.
    pub(super) fn queue(self, unit: ProcessorUnit) -> usize {
        match unit {
            ProcessorUnit::MessageThread => 0,
            ProcessorUnit::Device(device) => 1 + device,
            ProcessorUnit::Lanes => self.lanes(),
            ProcessorUnit::Link(link) => 1 + self.cpus + self.gpus + link,
        }
    }

    /// The unit at `queue`.
    pub(super) fn unit(self, queue: usize) -> ProcessorUnit {
        let devices = self.cpus + self.gpus;
        match queue {
            0 => ProcessorUnit::MessageThread,
            device if device <= devices => ProcessorUnit::Device(device - 1),
            lanes if lanes == self.lanes() => ProcessorUnit::Lanes,
            link => ProcessorUnit::Link(link - devices - 1),
        }
    }
}
