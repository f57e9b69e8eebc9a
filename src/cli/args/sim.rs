//! The arguments of `sim`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::dashboard::DashboardArgs;
use super::format::FormatArgs;
use super::scenario::{ScenarioArgs, VariantArgs};
use super::steps::Steps;

/// The arguments of `sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) variants: VariantArgs,

    /// Run everything this many times, and fail if a run's digests differ.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) repeat: NonZeroU32,

    /// Run each run under faults drawn from N seeds, after those of the scenario, and check what is
    /// promised of every training. With 0, only those of the scenario.
    #[arg(long, value_name = "N", conflicts_with_all = ["repeat", "seeds", "out", "weights",
          "dashboard"])]
    pub(crate) chaos: Option<u64>,

    /// Deliver messages in the order that a deployment of the same scenario had, as its tasks wrote
    /// it into this directory with `launch --record` or `task --record`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chaos", "seeds"])]
    pub(crate) replay: Option<PathBuf>,

    /// Write the report's files into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write what each run has learnt by its end, its trained variables, as `RUN.safetensors` into
    /// this directory. `launch` keeps checkpoints instead, of which `checkpoint merge` makes one.
    #[arg(long, value_name = "DIR")]
    pub(crate) weights: Option<PathBuf>,

    /// Write what happens from one global step to another as `timeline.json` into the directory,
    /// for Perfetto; of several runs, one file each.
    #[arg(long, value_name = "FIRST..LAST", requires = "out", conflicts_with = "repeat")]
    pub(crate) timeline: Option<Steps>,

    #[command(flatten)]
    pub(crate) dashboard: DashboardArgs,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::cli::args::{Command, Format, read};
    use crate::report::Layout;
    use crate::scenario::Change;

    fn sim(args: &str) -> Result<SimArgs, clap::Error> {
        let words = ["trainyard", "sim"].into_iter().chain(args.split(' '));
        match read(words.map(Into::into))?.command {
            Command::Sim(sim) => Ok(sim),
            other => panic!("`sim` was parsed as {other:?}"),
        }
    }

    #[test]
    fn sim_takes_everything_the_help_lists() {
        let sim = sim(
            "a.toml --run sync --seed 9 --set seed=1 --set name=x --unset stop --sweep seed=1,2 \
             --repeat 3 --out d --json",
        )
        .unwrap();
        let scenario = sim.scenario;
        assert_eq!(
            (scenario.scenario, scenario.seed, sim.out),
            (Some(PathBuf::from("a.toml")), Some(9), Some(PathBuf::from("d")))
        );
        assert_eq!(scenario.sets, ["seed=1", "name=x"].map(|text| text.parse().unwrap()));
        assert_eq!(
            (scenario.runs, scenario.unset),
            (vec!["sync".to_owned()], vec![Change::unset("stop").unwrap()])
        );
        assert_eq!(sim.variants.sweeps, ["seed=1,2".parse().unwrap()]);
        assert_eq!((sim.repeat.get(), sim.format.format()), (3, Format::Json));
    }

    #[test]
    fn the_scenario_alone_is_run_once_and_shown_as_a_table() {
        let sim = sim("a.toml").unwrap();
        let ScenarioArgs { seed, sets, unset, runs, .. } = sim.scenario;
        let text = Format::Text(Layout::Plain);
        assert_eq!((sim.repeat.get(), sim.format.format(), seed, sim.out), (1, text, None, None));
        assert!(sets.is_empty() && unset.is_empty() && runs.is_empty());
        assert!(sim.variants.sweeps.is_empty());
    }

    #[test]
    fn a_setting_that_is_none_and_a_repeat_of_0_are_usage_errors() {
        let error = sim("a.toml --set latency").unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ValueValidation, 2));
        assert!(error.to_string().contains("write, for example, `network.latency=1ms`"), "{error}");
        assert_eq!(sim("a.toml --repeat 0").unwrap_err().kind(), ErrorKind::ValueValidation);
    }
}
