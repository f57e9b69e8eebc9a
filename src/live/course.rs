//! The course of a run so far, in a bounded number of points.

use std::collections::BTreeMap;

use super::snapshot::{Evaluated, Snapshot};
use crate::cluster::TaskName;

/// The greatest number of points; with more, every second one is left out, and later points are
/// further apart.
const POINTS: usize = 240;

/// A point of a course: time \[s\], global step, sum of losses, number of losses, samples, sum of
/// staleness, gradients applied; the numbers are those of all tasks together.
type Point = (f64, u64, f64, u64, u64, f64, u64);

/// The course of a run so far.
#[derive(Debug)]
pub(super) struct Course {
    points: Vec<Point>,
    evaluations: Vec<Evaluated>,
    /// How many steps there are from one point to the next.
    every: u64,
    /// The number of steps at the last point.
    steps: u64,
}

impl Default for Course {
    fn default() -> Self {
        Self { points: Vec::new(), evaluations: Vec::new(), every: 1, steps: 0 }
    }
}

impl Course {
    /// Adds a point of what `tasks` have done, if there are enough steps since the last one.
    pub(super) fn add(&mut self, steps: u64, tasks: &BTreeMap<TaskName, Snapshot>) {
        if steps < self.steps + self.every {
            return;
        }
        self.steps = steps;
        let mut point = (0.0, 0, 0.0, 0, 0, 0.0, 0);
        for task in tasks.values() {
            point.0 = f64::max(point.0, task.now);
            point.1 = u64::max(point.1, task.global_step);
            point.2 += task.losses;
            point.3 += task.loss_count;
            point.4 += task.examples;
            point.5 += task.staleness.sum;
            point.6 += task.applied;
        }
        self.points.push(point);
        if self.points.len() > POINTS {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// Adds an evaluation, unless it is the last one again.
    pub(super) fn evaluate(&mut self, look: Evaluated) {
        if self.evaluations.last().is_some_and(|last| last.1 == look.1) {
            return;
        }
        self.evaluations.push(look);
        if self.evaluations.len() > POINTS {
            self.evaluations.remove(POINTS / 2);
        }
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    pub(super) fn evaluations(&self) -> &[Evaluated] {
        &self.evaluations
    }

    /// The global step at the last point.
    pub(super) fn global_step(&self) -> u64 {
        self.points.last().map_or(0, |point| point.1)
    }
}
