//! The laws of chance in a scenario, with the check that each has exactly its own parameters.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::mistakes::Mistakes;
use crate::simulation::Law;
use crate::units::Span;

/// A law as it is typed. `Q` is the type of its values: a factor, or a length of time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { law = \"exponential\" }")]
pub(super) struct LawFile<Q> {
    law: LawName,
    value: Option<Q>,
    low: Option<Q>,
    high: Option<Q>,
    mean: Option<Q>,
    shift: Option<Q>,
    sigma: Option<f64>,
    scale: Option<Q>,
    shape: Option<f64>,
    values: Option<Vec<Q>>,
}

/// A length of time as it is typed (`"100ms"`), in seconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(from = "Span")]
pub(super) struct Seconds(f64);

impl From<Span> for Seconds {
    fn from(span: Span) -> Self {
        Self(span.0.as_secs_f64())
    }
}

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> Self {
        seconds.0
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LawName {
    Constant,
    Uniform,
    Exponential,
    ShiftedExponential,
    Lognormal,
    Pareto,
    Weibull,
    Empirical,
}

impl<Q: Into<f64>> LawFile<Q> {
    /// Builds the law. Notes missing, superfluous and out-of-range parameters at `path` in
    /// `mistakes`.
    pub(super) fn into_law(
        self,
        path: &str,
        default_mean: Option<f64>,
        mistakes: &mut Mistakes,
    ) -> Law {
        let name = self.law;
        let mut given = self.into_given(path, mistakes);
        let law = match name {
            LawName::Constant => Law::Constant { value: given.at_least_0("value") },
            LawName::Uniform => {
                let (low, high) = (given.at_least_0("low"), given.at_least_0("high"));
                if high < low {
                    given
                        .mistakes
                        .note(format!("{path}.high"), format!("{high} is less than `low`, {low}"));
                }
                Law::Uniform { low, high }
            }
            LawName::Exponential => Law::Exponential { mean: given.mean(default_mean) },
            LawName::ShiftedExponential => Law::ShiftedExponential {
                shift: given.at_least_0("shift"),
                mean: given.mean(default_mean),
            },
            LawName::Lognormal => {
                Law::Lognormal { mean: given.mean(default_mean), sigma: given.at_least_0("sigma") }
            }
            LawName::Pareto => {
                Law::Pareto { scale: given.above_0("scale"), shape: given.above_0("shape") }
            }
            LawName::Weibull => {
                Law::Weibull { scale: given.above_0("scale"), shape: given.above_0("shape") }
            }
            LawName::Empirical => Law::Empirical { values: given.values() },
        };
        let law = if given.has("shift") {
            Law::Shifted { shift: given.at_least_0("shift"), law: Box::new(law) }
        } else {
            law
        };
        given.refuse_the_rest();
        law
    }

    fn into_given<'a>(self, path: &'a str, mistakes: &'a mut Mistakes) -> Given<'a> {
        let one = |parameter: Option<Q>| parameter.map(|number| vec![number.into()]);
        let parameters = [
            ("value", one(self.value)),
            ("low", one(self.low)),
            ("high", one(self.high)),
            ("mean", one(self.mean)),
            ("shift", one(self.shift)),
            ("sigma", self.sigma.map(|number| vec![number])),
            ("scale", one(self.scale)),
            ("shape", self.shape.map(|number| vec![number])),
            ("values", self.values.map(|values| values.into_iter().map(Into::into).collect())),
        ];
        let numbers =
            parameters.into_iter().filter_map(|(name, numbers)| Some((name, numbers?))).collect();
        Given { path, numbers, mistakes }
    }
}

/// The parameters that are given and not yet read.
struct Given<'a> {
    path: &'a str,
    numbers: BTreeMap<&'static str, Vec<f64>>,
    mistakes: &'a mut Mistakes,
}

impl Given<'_> {
    fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    fn at_least_0(&mut self, name: &'static str) -> f64 {
        self.number(name, "finite and at least 0", |number| number >= 0.0)
    }

    fn above_0(&mut self, name: &'static str) -> f64 {
        self.number(name, "finite and above 0", |number| number > 0.0)
    }

    fn mean(&mut self, default: Option<f64>) -> f64 {
        match default {
            Some(default) if !self.has("mean") => default,
            _ => self.above_0("mean"),
        }
    }

    fn values(&mut self) -> Vec<f64> {
        let values = self.numbers.remove("values").unwrap_or_default();
        let right =
            !values.is_empty() && values.iter().all(|value| value.is_finite() && *value >= 0.0);
        self.mistakes.unless(right, format!("{}.values", self.path), || {
            "give at least one value, each finite and at least 0".to_owned()
        });
        values
    }

    /// Reads the parameter `name`. Notes a mistake if it is missing or out of range.
    fn number(&mut self, name: &'static str, range: &str, in_range: impl Fn(f64) -> bool) -> f64 {
        let path = format!("{}.{name}", self.path);
        let Some(number) = self.numbers.remove(name).and_then(|numbers| numbers.first().copied())
        else {
            self.mistakes.note(path, "this law needs it".to_owned());
            return f64::NAN;
        };
        self.mistakes.unless(number.is_finite() && in_range(number), path, || {
            format!("{number} must be {range}")
        });
        number
    }

    fn refuse_the_rest(self) {
        for name in self.numbers.into_keys() {
            self.mistakes
                .note(format!("{}.{name}", self.path), "this law has no such parameter".to_owned());
        }
    }
}
