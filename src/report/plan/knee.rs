//! Knees: the value of a swept key from which on more of it wins little.

use serde::Serialize;

use super::candidate::pairs;
use super::text::value;
use super::{Candidate, Plan, UsualLimit};
use crate::report::Swept;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Span};

/// The gain beyond a knee is less than this share of the time.
const LITTLE: f64 = 0.05;

/// The smallest value of a swept key that is all but as fast as the best one. The other keys have
/// the values of the run's fastest candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Knee {
    /// The run's name in the scenario.
    pub run: String,
    /// The key.
    pub key: String,
    /// The values of the other swept keys.
    pub others: Swept,
    /// The value of the knee.
    pub value: serde_json::Value,
    /// The value with the least time.
    pub best: serde_json::Value,
    /// The other values that the seeds can't tell apart from the best, in their order.
    pub as_good: Vec<serde_json::Value>,
    /// The greater values than the knee with which not all seeds finished, in their order: whether
    /// they win more is not known.
    pub unfinished: Vec<serde_json::Value>,
    /// How many times as fast the best is.
    pub times: f64,
    /// How many times as fast the knee is as the next lesser value; none if no lesser one has a
    /// time.
    pub gain: Option<f64>,
    /// Whether no greater value was tried, so that more may win more.
    pub is_last: bool,
    /// What limits the run at the knee.
    pub limit: Option<UsualLimit>,
}

impl Plan {
    /// The knees of `candidates`: one for each run and key that is a choice and has numbers for
    /// values. A plan that lacks points has none: they may be those where more still pays.
    pub fn knees(&self, candidates: &[Candidate]) -> Vec<Knee> {
        if !self.is_complete() {
            return Vec::new();
        }
        let is_choice = |knee: &Knee| !self.question.given.contains(&knee.key);
        knees(candidates).into_iter().filter(is_choice).collect()
    }
}

/// The knees of all runs and keys.
pub(super) fn knees(candidates: &[Candidate]) -> Vec<Knee> {
    let mut runs: Vec<&str> = Vec::new();
    for candidate in candidates {
        if !runs.contains(&&*candidate.run) {
            runs.push(&candidate.run);
        }
    }
    runs.into_iter().flat_map(|run| knees_of(run, candidates)).collect()
}

fn knees_of(run: &str, candidates: &[Candidate]) -> Vec<Knee> {
    let own = || candidates.iter().filter(|candidate| candidate.run == run);
    let timed = || own().filter_map(|one| Some((one.seconds?.mean, one)));
    let Some((_, fastest)) = timed().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Vec::new();
    };
    let of_key = |key: &String| {
        let others = without(&fastest.settings, key);
        let swept = own().filter(|one| without(&one.settings, key) == others);
        let sized = swept.map(|one| Some((quantity(&one.settings[key])?, one)));
        let mut all: Vec<(f64, &Candidate)> = sized.collect::<Option<_>>()?;
        all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (most, _) = *all.last()?;
        let timed = all.iter().filter_map(|(size, one)| Some((one.seconds?.mean, *size, *one)));
        let curve: Vec<(f64, f64, &Candidate)> = timed.collect();
        if curve.len() < 2 {
            return None;
        }
        let (least, _, best) = *curve.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let at = curve.iter().position(|(seconds, ..)| *seconds <= least * (1.0 + LITTLE))?;
        let (seconds, size, knee) = curve[at];
        let pairs = pairs(curve.len());
        let is_as_good = |one: &Candidate| {
            one.settings != best.settings && best.may_equal(one, |point| point.seconds, pairs)
        };
        let as_good = curve.iter().filter(|(.., one)| is_as_good(one));
        let unfinished = all.iter().filter(|(own, one)| *own > size && one.seconds.is_none());
        Some(Knee {
            run: run.to_owned(),
            key: key.clone(),
            others,
            value: knee.settings[key].clone(),
            best: best.settings[key].clone(),
            as_good: as_good.map(|(.., one)| one.settings[key].clone()).collect(),
            unfinished: unfinished.map(|(_, one)| one.settings[key].clone()).collect(),
            times: seconds / least,
            gain: at.checked_sub(1).map(|before| curve[before].0 / seconds),
            is_last: size == most,
            limit: knee.limit.clone(),
        })
    };
    fastest.settings.keys().filter_map(of_key).collect()
}

fn without(settings: &Swept, key: &str) -> Swept {
    let mut others = settings.clone();
    others.remove(key);
    others
}

/// The size of a value that is a number, perhaps with a unit, so that there can be more of it.
fn quantity(value: &serde_json::Value) -> Option<f64> {
    let with_unit = |text: &str| {
        let span = || Some(text.parse::<Span>().ok()?.0.as_secs_f64());
        let bytes = || Some(text.parse::<Bytes>().ok()?.0 as f64);
        let rate = || Some(text.parse::<BytesPerSecond>().ok()?.0);
        let speed = || Some(text.parse::<FlopsPerSecond>().ok()?.0);
        span().or_else(bytes).or_else(rate).or_else(speed)
    };
    value.as_f64().or_else(|| with_unit(value.as_str()?))
}

impl Knee {
    /// `sync, cluster.ps: beyond 8 little is won: the best, 16, is 1.02 times as fast; there, …`
    pub fn render(&self) -> String {
        let Self { run, key, times, gain, .. } = self;
        let (knee, best) = (value(&self.value), value(&self.best));
        let others: Vec<String> =
            self.others.iter().map(|(key, other)| format!("{key}={}", value(other))).collect();
        let with = match others.is_empty() {
            true => String::new(),
            false => format!(" (with {})", others.join(", ")),
        };
        let won = match (self.is_last, knee == best) {
            (true, _) => {
                let gain = gain.map(|gain| format!(", {gain:.2} times as fast as the next lesser"));
                format!(
                    "{knee}, the largest tried, is the fastest{}: more may win more, so try \
                     larger values",
                    gain.unwrap_or_default()
                )
            }
            (false, true) if self.more_may_win() => {
                format!("beyond {knee} nothing is shown to be won")
            }
            (false, true) => format!("beyond {knee} nothing is won"),
            (false, false) => {
                format!(
                    "beyond {knee} little is won: the best, {best}, is {times:.2} times as fast"
                )
            }
        };
        let values = |all: &[serde_json::Value]| {
            Some(all.iter().map(value).collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty())
        };
        let notes = [
            values(&self.as_good)
                .map(|some| format!("; the seeds can't tell {best} apart from {some}")),
            values(&self.unfinished)
                .map(|some| format!("; with {some} not all trainings finished")),
            self.limit.as_ref().map(|limit| format!("; there, {}", limit.render())),
        ];
        let notes: String = notes.into_iter().flatten().collect();
        format!("{run}, {key}{with}: {won}{notes}")
    }

    /// Whether a greater value than the best may be faster.
    fn more_may_win(&self) -> bool {
        let size = |value: &serde_json::Value| quantity(value).unwrap_or(0.0);
        let is_more = |value: &serde_json::Value| size(value) > size(&self.best);
        !self.unfinished.is_empty() || self.as_good.iter().any(is_more)
    }
}
