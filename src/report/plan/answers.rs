//! Answers: which candidate is the fastest, the cheapest, and the best within a limit.

use serde::Serialize;

use super::candidate::{Measure, pairs};
use super::text::{Unit, money, time};
use super::{Candidate, Plan};
use crate::report::estimate::Estimate;
use crate::report::swept::{Swept, swept_name};

/// Times, or prices, that differ by less than this share are equal: the start of a short simulation
/// makes as much of the time that is projected from it.
const TIE: f64 = 1e-3;

/// What is asked of the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Asked {
    /// Which is the fastest.
    Fastest,
    /// Which is the cheapest.
    Cheapest,
    /// Which is the cheapest that takes no longer than this \[s\].
    CheapestWithin(f64),
    /// Which is the fastest that costs no more than this.
    FastestFor(f64),
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The question.
    pub asked: Asked,
    /// What is given.
    pub given: Swept,
    /// The name of the candidate that answers it; none if no candidate keeps the limit.
    pub best: Option<String>,
    /// The names of others that the seeds can't tell apart from it.
    pub as_good: Vec<String>,
    #[serde(skip)]
    text: String,
}

impl Asked {
    /// What the best has least of.
    fn measure(self) -> Measure {
        match self {
            Self::Fastest | Self::FastestFor(_) => |point| point.seconds,
            Self::Cheapest | Self::CheapestWithin(_) => |point| point.price,
        }
    }

    /// What decides between those that have equally little of it.
    fn second(self) -> Self {
        match self {
            Self::Fastest | Self::FastestFor(_) => Self::Cheapest,
            Self::Cheapest | Self::CheapestWithin(_) => Self::Fastest,
        }
    }

    fn estimate(self, candidate: &Candidate) -> Option<Estimate> {
        match self {
            Self::Fastest | Self::FastestFor(_) => candidate.seconds,
            Self::Cheapest | Self::CheapestWithin(_) => candidate.price,
        }
    }

    /// Whether `candidate` keeps the limit: its whole interval, if it has several seeds.
    fn allows(self, candidate: &Candidate) -> bool {
        let keeps = |estimate: Option<Estimate>, limit: f64| {
            estimate.is_some_and(|estimate| estimate.high.unwrap_or(estimate.mean) <= limit)
        };
        match self {
            Self::Fastest | Self::Cheapest => true,
            Self::CheapestWithin(seconds) => keeps(candidate.seconds, seconds),
            Self::FastestFor(budget) => keeps(candidate.price, budget),
        }
    }

    fn render(self, currency: &str) -> String {
        match self {
            Self::Fastest => "fastest".to_owned(),
            Self::Cheapest => "cheapest".to_owned(),
            Self::CheapestWithin(seconds) => format!("cheapest within {}", time(seconds)),
            Self::FastestFor(budget) => format!("fastest for {}", money(budget, currency)),
        }
    }
}

impl Plan {
    /// The answers to what can be asked of `candidates`.
    pub fn answers(&self, candidates: &[Candidate]) -> Vec<Answer> {
        let question = &self.question;
        let mut asked = vec![Asked::Fastest];
        if question.currency.is_some() {
            asked.push(Asked::Cheapest);
            asked.extend(question.within.map(Asked::CheapestWithin));
            asked.extend(question.budget.map(Asked::FastestFor));
        }
        let unit = Unit::of_all(candidates);
        let mut circumstances: Vec<Swept> = Vec::new();
        for given in candidates.iter().map(|candidate| self.given(candidate)) {
            if !circumstances.contains(&given) {
                circumstances.push(given);
            }
        }
        let answers = |given| {
            let alike: Vec<&Candidate> =
                candidates.iter().filter(|one| self.given(one) == given).collect();
            let answer = |asked: &Asked| self.answer(*asked, unit, &given, &alike);
            asked.iter().map(answer).collect::<Vec<_>>()
        };
        let all = circumstances.into_iter().flat_map(answers);
        // Points that are missing may keep a limit that none keeps so far.
        all.filter(|answer| answer.best.is_some() || self.is_complete()).collect()
    }

    /// The answer from `candidates`, for which the same is given.
    fn answer(&self, asked: Asked, unit: Unit, given: &Swept, candidates: &[&Candidate]) -> Answer {
        let currency = self.question.currency.as_deref();
        let mut allowed: Vec<(f64, &Candidate)> = candidates
            .iter()
            .filter(|candidate| asked.allows(candidate))
            .filter_map(|candidate| Some((asked.estimate(candidate)?.mean, *candidate)))
            .collect();
        allowed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least = allowed.first().map_or(0.0, |(amount, _)| *amount);
        let ties = allowed.partition_point(|(amount, _)| *amount <= least * (1.0 + TIE));
        let second = |one: &Candidate| asked.second().estimate(one).map(|estimate| estimate.mean);
        allowed[..ties].sort_by(|(_, a), (_, b)| {
            second(a).unwrap_or(f64::INFINITY).total_cmp(&second(b).unwrap_or(f64::INFINITY))
        });
        let part = self.part().map(|part| format!(" of {part}")).unwrap_or_default();
        let asked_in_words = asked.render(currency.unwrap_or_default()) + &part;
        let what = swept_name(&asked_in_words, given);
        let given = given.clone();
        let Some(((_, best), others)) = allowed.split_first() else {
            let text = format!("{what}: none of these");
            return Answer { asked, given, best: None, as_good: Vec::new(), text };
        };
        let pairs = pairs(allowed.len());
        let is_as_good = |other: &&Candidate| best.may_equal(other, asked.measure(), pairs);
        let as_good: Vec<String> = others
            .iter()
            .map(|(_, other)| *other)
            .filter(is_as_good)
            .map(|other| other.name.clone())
            .collect();
        let mut text = format!("{what}: {}, {}", best.name, best.cost_in_words(unit, currency));
        if !as_good.is_empty() {
            append!(text, "; the seeds can't tell it apart from `{}`", as_good.join("`, `"));
        }
        Answer { asked, given, best: Some(best.name.clone()), as_good, text }
    }
}

impl Answer {
    /// `cheapest within 1.00 h: sync (cluster.worker=16), 52.1 min, 41.20 USD`
    pub fn render(&self) -> &str {
        &self.text
    }
}
