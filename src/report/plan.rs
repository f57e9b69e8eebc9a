//! A plan: what a whole training takes, in time and money, at each point of a sweep, and which
//! points answer a question.
//!
//! The points are simulated, perhaps in several parts on several machines; what follows from them
//! is computed here.

mod answers;
mod candidate;
mod knee;
mod page;
mod text;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde::{Deserialize, Serialize};

use super::{Run, Swept, TimeCause};
pub use answers::{Answer, Asked};
pub use candidate::Candidate;
pub use knee::Knee;

/// The result of `plan`: the fields of `plan.json`, in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The version of this form: [`Plan::FORMAT`].
    pub format: u32,
    /// The version of trainyard.
    pub trainyard: String,
    /// The command that made it, by its words.
    pub command: Vec<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario, as changed by the command.
    pub settings: serde_json::Value,
    /// What is asked.
    pub question: Question,
    /// The number of points of the whole plan.
    pub total: usize,
    /// The points that were simulated, by their number.
    pub points: Vec<Point>,
}

/// What is asked of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The samples that a whole training takes; none if it takes as long as the target does.
    pub samples: Option<u64>,
    /// The accuracy that ends it; none if samples do.
    pub target: Option<f64>,
    /// The longest that it may take \[s\].
    pub within: Option<f64>,
    /// The most that it may cost.
    pub budget: Option<f64>,
    /// The unit of prices; none if nothing has a price.
    pub currency: Option<String>,
    /// The swept keys that are circumstances and no choices: each question is asked for each of
    /// their values.
    pub given: Vec<String>,
}

/// What tasks and traffic cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// The unit of all prices. Default: USD.
    pub currency: Option<String>,
    /// An hour of one task, by its job.
    pub per_hour: BTreeMap<String, f64>,
    /// A gigabyte (10⁹ bytes) that a task sends to another. Default: 0.
    pub per_gb: f64,
}

/// One point of a sweep, simulated with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Point {
    /// Its number among all points of the plan, from 0.
    pub number: usize,
    /// The run's name in the scenario.
    pub run: String,
    /// The swept values.
    pub settings: Swept,
    /// The seed of all its randomness.
    pub seed: u64,
    /// The time of the whole training \[s\]; none if it did not reach the target, or diverged.
    pub seconds: Option<f64>,
    /// What its tasks send to one another in that time \[bytes\].
    pub bytes: f64,
    /// What it costs; none if it has no time, or nothing has a price.
    pub price: Option<f64>,
    /// What limits it; none where no step was taken.
    pub limit: Option<Limit>,
}

/// What takes most of a run's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limit {
    /// The cause, in words: `the parameter servers' network cards`.
    pub who: String,
    /// Its share of the run's time.
    pub share: f64,
}

/// What takes most of the time with most seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UsualLimit {
    /// The cause, in words.
    pub who: String,
    /// Its mean share of the time, over the seeds that it limits.
    pub share: f64,
    /// The number of seeds that it limits.
    pub seeds: u64,
    /// The number of all seeds.
    pub of: u64,
}

/// Plans that are no parts of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("there is no plan to merge")]
    Nothing,
    /// Two are of different scenarios, changes, questions or versions.
    #[error(
        "the parts are not of one plan: `{one}` and `{other}` differ in {what}; simulate all parts \
         with one scenario, one set of flags but --shard, and one version"
    )]
    Differ {
        /// The command of the first.
        one: String,
        /// The command of the other.
        other: String,
        /// What they differ in.
        what: &'static str,
    },
    /// Some points were not simulated.
    #[error(
        "{missing} of {total} points are missing, the first is number {first}; simulate the shards \
         that are not there, and merge again"
    )]
    Missing {
        /// Their count.
        missing: usize,
        /// The number of points of the whole plan.
        total: usize,
        /// The number of the first that is missing.
        first: usize,
    },
}

impl Price {
    /// What `seconds` of `tasks` cost that send so many `bytes`.
    pub fn of(&self, tasks: &BTreeMap<String, u32>, seconds: f64, bytes: f64) -> f64 {
        let hourly = |(job, count): (&String, &u32)| {
            f64::from(*count) * self.per_hour.get(job).copied().unwrap_or(0.0)
        };
        tasks.iter().map(hourly).sum::<f64>() * seconds / 3600.0 + self.per_gb * bytes / 1e9
    }
}

