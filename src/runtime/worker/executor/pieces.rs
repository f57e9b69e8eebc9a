//! A step in pieces: its feeds come one after the other, and its fetches go when they are there.

use crate::tensor::Tensor;

use super::Executor;

impl Executor {
    /// Takes the client's value for the partition's feed at `position`, which has not come before.
    pub(crate) fn feed_one(&mut self, position: usize, value: Tensor) {
        let (_, slot) = self.plan.partition.feeds[position];
        self.progress.put(&self.plan, slot, value);
    }

    /// The fetches that are there now and have not been `told`, each with its position.
    pub(crate) fn fetched(&mut self, told: &mut [bool]) -> Vec<(u32, Tensor)> {
        // While the device has the values, nobody else can look at them.
        let Some(batch) = &mut self.progress.batch else { return Vec::new() };
        let mut fetched = Vec::new();
        let fetches = (0u32..).zip(&self.plan.partition.fetches).zip(told);
        for ((position, (_, slot)), told) in fetches.filter(|(_, told)| !**told) {
            if batch.frame.known(*slot).is_some() {
                *told = true;
                fetched.push((position, batch.frame.take(*slot)));
            }
        }
        fetched
    }
}
