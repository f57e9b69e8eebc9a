//! A plan as text: its table and its answers, and how times and prices are written.

use super::{Candidate, Plan, UsualLimit};
use crate::report::estimate::Estimate;
use crate::report::table::decimals_of;
use crate::report::{Layout, TextTable};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// The decimals of a time or an amount of money: two, and three digits of what is below 1.
fn decimals(amount: f64) -> usize {
    decimals_of(amount).max(2)
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    seconds: f64,
    name: &'static str,
}

impl Unit {
    /// The one that fits a time.
    fn of(seconds: f64) -> Self {
        let (seconds, name) = match seconds {
            _ if seconds < 2.0 * MINUTE => (1.0, "s"),
            _ if seconds < HOUR => (MINUTE, "min"),
            _ if seconds < 2.0 * DAY => (HOUR, "h"),
            _ => (DAY, "days"),
        };
        Self { seconds, name }
    }

    /// The one for the times of all `candidates`, so that they can be compared at a glance: that
    /// of the fastest.
    pub(super) fn of_all(candidates: &[Candidate]) -> Self {
        let times = candidates.iter().filter_map(|one| Some(one.seconds?.mean));
        Self::of(times.min_by(f64::total_cmp).unwrap_or(0.0))
    }
}

/// A time in the unit that fits it.
pub(super) fn time(seconds: f64) -> String {
    let unit = Unit::of(seconds);
    let amount = seconds / unit.seconds;
    format!("{amount:.*} {}", decimals(amount), unit.name)
}

/// An amount of money.
pub(super) fn money(amount: f64, currency: &str) -> String {
    format!("{amount:.*} {currency}", decimals(amount))
}

/// A swept value, without quotes.
pub(super) fn value(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn scaled(estimate: Estimate, size: f64, unit: &str) -> String {
    let amount = estimate.map(|amount| amount / size);
    format!("{} {unit}", amount.render(decimals(amount.mean)))
}

/// What the mark of the candidates on the front says.
pub(super) fn front_legend(candidates: &[Candidate]) -> &'static str {
    match candidates.iter().any(|candidate| candidate.seeds > 1) {
        true => "* the seeds show of no other that it is both faster and cheaper",
        false => "* no other is both faster and cheaper",
    }
}

impl UsualLimit {
    /// `the parameter servers' network cards, 54 % (3 of 4 seeds)`
    pub(super) fn in_words(&self) -> String {
        format!("{}, {:.0} %{}", self.who, 100.0 * self.share, self.seeds_in_words())
    }

    /// `limited by the parameter servers' network cards, 54 % of the time (3 of 4 seeds)`
    pub(super) fn render(&self) -> String {
        let Self { who, share, .. } = self;
        format!("limited by {who}, {:.0} % of the time{}", 100.0 * share, self.seeds_in_words())
    }

    /// With how many seeds, unless with all.
    fn seeds_in_words(&self) -> String {
        match self.seeds == self.of {
            true => String::new(),
            false => format!(" ({} of {} seeds)", self.seeds, self.of),
        }
    }
}

impl Candidate {
    /// Its time; how many seeds finished if not all did.
    fn time_in_words(&self, unit: Unit) -> String {
        match self.seconds {
            Some(seconds) => scaled(seconds, unit.seconds, unit.name),
            None if self.seeds == 1 => "not finished".to_owned(),
            None => format!("finished {} of {}", self.finished, self.seeds),
        }
    }

    fn price_in_words(&self, currency: &str) -> String {
        self.price.map_or_else(|| "-".to_owned(), |price| scaled(price, 1.0, currency))
    }

    /// Its time and, if there are prices, its price.
    pub(super) fn cost_in_words(&self, unit: Unit, currency: Option<&str>) -> String {
        let time = self.time_in_words(unit);
        match currency {
            Some(currency) => format!("{time}, {}", self.price_in_words(currency)),
            None => time,
        }
    }
}

