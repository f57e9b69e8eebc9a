//! The parts of a task's processor, and their order among its queues.

/// A part of a task's processor, which does one piece of work after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum Part {
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

/// The parts of a task's processor.
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
    /// The number of parts.
    pub(super) fn queues(self) -> usize {
        self.lanes() + usize::from(self.has_lanes)
    }

    /// Whether the part at `queue` runs on the cores of the host.
    pub(super) fn is_on_host(self, queue: usize) -> bool {
        queue <= self.cpus || queue == self.lanes()
    }

    /// The place of the lanes, which come last.
    fn lanes(self) -> usize {
        1 + self.cpus + self.gpus * (1 + LINKS)
    }

    /// The place of `part` among them.
    pub(super) fn queue(self, part: Part) -> usize {
        match part {
            Part::MessageThread => 0,
            Part::Device(device) => 1 + device,
            Part::Lanes => self.lanes(),
            Part::Link(link) => 1 + self.cpus + self.gpus + link,
        }
    }

    /// The part at `queue`.
    pub(super) fn part(self, queue: usize) -> Part {
        let devices = self.cpus + self.gpus;
        match queue {
            0 => Part::MessageThread,
            device if device <= devices => Part::Device(device - 1),
            lanes if lanes == self.lanes() => Part::Lanes,
            link => Part::Link(link - devices - 1),
        }
    }
}
