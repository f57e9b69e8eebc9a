//! The devices of one task: its processors and its accelerators, by kind and number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a device (TensorFlow: the device type).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// A processor, whose memory is its host's.
    Cpu,
    /// An accelerator with memory of its own.
    Gpu,
}

/// A device of a task that is known, such as `GPU:1`. Ordered by kind, then index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LocalDevice {
    /// The kind.
    pub kind: DeviceKind,
    /// The index among the task's devices of this kind, from 0.
    pub index: u32,
}

impl DeviceKind {
    /// The kind in device names: `CPU` or `GPU`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
        }
    }

    /// The kind of this `name`, in capitals; `None` if no device is of it.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Cpu, Self::Gpu].into_iter().find(|kind| kind.name() == name)
    }
}

impl LocalDevice {
    /// `CPU:index`.
    pub const fn cpu(index: u32) -> Self {
        Self { kind: DeviceKind::Cpu, index }
    }

    /// `GPU:index`.
    pub const fn gpu(index: u32) -> Self {
        Self { kind: DeviceKind::Gpu, index }
    }

    /// Whether it is an accelerator, so that values are copied to its memory and from it.
    pub fn is_gpu(self) -> bool {
        self.kind == DeviceKind::Gpu
    }
}

impl fmt::Display for LocalDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.index)
    }
}
