//! The arguments of `plan`.

use std::path::PathBuf;
use std::str::FromStr;

use super::{FormatArgs, ScenarioArgs, VariantArgs};

/// The arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) variants: VariantArgs,

    /// Simulate only the I-th of N parts of the points, counted from 1; the parts are put together
    /// by `--merge`.
    #[arg(long, value_name = "I/N", requires = "out")]
    pub(crate) shard: Option<Shard>,

    /// Simulate nothing, and answer from the parts in these directories, which `--shard` has
    /// written.
    #[arg(
        long,
        value_name = "DIR",
        num_args = 1..,
        conflicts_with_all =
            ["scenario", "sweeps", "seeds", "shard", "sets", "unset", "runs", "seed"]
    )]
    pub(crate) merge: Vec<PathBuf>,

    /// Write `plan.json` and `plan.html` into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// One of several parts of a plan's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Its number, from 0.
    index: usize,
    of: usize,
}

impl Shard {
    /// All points.
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether it has the point with this number.
    pub(crate) fn has(self, number: usize) -> bool {
        number % self.of == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some((number.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
        });
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { index: number - 1, of }),
            Some((number, of)) => {
                Err(format!("there is no part {number} of {of}: parts are counted from 1"))
            }
            None => Err("write, for example, `1/4` for the first of four parts".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_plan_have_each_point_once() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        for number in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(number)).count(), 1, "{number}");
        }
        assert!((0..20).all(|number| Shard::WHOLE.has(number)));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