impl Plan {
    /// The plan as text: a table with a line for each candidate, then the answers and the knees.
    /// Ends with a newline.
    pub fn render(&self, layout: Layout) -> String {
        let candidates = self.candidates();
        let rows = self.rows(&candidates);
        let last = rows[0].len() - 1;
        let mut text = format!("{}\n", layout.title(&self.title()));
        text += &TextTable::new(rows).words([last]).render(layout);
        if self.question.currency.is_some() {
            text += &layout.lines(&[front_legend(&candidates).to_owned()]);
        }
        let answers = self.answers(&candidates);
        let answers: Vec<String> =
            answers.iter().map(|answer| answer.render().to_owned()).collect();
        let knees: Vec<String> = self.knees(&candidates).iter().map(super::Knee::render).collect();
        text += &(layout.lines(&answers) + &layout.lines(&knees));
        text += &layout.lines(&self.not_compared().into_iter().collect::<Vec<_>>());
        if candidates.iter().all(|candidate| candidate.seeds == 1) {
            let how_sure = "(of one seed: `--seeds 10` says how sure that is)";
            text += &layout.lines(&[how_sure.to_owned()]);
        }
        text
    }

    /// `resnet50: simulated trainings of 115301340 samples, at the rate of their first steps`
    pub(super) fn title(&self) -> String {
        let what = match (self.question.samples, self.question.target) {
            (Some(samples), _) => {
                format!(
                    "simulated trainings of {samples} samples, at the rate of their first steps"
                )
            }
            (None, Some(target)) => format!("simulated trainings to an accuracy of {target}"),
            (None, None) => "simulated trainings".to_owned(),
        };
        let part = self.part().map(|part| format!("; not complete: {part}"));
        format!("{}: {what}{}", self.scenario, part.unwrap_or_default())
    }

    /// What the answers leave out, if several runs are planned by samples.
    pub(super) fn not_compared(&self) -> Option<String> {
        let first = self.points.first()?;
        let has_others = self.points.iter().any(|point| point.run != first.run);
        (self.question.samples.is_some() && has_others).then(|| {
            "(of as many samples for each run: one that learns less from a sample looks better \
             than it is)"
                .to_owned()
        })
    }

    /// `6 of 24 points`, unless it has all.
    pub(super) fn part(&self) -> Option<String> {
        let part = || format!("{} of {} points", self.points.len(), self.total);
        (!self.is_complete()).then(part)
    }

    /// The rows of the table; the first has the columns' names.
    pub(super) fn rows(&self, candidates: &[Candidate]) -> Vec<Vec<String>> {
        let (unit, currency) = (Unit::of_all(candidates), self.question.currency.as_deref());
        let header = ["run", "time"].into_iter().chain(currency.map(|_| "price"));
        let header = header.chain(["limited by"]).map(str::to_owned).collect();
        let row = |candidate: &Candidate| {
            let mark = if candidate.is_on_front == Some(true) { " *" } else { "" };
            let limit = candidate.limit.as_ref().map(UsualLimit::in_words);
            let name = format!("{}{mark}", candidate.name);
            let mut cells = vec![name, candidate.time_in_words(unit)];
            cells.extend(currency.map(|currency| candidate.price_in_words(currency)));
            cells.push(limit.unwrap_or_else(|| "-".to_owned()));
            cells
        };
        std::iter::once(header).chain(candidates.iter().map(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_prices_below_1_have_three_digits() {
        let amounts = [0.000_123_4, 0.004, 0.25, 1.5, 250.0, 0.0];
        let expected = ["0.000123 USD", "0.00400 USD", "0.250 USD", "1.50 USD", "250.00 USD"];
        assert_eq!(amounts.map(|amount| money(amount, "USD"))[..5], expected);
        assert_eq!(money(0.0, "USD"), "0.00 USD");
        assert_eq!((time(0.0042), time(90.0)), ("0.00420 s".to_owned(), "90.00 s".to_owned()));
        let price = Estimate::of(&[0.001, 0.002]).unwrap();
        assert!(scaled(price, 1.0, "USD").starts_with("0.00150 ± "));
    }
}
