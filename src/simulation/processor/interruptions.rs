//! Interruptions: what freezes, slow faults, crashes and steps that are given up do to work that is
//! under way.

use std::time::Duration;

use super::{ProcessorUnit, Processors, nanoseconds};
use crate::units::Time;

impl<T> Processors<T> {
    /// Stops all that `task` does.
    pub(in crate::simulation) fn freeze(&mut self, now: Time, task: usize) {
        assert!(!self.is_frozen[task], "a frozen task is not frozen again");
        self.end_polling(now, task);
        self.is_frozen[task] = true;
        for id in self.queues_of(task) {
            let queue = &mut self.queues[id];
            if !queue.pieces.is_empty() {
                queue.stopped = Some(self.hosts[queue.cores].stop(now, id));
            }
        }
        self.reschedule_all(task);
    }

    /// Lets `task` go on where it stopped after `frozen`.
    pub(in crate::simulation) fn thaw(&mut self, now: Time, task: usize, frozen: Duration) {
        self.is_frozen[task] = false;
        for id in self.queues_of(task) {
            let queue = &mut self.queues[id];
            queue.idle_since = queue.idle_since.after(frozen);
            if let Some(left) = queue.stopped.take() {
                queue.began = queue.began.after(frozen);
                self.run(now, id, left);
            } else {
                self.begin_next(now, id);
            }
        }
        self.reschedule_all(task);
    }

    /// Sets the faults' factor on the time of what `task` does, except copies over its links. What
    /// is left of the pieces that have begun is scaled to it.
    pub(in crate::simulation) fn set_slowdown(&mut self, now: Time, task: usize, factor: f64) {
        let scale = factor / std::mem::replace(&mut self.slowdown[task], factor);
        for id in self.queues_of(task) {
            if matches!(self.place(id).1, ProcessorUnit::Link(_)) {
                continue;
            }
            let Some(left) = self.stop(now, id) else { continue };
            let scaled = left * scale;
            self.queues[id].whole += scaled - left;
            if self.is_frozen[task] {
                self.queues[id].stopped = Some(scaled);
            } else {
                self.run(now, id, scaled);
            }
        }
        self.reschedule_all(task);
    }

    /// Cuts short the devices' pieces of `task` whose end `is_its`: the one that runs ends after at
    /// most `most`, the others take no time, and none is followed by anything. A frozen task gives
    /// nothing up.
    pub(in crate::simulation) fn cut_short(
        &mut self,
        now: Time,
        task: usize,
        most: Duration,
        is_its: impl Fn(&T) -> bool,
        nothing: impl Fn() -> T,
    ) {
        if self.is_frozen[task] {
            return;
        }
        for id in self.queues_of(task) {
            let is_device = matches!(self.place(id).1, ProcessorUnit::Device(_));
            for index in 0..self.queues[id].pieces.len() {
                let piece = &mut self.queues[id].pieces[index];
                if !is_its(&piece.then) {
                    continue;
                }
                piece.then = nothing();
                if is_device {
                    match index {
                        0 => self.cut_first(now, id, most),
                        _ => piece.span = Duration::ZERO,
                    }
                }
            }
        }
        self.reschedule_all(task);
    }

    /// Lets the first piece of a queue end after at most `most`, or longer if its task is slow.
    fn cut_first(&mut self, now: Time, id: usize, most: Duration) {
        let left = self.hosts[self.queues[id].cores].stop(now, id);
        let kept = left.min(most.as_nanos() as f64 * self.slowdown_of(id));
        self.queues[id].whole -= left - kept;
        self.run(now, id, kept);
    }

    /// Takes all work from `task`, which has died. Returns what would have followed.
    pub(in crate::simulation) fn clear(&mut self, now: Time, task: usize) -> Vec<T> {
        let mut dropped = Vec::new();
        self.end_polling(now, task);
        self.polling[task].begin_anew();
        for id in self.queues_of(task) {
            let left = self.stop(now, id);
            let pieces = std::mem::take(&mut self.queues[id].pieces);
            if let (Some(left), Some(first)) = (left, pieces.front()) {
                self.count(task, first, nanoseconds(self.queues[id].whole - left));
            }
            dropped.extend(pieces.into_iter().map(|piece| piece.then));
        }
        self.is_frozen[task] = false;
        self.reschedule_all(task);
        dropped
    }

    /// Takes all work from all tasks. Returns what would have followed.
    pub(in crate::simulation) fn clear_all(&mut self, now: Time) -> Vec<T> {
        (0..self.layouts.len()).flat_map(|task| self.clear(now, task)).collect()
    }
}
