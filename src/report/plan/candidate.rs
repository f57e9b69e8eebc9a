//! Candidates: the points that differ in nothing but the seed, and which of them no other beats.

use std::cmp::Ordering;

use serde::Serialize;

use super::{Limit, Plan, Point};
use crate::report::estimate::Estimate;
use crate::report::swept::{Swept, swept_name};

/// A run with swept values, over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The run and the swept values: `sync (cluster.ps=4)`.
    pub name: String,
    /// The run's name in the scenario.
    pub run: String,
    /// The swept values.
    pub settings: Swept,
    /// The number of seeds.
    pub seeds: u64,
    /// The number of seeds with which the training was finished. Only if it is all of them, the
    /// candidate has a time, and can be an answer.
    pub finished: u64,
    /// The time of the whole training \[s\].
    pub seconds: Option<Estimate>,
    /// What it costs.
    pub price: Option<Estimate>,
    /// What limits it, with the first seed.
    pub limit: Option<Limit>,
    /// Whether no other is faster and as cheap, or cheaper and as fast (Pareto). None without
    /// prices.
    pub is_on_front: Option<bool>,
    /// The times and prices, by seed.
    #[serde(skip)]
    pub(super) points: Vec<Point>,
}

impl Plan {
    /// The candidates, in the order of their first points.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut grouped: Vec<Vec<&Point>> = Vec::new();
        for point in &self.points {
            let is_alike = |known: &&mut Vec<&Point>| {
                known[0].run == point.run && known[0].settings == point.settings
            };
            match grouped.iter_mut().find(is_alike) {
                Some(known) => known.push(point),
                None => grouped.push(vec![point]),
            }
        }
        let mut all: Vec<Candidate> = grouped.into_iter().map(Candidate::of).collect();
        if self.question.currency.is_some() {
            let costs: Vec<(Swept, Option<(f64, f64)>)> =
                all.iter().map(|one| (self.given(one), one.cost())).collect();
            for (candidate, (given, own)) in all.iter_mut().zip(&costs) {
                let alike = costs.iter().filter(|(other, _)| other == given);
                let beaten = |own| alike.filter_map(|(_, cost)| *cost).any(|it| beats(it, own));
                candidate.is_on_front = Some(own.is_some_and(|own| !beaten(own)));
            }
        }
        all
    }

    /// What is given for `candidate`.
    pub(super) fn given(&self, candidate: &Candidate) -> Swept {
        let mut given = candidate.settings.clone();
        given.retain(|key, _| self.question.given.contains(key));
        given
    }
}

impl Candidate {
    fn of(points: Vec<&Point>) -> Self {
        let first = points[0];
        let of_all = |of: fn(&Point) -> Option<f64>| {
            let values: Option<Vec<f64>> = points.iter().map(|point| of(point)).collect();
            Estimate::of(&values?)
        };
        Self {
            name: swept_name(&first.run, &first.settings),
            run: first.run.clone(),
            settings: first.settings.clone(),
            seeds: points.len() as u64,
            finished: points.iter().filter(|point| point.seconds.is_some()).count() as u64,
            seconds: of_all(|point| point.seconds),
            price: of_all(|point| point.price),
            limit: first.limit.clone(),
            is_on_front: None,
            points: points.into_iter().cloned().collect(),
        }
    }

    /// Its mean time and price, if it has both.
    fn cost(&self) -> Option<(f64, f64)> {
        Some((self.seconds?.mean, self.price?.mean))
    }

    /// Whether seeds don't show that `self` takes less by `of` than `other`: the interval of their
    /// ratio, seed by seed, has 1 in it. Of a single seed that is not known.
    pub(super) fn may_equal(&self, other: &Self, of: fn(&Point) -> Option<f64>) -> bool {
        let ratio = |point: &Point| {
            let same = other.points.iter().find(|other| other.seed == point.seed)?;
            Some((of(same)? / of(point)?).ln())
        };
        let ratios: Vec<f64> = self.points.iter().filter_map(ratio).collect();
        Estimate::of(&ratios).and_then(|ratio| ratio.low).is_some_and(|low| low <= 0.0)
    }
}

/// Whether `one` is better than `other` in time or price, and not worse in either.
fn beats(one: (f64, f64), other: (f64, f64)) -> bool {
    let (time, price) = (one.0.total_cmp(&other.0), one.1.total_cmp(&other.1));
    time != Ordering::Greater
        && price != Ordering::Greater
        && (time, price) != (Ordering::Equal, Ordering::Equal)
}
