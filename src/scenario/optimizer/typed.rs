//! The optimizer as it is typed: its rule, its learning rate, the bounds of its gradients.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use crate::graph::{ParameterValue, UpdateRule};
use crate::optimizer::{GradientDescentRule, rule_named, rule_names};

/// `{ rule = "adam", learning_rate = 0.001, beta1 = 0.8 }`, or `"adam"` for its defaults.
#[derive(Default)]
pub(in crate::scenario) struct OptimizerFile {
    pub(in crate::scenario) rule: RuleFile,
    pub(in crate::scenario) learning_rate: Option<LearningRateFile>,
    pub(in crate::scenario) clip_value: Option<f32>,
    pub(in crate::scenario) clip_norm: Option<f32>,
    pub(in crate::scenario) clip_global_norm: Option<f32>,
    /// All other keys; the rule decides which of them it has.
    pub(in crate::scenario) parameters: BTreeMap<String, ParameterValue>,
}

impl<'de> Deserialize<'de> for OptimizerFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OptimizerVisitor)
    }
}

struct OptimizerVisitor;

impl<'de> Visitor<'de> for OptimizerVisitor {
    type Value = OptimizerFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule, or a table such as { rule = \"adagrad\", learning_rate = 0.05 }")
    }

    fn visit_str<E: Error>(self, rule: &str) -> Result<OptimizerFile, E> {
        let rule = RuleFile::deserialize(rule.into_deserializer())?;
        Ok(OptimizerFile { rule, ..OptimizerFile::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptimizerFile, A::Error> {
        let mut file = OptimizerFile::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "rule" => file.rule = map.next_value()?,
                "learning_rate" => file.learning_rate = Some(map.next_value()?),
                "clip_value" => file.clip_value = Some(map.next_value()?),
                "clip_norm" => file.clip_norm = Some(map.next_value()?),
                "clip_global_norm" => file.clip_global_norm = Some(map.next_value()?),
                _ => {
                    let ParameterFile(value) = map.next_value()?;
                    file.parameters.insert(key, value);
                }
            }
        }
        Ok(file)
    }
}

/// The rule of a name, with its defaults.
pub(in crate::scenario) struct RuleFile(pub(in crate::scenario) UpdateRule);

impl Default for RuleFile {
    fn default() -> Self {
        Self(GradientDescentRule.into())
    }
}

impl<'de> Deserialize<'de> for RuleFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        rule_named(&name).map(Self).ok_or_else(|| {
            let names: Vec<String> =
                rule_names().into_iter().map(|name| format!("`{name}`")).collect();
            D::Error::custom(format!(
                "unknown variant `{name}`, expected one of {}",
                names.join(", ")
            ))
        })
    }
}

/// A number, or a boolean.
struct ParameterFile(ParameterValue);

struct ParameterVisitor;

impl Visitor<'_> for ParameterVisitor {
    type Value = ParameterFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, true or false")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<ParameterFile, E> {
        Ok(ParameterFile(ParameterValue::Number(number as f32)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ParameterFile, E> {
        Ok(ParameterFile(ParameterValue::Number(number as f32)))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<ParameterFile, E> {
        Ok(ParameterFile(ParameterValue::Flag(flag)))
    }
}

impl<'de> Deserialize<'de> for ParameterFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParameterVisitor)
    }
}

/// The learning rate: `0.1`, or a table for one that changes.
pub(in crate::scenario) enum LearningRateFile {
    Constant(f32),
    Schedule(Box<ScheduleFile>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct ScheduleFile {
    pub(in crate::scenario) schedule: ScheduleName,
    pub(in crate::scenario) warmup_steps: Option<u64>,
    pub(in crate::scenario) decay_steps: Option<u64>,
    pub(in crate::scenario) boundaries: Option<Vec<u64>>,
    pub(in crate::scenario) values: Option<Vec<f32>>,
    initial: Option<f32>,
    decay_rate: Option<f32>,
    staircase: Option<bool>,
    end: Option<f32>,
    power: Option<f32>,
    cycle: Option<bool>,
    alpha: Option<f32>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum ScheduleName {
    Constant,
    Exponential,
    NaturalExp,
    InverseTime,
    Polynomial,
    Cosine,
    PiecewiseConstant,
}

impl ScheduleFile {
    /// The numbers and flags that are given for the schedule, by their keys.
    pub(in crate::scenario) fn parameters(&self) -> BTreeMap<String, ParameterValue> {
        let number = |value: Option<f32>| value.map(ParameterValue::Number);
        let flag = |value: Option<bool>| value.map(ParameterValue::Flag);
        let all = [
            ("initial", number(self.initial)),
            ("decay_rate", number(self.decay_rate)),
            ("staircase", flag(self.staircase)),
            ("end", number(self.end)),
            ("power", number(self.power)),
            ("cycle", flag(self.cycle)),
            ("alpha", number(self.alpha)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

struct LearningRateVisitor;

impl<'de> Visitor<'de> for LearningRateVisitor {
    type Value = LearningRateFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a number, or a table such as \
             { schedule = \"cosine\", initial = 0.1, decay_steps = 1000 }",
        )
    }

    fn visit_f64<E: Error>(self, rate: f64) -> Result<LearningRateFile, E> {
        Ok(LearningRateFile::Constant(rate as f32))
    }

    fn visit_i64<E: Error>(self, rate: i64) -> Result<LearningRateFile, E> {
        Ok(LearningRateFile::Constant(rate as f32))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LearningRateFile, A::Error> {
        let schedule = ScheduleFile::deserialize(MapAccessDeserializer::new(map))?;
        Ok(LearningRateFile::Schedule(Box::new(schedule)))
    }
}

impl<'de> Deserialize<'de> for LearningRateFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LearningRateVisitor)
    }
}
