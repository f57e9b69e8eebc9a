//! `[price]` and `[plan]`: what tasks and traffic cost, and what `plan` is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use toml::Value;

use super::key_path::KeyPath;
use super::mistakes::Mistakes;
use super::tasks::Tasks;
use crate::report::plan::Price;
use crate::units::Span;

/// What `plan` is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanSpec {
    /// `[price]`: what tasks and traffic cost. Default: nothing is said of it.
    pub price: Option<Price>,
    /// The samples that a whole training takes. Default: it ends by `stop.accuracy`.
    pub samples: Option<u64>,
    /// The longest that it may take.
    pub within: Option<Duration>,
    /// The most that it may cost.
    pub budget: Option<f64>,
    /// The keys to sweep, each with its values and written as `--sweep` takes it. Default: none.
    pub sweeps: Vec<String>,
    /// Those of the swept keys that are circumstances and no choices: each question is asked for
    /// each of their values.
    pub given: Vec<String>,
}

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanFile {
    samples: Option<u64>,
    within: Option<Span>,
    budget: Option<f64>,
    sweep: BTreeMap<String, Vec<Value>>,
    given: Vec<String>,
}

/// What `file` asks, at `price`.
pub(super) fn plan(
    file: PlanFile,
    price: Option<Price>,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> PlanSpec {
    price.iter().for_each(|price| check_price(price, cluster, found));
    let PlanFile { samples, within, budget, sweep, given } = file;
    found.at_least_1(samples.unwrap_or(1), "plan.samples");
    let within = within.map(Duration::from);
    found.above_0(within.map_or(1.0, |within| within.as_secs_f64()), "plan.within");
    found.above_0(budget.unwrap_or(1.0), "plan.budget");
    for (path, is_given) in [("plan.budget", budget.is_some()), ("plan.within", within.is_some())] {
        found.unless(price.is_some() || !is_given, path, || {
            "nothing has a price; add `[price]`, or remove it".to_owned()
        });
    }
    let mut sweeps = Vec::new();
    for (key, values) in sweep {
        let path = format!("plan.sweep.\"{key}\"");
        found.unless(!values.is_empty(), &path, || "give the values to sweep".to_owned());
        found.unless(KeyPath::parse(&key).is_some(), &path, || {
            "this is no path to a key".to_owned()
        });
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        sweeps.push(format!("{key}={}", values.join(",")));
    }
    PlanSpec { price, samples, within, budget, sweeps, given }
}

/// Checks `price`: each job has one, and there are no others.
fn check_price(price: &Price, cluster: &BTreeMap<String, Tasks>, found: &mut Mistakes) {
    let path = "price.per_hour";
    for job in cluster.keys() {
        found.unless(price.per_hour.contains_key(job), path, || {
            format!("an hour of a task of `{job}` has no price; write 0 if it costs nothing")
        });
    }
    for (job, per_hour) in &price.per_hour {
        found.unless(cluster.contains_key(job), path, || format!("the cluster has no job `{job}`"));
        at_least_0(*per_hour, &format!("{path}.{job}"), found);
    }
    at_least_0(price.per_gb, "price.per_gb", found);
}

fn at_least_0(amount: f64, path: &str, found: &mut Mistakes) {
    found.unless(amount.is_finite() && amount >= 0.0, path, || {
        format!("{amount} must be finite, and 0 or more")
    });
}
