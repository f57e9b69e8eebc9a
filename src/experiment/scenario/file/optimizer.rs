//! The optimizer as it is typed: its rule, its learning rate, the bounds of its gradients.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::experiment::scenario) struct OptimizerFile {
    pub(in crate::experiment::scenario) rule: RuleFile,
    pub(in crate::experiment::scenario) learning_rate: Option<LearningRateFile>,
    pub(in crate::experiment::scenario) clip_value: Option<f32>,
    pub(in crate::experiment::scenario) clip_norm: Option<f32>,
    pub(in crate::experiment::scenario) clip_global_norm: Option<f32>,
    momentum: Option<f32>,
    use_nesterov: Option<bool>,
    initial_accumulator_value: Option<f32>,
    initial_gradient_squared_accumulator_value: Option<f32>,
    rho: Option<f32>,
    decay: Option<f32>,
    centered: Option<bool>,
    beta1: Option<f32>,
    beta2: Option<f32>,
    epsilon: Option<f32>,
    lazy: Option<bool>,
    weight_decay: Option<f32>,
    learning_rate_power: Option<f32>,
    l1: Option<f32>,
    l2: Option<f32>,
    l2_shrinkage: Option<f32>,
    beta: Option<f32>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::experiment::scenario) enum RuleFile {
    #[default]
    GradientDescent,
    Momentum,
    Adagrad,
    AdagradDa,
    Adadelta,
    RmsProp,
    Adam,
    #[serde(rename = "adamw")]
    AdamW,
    Lamb,
    Ftrl,
    ProximalGradientDescent,
    ProximalAdagrad,
}

impl OptimizerFile {
    /// The parameters of the rule that are given.
    pub(in crate::experiment::scenario) fn parameters(&self) -> Parameters {
        let numbers = [
            ("momentum", self.momentum),
            ("initial_accumulator_value", self.initial_accumulator_value),
            (
                "initial_gradient_squared_accumulator_value",
                self.initial_gradient_squared_accumulator_value,
            ),
            ("rho", self.rho),
            ("decay", self.decay),
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("epsilon", self.epsilon),
            ("weight_decay", self.weight_decay),
            ("learning_rate_power", self.learning_rate_power),
            ("l1", self.l1),
            ("l2", self.l2),
            ("l2_shrinkage", self.l2_shrinkage),
            ("beta", self.beta),
        ];
        let flags =
            [("use_nesterov", self.use_nesterov), ("centered", self.centered), ("lazy", self.lazy)];
        Parameters { numbers: given(numbers), flags: given(flags) }
    }
}

/// Parameters by their keys.
pub(in crate::experiment::scenario) struct Parameters {
    pub(in crate::experiment::scenario) numbers: BTreeMap<&'static str, f32>,
    pub(in crate::experiment::scenario) flags: BTreeMap<&'static str, bool>,
}

fn given<T>(
    keys: impl IntoIterator<Item = (&'static str, Option<T>)>,
) -> BTreeMap<&'static str, T> {
    keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// `0.1`, or a table that says how it changes.
pub(in crate::experiment::scenario) enum LearningRateFile {
    Constant(f32),
    Schedule(Box<ScheduleFile>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment::scenario) struct ScheduleFile {
    pub(in crate::experiment::scenario) schedule: ScheduleName,
    pub(in crate::experiment::scenario) warmup_steps: Option<u64>,
    pub(in crate::experiment::scenario) decay_steps: Option<u64>,
    pub(in crate::experiment::scenario) boundaries: Option<Vec<u64>>,
    pub(in crate::experiment::scenario) values: Option<Vec<f32>>,
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
pub(in crate::experiment::scenario) enum ScheduleName {
    Constant,
    Exponential,
    NaturalExp,
    InverseTime,
    Polynomial,
    Cosine,
    PiecewiseConstant,
}

impl ScheduleFile {
    /// The numbers and flags of the schedule that are given.
    pub(in crate::experiment::scenario) fn parameters(&self) -> Parameters {
        let numbers = [
            ("initial", self.initial),
            ("decay_rate", self.decay_rate),
            ("end", self.end),
            ("power", self.power),
            ("alpha", self.alpha),
        ];
        Parameters {
            numbers: given(numbers),
            flags: given([("staircase", self.staircase), ("cycle", self.cycle)]),
        }
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
