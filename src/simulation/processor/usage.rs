//! What a task's processor has done, by activity.

use std::time::Duration;

listed! {
    /// An activity of a task's processor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Activity {
        /// The message thread sends envelopes, and encodes them.
        Sending as "sending",
        /// The message thread receives envelopes, and decodes them.
        Receiving as "receiving",
        /// The message thread wakes up.
        Waking as "waking",
        /// The message thread carries out operations, beside their kernels.
        Operations as "operations",
        /// The message thread runs small kernels.
        SmallKernels as "small_kernels",
        /// The message thread gives kernels to the cores, and hears of their ends.
        HandingOver as "handing_over",
        /// The devices run kernels.
        Kernels as "kernels",
        /// Work that has begun is slower than it would be on free cores, because others of the host
        /// run.
        Queueing as "queueing",
    }
    pub const ALL;
    /// Its name in a report.
    pub fn name;
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