impl Point {
    /// The point with this number that was simulated as `run`, whose cluster has `tasks` by job.
    pub fn new(
        (number, run): (usize, &Run),
        tasks: &BTreeMap<String, u32>,
        question: &Question,
        price: Option<&Price>,
    ) -> Self {
        let sent = run.bytes_sent.values().sum::<u64>() as f64;
        let of_samples = |samples: u64| {
            let rate = run.samples_per_second;
            let seconds = run.start_seconds + samples as f64 / rate;
            let in_steps = run.step_bytes() as f64;
            let bytes = sent - in_steps + in_steps * samples as f64 / run.samples as f64;
            (rate > 0.0 && !run.has_diverged()).then_some((seconds, bytes))
        };
        let whole = match question.samples {
            Some(samples) => of_samples(samples),
            None => run.seconds_to_target.map(|seconds| (seconds, sent)),
        };
        let whole = whole.filter(|(seconds, _)| seconds.is_finite());
        Self {
            number,
            run: run.run.clone(),
            settings: run.settings.clone(),
            seed: run.seed,
            seconds: whole.map(|(seconds, _)| seconds),
            bytes: whole.map_or(sent, |(_, bytes)| bytes),
            price: whole
                .zip(price)
                .map(|((seconds, bytes), price)| price.of(tasks, seconds, bytes)),
            limit: limit(run, question),
        }
    }
}

/// The limit of the time that is planned. The last steps of late workers come after it, and a
/// training of many samples spends next to nothing of it on the start, however much of the run that
/// was.
fn limit(run: &Run, question: &Question) -> Option<Limit> {
    let left_out: &[TimeCause] = match question.samples {
        Some(_) => &[TimeCause::Start, TimeCause::LateSteps],
        None => &[TimeCause::LateSteps],
    };
    let bottleneck = run.critical_path.clone()?.without(left_out).bottleneck()?;
    Some(Limit { who: bottleneck.cause.name().to_owned(), share: bottleneck.share })
}

impl Plan {
    /// The version of the form of `plan.json`. Keys are added without a change of it.
    pub const FORMAT: u32 = 1;

    /// The JSON schema of `plan.json`.
    pub const SCHEMA: &str = include_str!("plan.schema.json");

    /// The plan of which `parts` hold all points.
    ///
    /// # Errors
    /// If they are of different plans, or a point is in none.
    pub fn merge(parts: Vec<Self>) -> Result<Self, MergeError> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(MergeError::Nothing)?;
        for part in parts {
            if let Some(what) = whole.difference(&part) {
                let (one, other) = (whole.command.join(" "), part.command.join(" "));
                return Err(MergeError::Differ { one, other, what });
            }
            whole.points.extend(part.points);
        }
        whole.points.sort_by_key(|point| point.number);
        whole.points.dedup_by_key(|point| point.number);
        let mut numbers = whole.points.iter().map(|point| point.number);
        match (0..whole.total).find(|number| numbers.next() != Some(*number)) {
            Some(first) => Err(MergeError::Missing {
                missing: whole.total - whole.points.len(),
                total: whole.total,
                first,
            }),
            None => Ok(whole),
        }
    }

    /// Whether all points are there: this is no part of a plan, its command was not stopped, and no
    /// run has failed.
    pub fn is_complete(&self) -> bool {
        self.points.len() == self.total
    }

    /// The difference by which two parts are not of one plan.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            (self.format == other.format, "the form of their files"),
            (self.trainyard == other.trainyard, "the version of trainyard"),
            (self.scenario == other.scenario, "the scenario"),
            (self.settings == other.settings, "the scenario's settings"),
            (self.question == other.question, "the question"),
            (self.total == other.total, "the number of points"),
        ]
        .into_iter()
        .find_map(|(is_same, what)| (!is_same).then_some(what))
    }

    /// Writes it with what follows from it, as `plan.json`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_json(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            plan: &'a Plan,
            candidates: &'a [Candidate],
            answers: Vec<Answer>,
            knees: Vec<Knee>,
            complete: bool,
        }
        let candidates = self.candidates();
        let (answers, knees) = (self.answers(&candidates), self.knees(&candidates));
        let complete = self.is_complete();
        let whole = Whole { plan: self, candidates: &candidates, answers, knees, complete };
        serde_json::to_writer_pretty(&mut out, &whole)?;
        writeln!(out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests;
