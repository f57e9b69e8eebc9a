//! The parts of a task's processor, and their order among its lanes.

/// A part of a task's processor, which does one piece of work after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum Part {
    MessageThread,
    /// One of the task's devices: first the processors, then the accelerators.
    Device(usize),
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
}

impl Layout {
    /// The number of parts.
    pub(super) fn lanes(self) -> usize {
        1 + self.cpus + self.gpus * (1 + LINKS)
    }

    /// The place of `part` among them.
    pub(super) fn lane(self, part: Part) -> usize {
        match part {
            Part::MessageThread => 0,
            Part::Device(device) => 1 + device,
            Part::Link(link) => 1 + self.cpus + self.gpus + link,
        }
    }

    /// The part at `lane`.
    pub(super) fn part(self, lane: usize) -> Part {
        let devices = self.cpus + self.gpus;
        match lane {
            0 => Part::MessageThread,
            device if device <= devices => Part::Device(device - 1),
            link => Part::Link(link - devices - 1),
        }
    }
}
