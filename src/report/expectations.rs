//! Expectations: what the runs of a scenario are to come to, in a file, and how far they are from
//! it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::plot::escape;
use super::{End, Report, Run};

/// What is expected of a scenario's runs: a TOML file that `check --update` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// How far a figure may be from what is expected, as a share of that. Default: 0.02.
    #[serde(default = "two_percent")]
    pub tolerance: f64,
    /// By the run's name, with its swept values.
    #[serde(default)]
    pub run: BTreeMap<String, Expected>,
}

/// Makes [`Expected`] from a table of words, which are as expected or not, and one of figures,
/// which are near enough or not: each with its value of a [`Run`].
macro_rules! expected {
    (
        words { $($(#[$says:meta])* $word:ident: $kind:ty = $said:expr;)* }
        figures { $($(#[$tells:meta])* $figure:ident = $told:expr;)* }
    ) => {
        /// What is expected of one run. What is left out is not looked at.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Expected {
            $(
                $(#[$says])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $word: Option<$kind>,
            )*
            $(
                $(#[$tells])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $figure: Option<f64>,
            )*
        }

        impl Expected {
            /// All that can be expected of `run`.
            fn of(run: &Run) -> Self {
                Self { $($word: value($said, run),)* $($figure: value($told, run),)* }
            }

            /// `self` without the keys that `kept` does not have.
            fn with_keys_of(self, kept: &Self) -> Self {
                Self {
                    $($word: self.$word.filter(|_| kept.$word.is_some()),)*
                    $($figure: self.$figure.filter(|_| kept.$figure.is_some()),)*
                }
            }

            /// What of `run` is not as expected.
            fn differences(&self, run: &Run, tolerance: f64) -> Vec<String> {
                let words = [
                    $(other_word(stringify!($word), self.$word.as_ref(), value($said, run)),)*
                ];
                let figures = [
                    $(far_figure(stringify!($figure), self.$figure, value($told, run), tolerance),)*
                ];
                words.into_iter().chain(figures).flatten().collect()
            }
        }
    };
}

expected! {
    words {
        /// How it ends.
        end: End = |run| Some(run.end);
        /// The digest of all events and their times.
        digest: String = |run| run.digest.clone();
        /// The digest of the final variables.
        weights_digest: String = |run| run.weights_digest.clone();
    }
    figures {
        /// The time to the target \[s\], within the tolerance.
        seconds_to_target = |run| run.seconds_to_target;
        /// The samples of applied gradients a second; a run may differ from it by the tolerance.
        samples_per_second = |run| Some(run.samples_per_second);
        /// What all tasks send to one another \[bytes\], within the tolerance.
        bytes_sent = |run| Some(run.bytes_sent.values().sum::<u64>() as f64);
        /// The share of the test split that the final model gets right, within the tolerance.
        test_accuracy = |run| run.test_accuracy;
        /// The last loss on the test split, within the tolerance.
        final_loss = |run| run.final_loss;
    }
}

/// A run held against what is expected of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Checked {
    /// The run's name.
    pub name: String,
    /// The time that it took on the wall clock \[s\].
    pub wall_seconds: f64,
    /// What is not as expected, a line each.
    pub differences: Vec<String>,
}

fn two_percent() -> f64 {
    0.02
}

impl Expectations {
    /// The expectations in `text`.
    ///
    /// # Errors
    /// If it is no TOML, has unknown keys, or a tolerance that is no share; in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match (0.0..1.0).contains(&read.tolerance) {
            true => Ok(read),
            false => Err(format!("tolerance: {} must be at least 0 and below 1", read.tolerance)),
        }
    }

    /// Expects what `report` has. Of each run the keys of `before` are kept, or all if there are
    /// none.
    pub fn of(report: &Report, before: Option<&Self>) -> Self {
        let expected = |run: &Run| {
            let all = Expected::of(run);
            match before.and_then(|before| before.run.get(&run.name)) {
                Some(kept) => all.with_keys_of(kept),
                None => all,
            }
        };
        Self {
            tolerance: before.map_or_else(two_percent, |before| before.tolerance),
            run: report.runs.iter().map(|run| (run.name.clone(), expected(run))).collect(),
        }
    }

    /// The text of the file.
    ///
    /// # Panics
    /// Never: all of it has a form in TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("names and numbers can be written")
    }

    /// Every run of `report` held against what is expected of it. Runs that `failed`, here with
    /// their errors, are not as expected. With `is_whole`, runs that are expected and not there are
    /// told, too.
    pub fn check(
        &self,
        report: &Report,
        failed: &BTreeMap<String, String>,
        is_whole: bool,
    ) -> Vec<Checked> {
        let check = |run: &Run| Checked {
            name: run.name.clone(),
            wall_seconds: run.wall_seconds,
            differences: match self.run.get(&run.name) {
                Some(expected) => expected.differences(run, self.tolerance),
                None => vec!["nothing is expected of it; `--update` adds it".to_owned()],
            },
        };
        let without = |name: &String, why: &str| Checked {
            name: name.clone(),
            wall_seconds: 0.0,
            differences: vec![why.to_owned()],
        };
        let mut all: Vec<Checked> = report.runs.iter().map(check).collect();
        all.extend(failed.iter().map(|(name, error)| without(name, &format!("failed: {error}"))));
        if is_whole {
            let is_there = |name: &String| all.iter().any(|one| one.name == *name);
            let absent: Vec<&String> = self.run.keys().filter(|name| !is_there(name)).collect();
            let why = "it is expected, and the scenario has no such run";
            all.extend(absent.into_iter().map(|name| without(name, why)));
        }
        all
    }
}

/// What `run` has.
fn value<T>(of: fn(&Run) -> Option<T>, run: &Run) -> Option<T> {
    of(run)
}

/// Tells that the word of `key` is another than expected, if one is.
fn other_word<T: Serialize + PartialEq>(
    key: &str,
    expected: Option<&T>,
    found: Option<T>,
) -> Option<String> {
    let expected = expected?;
    (found.as_ref() != Some(expected)).then(|| {
        let found = found.as_ref().map_or_else(|| "none".to_owned(), word);
        format!("{key}: {found}, but {} is expected", word(expected))
    })
}

/// `value` as the file has it.
fn word(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).expect("text, or a variant without fields");
    word.as_str().unwrap_or_default().to_owned()
}

/// Tells that the figure of `key` is further from the expected one than the `tolerance`, if it is.
fn far_figure(
    key: &str,
    expected: Option<f64>,
    found: Option<f64>,
    tolerance: f64,
) -> Option<String> {
    let expected = expected?;
    let Some(found) = found else {
        return Some(format!("{key}: none, but {expected} is expected"));
    };
    let off = found / expected - 1.0;
    let percent = 100.0 * off;
    let is_same = found == expected || (found.is_nan() && expected.is_nan());
    let is_near = off.abs() <= tolerance || is_same;
    (!is_near).then(|| {
        format!(
            "{key}: {found} is {percent:+.1} % from the expected {expected}; at most {} % are \
             tolerated",
            100.0 * tolerance
        )
    })
}

/// Writes what was found of `scenario` as JUnit's XML, which systems of continuous integration
/// show: each run is a test.
///
/// # Errors
/// If it can't be written.
pub fn write_junit(scenario: &str, all: &[Checked], mut out: impl Write) -> io::Result<()> {
    let (suite, tests) = (escape(scenario), all.len());
    let failures = all.iter().filter(|one| !one.differences.is_empty()).count();
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, r#"<testsuites tests="{tests}" failures="{failures}">"#)?;
    writeln!(out, r#"  <testsuite name="{suite}" tests="{tests}" failures="{failures}">"#)?;
    for Checked { name, wall_seconds, differences } in all {
        let name = escape(name);
        write!(out, r#"    <testcase classname="{suite}" name="{name}" time="{wall_seconds:.3}""#)?;
        match differences.first() {
            None => writeln!(out, "/>")?,
            Some(first) => {
                let (first, all) = (escape(first), escape(&differences.join("\n")));
                writeln!(out, r#"><failure message="{first}">{all}</failure></testcase>"#)?;
            }
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")?;
    out.flush()
}
