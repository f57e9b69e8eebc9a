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
    /// The sums of tasks before they were started again, as those of a point.
    gone: Point,
}

impl Default for Course {
    fn default() -> Self {
        let (points, evaluations) = (Vec::new(), Vec::new());
        Self { points, evaluations, every: 1, steps: 0, gone: Point::default() }
    }
}

/// Adds what `task` has done to `point`.
fn count(point: &mut Point, task: &Snapshot) {
    point.0 = f64::max(point.0, task.now);
    point.1 = u64::max(point.1, task.global_step);
    point.2 += task.losses;
    point.3 += task.loss_count;
    point.4 += task.examples;
    point.5 += task.staleness.sum;
    point.6 += task.applied;
}

impl Course {
    /// Adds a point of what `tasks` have done, if there are enough steps since the last one.
    pub(super) fn add(&mut self, steps: u64, tasks: &BTreeMap<TaskName, Snapshot>) {
        if steps < self.steps + self.every {
            return;
        }
        self.steps = steps;
        let mut point = self.gone;
        point.1 = 0;
        for task in tasks.values() {
            count(&mut point, task);
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

    /// A task whose last numbers were `task` was started again, and counts from 0.
    pub(super) fn end_life(&mut self, task: &Snapshot) {
        count(&mut self.gone, task);
    }

    /// Adds an evaluation, unless it is the last one again.
    pub(super) fn evaluate(&mut self, look: Evaluated) {
        if self.evaluations.last() == Some(&look) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_task_that_was_started_again_are_those_of_all_its_lives() {
        let snapshot = |(steps, global_step, now)| Snapshot {
            steps,
            global_step,
            now,
            losses: steps as f64,
            loss_count: steps,
            examples: 10 * steps,
            ..Snapshot::default()
        };
        let task = TaskName::new("worker", 0);
        let mut course = Course::default();
        let first = snapshot((5, 5, 2.0));
        course.add(5, &BTreeMap::from([(task.clone(), first.clone())]));
        course.end_life(&first);
        course.add(6, &BTreeMap::from([(task, snapshot((1, 1, 3.0)))]));
        let expected = [(2.0, 5, 5.0, 5, 50, 0.0, 0), (3.0, 1, 6.0, 6, 60, 0.0, 0)];
        assert_eq!(course.points(), expected);
    }
}
