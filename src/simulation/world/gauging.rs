//! Writes the gauges of a world, for an observer.

use super::World;
use crate::simulation::gauges::Reading;
use crate::units::Bytes;

impl World {
    /// Counts what `from` sends to `to`, if somebody may look.
    pub(super) fn gauge(&mut self, from: usize, to: usize, Bytes(size): Bytes) {
        if self.cluster.gauges.is_some() {
            *self.sent.entry((from, to)).or_default() += size;
        }
    }

    /// Writes the gauges, if somebody has asked or the run `is_over`.
    pub(super) fn write_gauges(&mut self, is_over: bool) {
        let Some(gauges) = self.cluster.gauges.as_ref() else { return };
        if !is_over && !gauges.is_wanted() {
            return;
        }
        let path = self.history.paths(&self.tasks, is_over);
        let name = |task: usize| self.tasks[task].clone();
        let sent = self.sent.iter().map(|((from, to), size)| ((name(*from), name(*to)), *size));
        let now = self.now;
        gauges.write(Reading { now, sent: sent.collect(), path });
    }
}
