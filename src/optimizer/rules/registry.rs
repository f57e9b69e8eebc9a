//! The update rules by name: the library's, and those that the program has registered.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::de::{Deserialize, Deserializer, Error};

use super::{built_in, out_of_range};
use crate::graph::{GraphError, GraphProblem, ParameterValue, Parameters, Rule, UpdateRule};

/// The rules by name, each with its defaults. Read when a graph is built or arrives, never in a
/// step.
static RULES: LazyLock<RwLock<BTreeMap<&'static str, UpdateRule>>> =
    LazyLock::new(|| RwLock::new(built_in().into_iter().map(|rule| (rule.name(), rule)).collect()));

/// Registers an update rule, so that scenarios may name it and graphs from other tasks may use it;
/// `defaults` has the parameters that a scenario leaves out.
///
/// Every task of a cluster runs the same program, so call it first thing in `main`: a parameter
/// server must know the rule before a worker's graph arrives. Calling it again changes nothing.
///
/// # Panics
/// If there is another rule of that name.
pub fn register_rule(defaults: impl Rule) {
    let defaults = UpdateRule::from(defaults);
    let mut rules = RULES.write().unwrap_or_else(PoisonError::into_inner);
    let registered = rules.entry(defaults.name()).or_insert_with(|| defaults.clone());
    let (name, is_same) = (registered.name(), registered.is_same_kind(&defaults));
    drop(rules);
    assert!(is_same, "there is another update rule named `{name}`: give this one another name");
}

/// The rule `name`, with its defaults.
pub(crate) fn rule_named(name: &str) -> Option<UpdateRule> {
    RULES.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

/// The names of all rules, in alphabetical order.
pub(crate) fn rule_names() -> Vec<&'static str> {
    RULES.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
}

/// Checks that other tasks can read a graph with this rule, and that its parameters make sense: a
/// rule's fields are public, so not every one has been through a builder or a scenario.
///
/// # Errors
/// If they can't, or if a parameter is out of its range.
#[track_caller]
pub(crate) fn check_rule(rule: &UpdateRule) -> Result<(), GraphError> {
    if !rule_named(rule.name()).is_some_and(|registered| registered.is_same_kind(rule)) {
        let problem = GraphProblem::UnknownRule(rule.name());
        return Err(GraphError::new("apply_gradients", problem));
    }
    match out_of_range(rule) {
        None => Ok(()),
        Some(what) => Err(GraphError::new("apply_gradients", GraphProblem::RuleParameter(what))),
    }
}

impl<'de> Deserialize<'de> for UpdateRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, values) = <(String, Vec<ParameterValue>)>::deserialize(deserializer)?;
        let rule = rule_named(&name).ok_or_else(|| {
            D::Error::custom(format!(
                "no update rule `{name}` is registered here; do all tasks run the same program?"
            ))
        })?;
        let sent = values.len();
        let mut parameters = Parameters::in_order(values);
        let rule = rule.with(&mut parameters);
        if parameters.took_all(sent) {
            return out_of_range(&rule).map_or(Ok(rule), |what| Err(D::Error::custom(what)));
        }
        Err(D::Error::custom(format!("{sent} are not the parameters of the update rule `{name}`")))
    }
}
