//! What a task's processor has done, by activity.

use std::time::Duration;

/// An activity of a task's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// The message thread sends envelopes, and encodes them.
    Sending,
    /// The message thread receives envelopes, and decodes them.
    Receiving,
    /// The message thread wakes up.
    Waking,
    /// The message thread carries out operations, beside their kernels.
    Operations,
    /// The message thread runs small kernels.
    SmallKernels,
    /// The message thread gives kernels to the cores, and hears of their ends.
    HandingOver,
    /// The devices run kernels.
    Kernels,
    /// Work that has begun is slower than it would be on free cores, because others of the host
    /// run.
    Queueing,
}

impl Activity {
    /// All activities.
    pub const ALL: [Self; 8] = [
        Self::Sending,
        Self::Receiving,
        Self::Waking,
        Self::Operations,
        Self::SmallKernels,
        Self::HandingOver,
        Self::Kernels,
        Self::Queueing,
    ];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Receiving => "receiving",
            Self::Waking => "waking",
            Self::Operations => "operations",
            Self::SmallKernels => "small_kernels",
            Self::HandingOver => "handing_over",
            Self::Kernels => "kernels",
            Self::Queueing => "queueing",
        }
    }
}

/// The time that a task's processor has spent on each activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorUsage([Duration; Activity::ALL.len()]);

impl ProcessorUsage {
    pub(in crate::simulation) fn add(&mut self, activity: Activity, span: Duration) {
        self.0[activity as usize] += span;
    }

    /// The time that was spent on `activity`.
    pub fn of(&self, activity: Activity) -> Duration {
        self.0[activity as usize]
    }
}
