//! The parameters of an update rule: read from a scenario or a message, and listed for both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The parameters given to a rule, and the list of all parameters that it has.
///
/// A rule asks for each of its parameters once ([`Rule::parameters`](super::Rule::parameters)). So
/// one function defines their names, their ranges and their values.
#[derive(Debug, Default)]
pub struct Parameters {
    given: Given,
    listed: Vec<Parameter>,
    problems: Vec<(&'static str, String)>,
}

#[derive(Debug, Default)]
enum Given {
    #[default]
    Nothing,
    Named(BTreeMap<String, ParameterValue>),
    /// All of them, in the order of the list.
    InOrder(std::vec::IntoIter<ParameterValue>),
}

/// A parameter of an update rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its key in a scenario.
    pub name: &'static str,
    /// Its value.
    pub value: ParameterValue,
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParameterValue {
    /// A number.
    Number(f32),
    /// Yes or no.
    Flag(bool),
}

/// A range of valid numbers. All ranges are of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Any finite number.
    Finite,
    /// 0 or more.
    AtLeast0,
    /// More than 0.
    Above0,
    /// 0 or less.
    AtMost0,
    /// From 0 to below 1, such as the share of a mean that each step keeps.
    Fraction,
}

impl Range {
    fn contains(self, number: f32) -> bool {
        number.is_finite()
            && match self {
                Self::Finite => true,
                Self::AtLeast0 => number >= 0.0,
                Self::Above0 => number > 0.0,
                Self::AtMost0 => number <= 0.0,
                Self::Fraction => (0.0..1.0).contains(&number),
            }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Finite => "finite",
            Self::AtLeast0 => "finite and at least 0",
            Self::Above0 => "finite and above 0",
            Self::AtMost0 => "finite and at most 0",
            Self::Fraction => "at least 0 and below 1",
        }
    }
}

impl Parameters {
    /// The parameters of a scenario.
    pub(crate) fn named(given: BTreeMap<String, ParameterValue>) -> Self {
        Self { given: Given::Named(given), ..Self::default() }
    }

    /// The parameters of a message: all that the rule has, in their order.
    pub(crate) fn in_order(given: Vec<ParameterValue>) -> Self {
        Self { given: Given::InOrder(given.into_iter()), ..Self::default() }
    }

    /// The number `name`: `default` unless it is given.
    pub fn number(&mut self, name: &'static str, default: f32, range: Range) -> f32 {
        let number = match self.take(name) {
            None => default,
            Some(ParameterValue::Number(number)) => number,
            Some(ParameterValue::Flag(_)) => {
                self.problems.push((name, "must be a number".to_owned()));
                default
            }
        };
        if !range.contains(number) {
            self.problems.push((name, format!("must be {}", range.wanted())));
        }
        self.listed.push(Parameter { name, value: ParameterValue::Number(number) });
        number
    }

    /// The switch `name`: `default` unless it is given.
    pub fn flag(&mut self, name: &'static str, default: bool) -> bool {
        let flag = match self.take(name) {
            None => default,
            Some(ParameterValue::Flag(flag)) => flag,
            Some(ParameterValue::Number(_)) => {
                self.problems.push((name, "must be true or false".to_owned()));
                default
            }
        };
        self.listed.push(Parameter { name, value: ParameterValue::Flag(flag) });
        flag
    }

    /// The name of each parameter with an invalid value, and the values that are valid, in words.
    pub(crate) fn problems(&self) -> &[(&'static str, String)] {
        &self.problems
    }

    /// The names of given parameters that the rule did not ask for.
    pub(crate) fn left(self) -> Vec<String> {
        match self.given {
            Given::Nothing => Vec::new(),
            Given::Named(given) => given.into_keys().collect(),
            Given::InOrder(given) => given.map(|value| format!("{value:?}")).collect(),
        }
    }

    /// Whether a message has as many values as the rule has parameters, once it has read them.
    pub(crate) fn took_all(self, sent: usize) -> bool {
        self.listed.len() == sent && self.left().is_empty()
    }

    pub(super) fn into_listed(self) -> Vec<Parameter> {
        self.listed
    }

    fn take(&mut self, name: &str) -> Option<ParameterValue> {
        match &mut self.given {
            Given::Nothing => None,
            Given::Named(given) => given.remove(name),
            Given::InOrder(given) => given.next(),
        }
    }
}
