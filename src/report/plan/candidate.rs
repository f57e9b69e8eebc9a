//! Candidates: the points that differ in nothing but the seed, and which of them no other beats.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Plan, Point, UsualLimit};
use crate::report::estimate::{Estimate, is_surely_positive};
use crate::report::swept::{Swept, swept_name};

/// A measure to compare points by; less is better.
pub(super) type Measure = fn(&Point) -> Option<f64>;

/// The number of pairs among so many candidates.
pub(super) fn pairs(candidates: usize) -> usize {
    candidates * candidates.saturating_sub(1) / 2
}

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
    /// What limits it with most seeds.
    pub limit: Option<UsualLimit>,
    /// Whether no other is faster and as cheap, or cheaper and as fast (Pareto), or the seeds don't
    /// show it of any other. None without prices.
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
            let is_on_front = |one: &Candidate| {
                let alike = all.iter().filter(|other| self.given(other) == self.given(one));
                let alike: Vec<&Candidate> = alike.filter(|it| it.cost().is_some()).collect();
                let comparisons = 2 * pairs(alike.len()); // by time and by price
                one.cost().is_some() && !alike.iter().any(|other| other.beats(one, comparisons))
            };
            let front: Vec<bool> = all.iter().map(is_on_front).collect();
            for (candidate, is_on_front) in all.iter_mut().zip(front) {
                candidate.is_on_front = Some(is_on_front);
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

impl UsualLimit {
    /// Of as many seeds, the limit with the greater share. None where no step was taken.
    fn of(points: &[&Point]) -> Option<Self> {
        let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for limit in points.iter().filter_map(|point| point.limit.as_ref()) {
            shares.entry(&limit.who).or_default().push(limit.share);
        }
        let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len() as f64;
        let limits = shares.into_iter().map(|(who, shares)| (shares.len(), mean(&shares), who));
        let (seeds, share, who) =
            limits.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)))?;
        let (seeds, of) = (seeds as u64, points.len() as u64);
        Some(Self { who: who.to_owned(), share, seeds, of })
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
            limit: UsualLimit::of(&points),
            is_on_front: None,
            points: points.into_iter().cloned().collect(),
        }
    }

    /// Its mean time and price, if it has both.
    fn cost(&self) -> Option<(f64, f64)> {
        Some((self.seconds?.mean, self.price?.mean))
    }

    /// Whether seeds don't show that `self` takes less by `of` than `other`, compared seed by seed,
    /// as the most different of so many `pairs`. Of a single seed that is not known.
    pub(super) fn may_equal(&self, other: &Self, of: Measure, pairs: usize) -> bool {
        let ratio = |point: &Point| {
            let same = other.points.iter().find(|other| other.seed == point.seed)?;
            Some((of(same)? / of(point)?).ln())
        };
        let ratios: Vec<f64> = self.points.iter().filter_map(ratio).collect();
        is_surely_positive(&ratios, pairs) == Some(false)
    }

    /// Whether it is better than `other` in time or price, which the seeds show, and not worse in
    /// either.
    fn beats(&self, other: &Self, pairs: usize) -> bool {
        let (Some(own), Some(cost)) = (self.cost(), other.cost()) else { return false };
        let is_less =
            |own: f64, cost: f64, of: Measure| own < cost && !self.may_equal(other, of, pairs);
        own.0 <= cost.0
            && own.1 <= cost.1
            && (is_less(own.0, cost.0, |point| point.seconds)
                || is_less(own.1, cost.1, |point| point.price))
    }
}
