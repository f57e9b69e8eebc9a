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
/// If there is another rule of that name, or its [slots](Rule::slots) are not in the order that
/// updates need.
pub fn register_rule(defaults: impl Rule) {
    let defaults = UpdateRule::from(defaults);
    if let Some(what) = defaults.disorder() {
        panic!("{what}");
    }
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

/// Checks that other tasks can read a graph with this rule, and that its parameters and slots make
/// sense: a rule's fields are public, so not every one has been through a builder or a scenario.
///
/// # Errors
/// If they can't, or would read another field; if a parameter is out of its range, or the slots are
/// in another order.
#[track_caller]
pub(crate) fn check_rule(rule: &UpdateRule) -> Result<(), GraphError> {
    let known = rule_named(rule.name()).filter(|known| known.is_same_kind(rule));
    let problem = match known {
        Some(known) => {
            wrong(rule).map(GraphProblem::RuleParameter).or_else(|| unlisted(rule, &known))
        }
        None => Some(GraphProblem::UnknownRule(rule.name())),
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(GraphError::new("apply_gradients", problem)),
    }
}

/// The problem that another task would not read `rule` as it is, but with a field of the
/// `registered` one.
fn unlisted(rule: &UpdateRule, registered: &UpdateRule) -> Option<GraphProblem> {
    let read = registered.with(&mut Parameters::in_order(rule.values()));
    GraphProblem::unlisted(rule.name(), "Rule::parameters", rule, &read)
}

/// The problem with a rule's parameters, or with the slots that it has with these.
fn wrong(rule: &UpdateRule) -> Option<String> {
    out_of_range(rule).or_else(|| rule.disorder())
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
            return wrong(&rule).map_or(Ok(rule), |what| Err(D::Error::custom(what)));
        }
        Err(D::Error::custom(format!("{sent} are not the parameters of the update rule `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{RuleState, Slot};
    use crate::tensor::{DType, Tensor};

    /// A rule that counts its updates. Its slots are in the order that rules must have, or not.
    #[derive(Debug)]
    struct Counting {
        is_in_order: bool,
    }

    impl Rule for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn parameters(&self, _: &mut Parameters) -> UpdateRule {
            Self { is_in_order: self.is_in_order }.into()
        }

        fn slots(&self) -> Vec<Slot> {
            let mut slots = vec![Slot::like_variable("Sum", 0.0), Slot::count("updates")];
            if !self.is_in_order {
                slots.reverse();
            }
            slots
        }

        fn flops(&self) -> usize {
            2
        }

        fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>) {
            *state.count(1) += 1;
            state.each_element(move |[v, sum]: [f32; 2], g: f32| [v - learning_rate * g, sum + g]);
        }
    }

    #[test]
    fn every_rule_of_the_library_lists_all_its_fields() {
        for rule in built_in() {
            let other = |value: ParameterValue| match value {
                ParameterValue::Number(number) => ParameterValue::Number(0.5 * number),
                ParameterValue::Flag(flag) => ParameterValue::Flag(!flag),
            };
            let values = rule.values().into_iter().map(other).collect();
            let changed = rule.with(&mut Parameters::in_order(values));
            check_rule(&changed).unwrap();
            let fields = format!("{changed:#?}").lines().count().saturating_sub(2);
            assert_eq!(fields, rule.values().len(), "{rule:?}");
        }
    }

    /// A variable of two elements and the slots of the rule.
    fn values() -> [Tensor; 3] {
        let zeros = || Tensor::zeros(DType::F32, [2]);
        [zeros(), zeros(), Tensor::from(0i64)]
    }

    #[test]
    #[should_panic(expected = "lists the slot `Sum`, which has the variable's shape, after one")]
    fn a_rule_whose_slots_are_in_another_order_is_not_registered() {
        register_rule(Counting { is_in_order: false });
    }

    #[test]
    fn a_rule_is_tested_by_itself() {
        let mut values = values();
        let mut state = RuleState::new(&mut values, &[1.0, -2.0]);
        Counting { is_in_order: true }.apply(0.5, &mut state);
        let [variable, sum, updates] = values;
        assert_eq!(variable, Tensor::new([2], &[-0.5f32, 1.0]).unwrap());
        assert_eq!(sum, Tensor::new([2], &[1f32, -2.0]).unwrap());
        assert_eq!(updates, Tensor::from(1i64));
    }

    #[test]
    #[should_panic(expected = "slot 0 is f32[2], no single f32")]
    fn a_slot_of_the_variables_shape_is_no_number() {
        RuleState::new(&mut values(), &[0.0, 0.0]).scalar(0);
    }

    #[test]
    #[should_panic(expected = "the rule has 2 slots, none is 2")]
    fn a_slot_that_is_not_there_is_named() {
        RuleState::new(&mut values(), &[0.0, 0.0]).count(2);
    }
}
