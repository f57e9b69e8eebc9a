//! Update rules: how a gradient changes a variable, and the slots that each rule keeps beside it.

mod parameters;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};

use crate::tensor::Tensor;

pub use parameters::{Parameter, ParameterValue, Parameters, Range};

/// The whole definition of an update rule: its name, its parameters with their defaults and ranges,
/// its slots, and its arithmetic. Scenarios, messages, graphs, costs and kernels read nothing else
/// of it.
///
/// A program defines a rule of its own by implementing this trait for a type with its parameters,
/// and [registers](crate::optimizer::register_rule) it before it does anything else:
///
/// ```
/// use trainyard::graph::{Parameters, Range, Rule, RuleState, Slot, UpdateRule};
/// use trainyard::tensor::Tensor;
///
/// /// `m = β·m + sgn(g); v -= lr·m`
/// #[derive(Debug)]
/// struct SignMomentum {
///     beta: f32,
/// }
///
/// impl Rule for SignMomentum {
///     fn name(&self) -> &'static str {
///         "sign_momentum"
///     }
///
///     fn parameters(&self, given: &mut Parameters) -> UpdateRule {
///         Self { beta: given.number("beta", self.beta, Range::Fraction) }.into()
///     }
///
///     fn slots(&self) -> Vec<Slot> {
///         vec![Slot::like_variable("SignMomentum", 0.0)]
///     }
///
///     fn flops(&self) -> usize {
///         5
///     }
///
///     fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>) {
///         let beta = self.beta;
///         state.each_element(move |[v, m]: [f32; 2], g: f32| {
///             let m = beta * m + g.signum();
///             [v - learning_rate * m, m]
///         });
///     }
/// }
///
/// trainyard::optimizer::register_rule(SignMomentum { beta: 0.9 });
/// // From now on a scenario may say: optimizer = { rule = "sign_momentum", beta = 0.8 }
///
/// // A test of its arithmetic needs no cluster: the variable, its slot, and a gradient.
/// let mut values = [Tensor::from(1f32), Tensor::from(0f32)];
/// SignMomentum { beta: 0.9 }.apply(0.5, &mut RuleState::new(&mut values, &[-2.0]));
/// assert_eq!(values, [Tensor::from(1.5f32), Tensor::from(-1f32)]);
/// ```
pub trait Rule: Any + fmt::Debug + Send + Sync {
    /// Its name in scenarios and in messages.
    fn name(&self) -> &'static str;

    /// The kinds of the operations that apply it: by a whole gradient, and by one of some rows.
    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyGradient", "SparseApplyGradient"]
    }

    /// The same rule with the parameters that are `given`. The others are those of `self`, so the
    /// rule that is registered holds the defaults. Other tasks get what is asked for here and
    /// nothing else, so a rule whose other fields differ from the registered ones is refused. What
    /// is compared is the `Debug` text, as by [`OpDef::attributes`](super::OpDef::attributes).
    fn parameters(&self, given: &mut Parameters) -> UpdateRule;

    /// The learning rate if a scenario names none.
    fn default_learning_rate(&self) -> f32 {
        0.01
    }

    /// The slots that it keeps beside a variable, in the order in which [`Rule::apply`] finds them:
    /// first all that have the variable's shape. A rule with another order is not
    /// [registered](crate::optimizer::register_rule), nor built into a graph.
    fn slots(&self) -> Vec<Slot> {
        Vec::new()
    }

    /// Whether a gradient of some rows also changes the other rows, because their moments or
    /// weights decay. Such a gradient is made dense.
    fn moves_every_row(&self) -> bool {
        false
    }

    /// Whether the variable's new value is a function of the rate and of sums of all gradients, so
    /// that another rate scales the whole variable and not the step of one gradient. Such a rule
    /// is refused where a mode divides the rate by a gradient's staleness.
    fn scales_by_rate(&self) -> bool {
        false
    }

    /// The floating point operations per element, for the compute model. A root counts as 1, a
    /// power as 40.
    fn flops(&self) -> usize;

    /// Updates the variable and its slots.
    fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>);
}

/// An update rule with its parameters, as a value.
#[derive(Clone)]
pub struct UpdateRule(Arc<Known>);

/// A rule, with the answers that every step needs, computed once.
struct Known {
    rule: Box<dyn Rule>,
    slots: Vec<Slot>,
}

/// A value that a rule keeps beside a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// The part of its name after `variable/`.
    pub name: &'static str,
    /// Its value before the first update.
    pub first: FirstValue,
}

/// The kind of value in a slot, and its initial value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FirstValue {
    /// A value for each element of the variable, initially this.
    Everywhere(f32),
    /// One number, initially this.
    Scalar(f32),
    /// One count, from 0.
    Count,
}

/// A variable with its slots, and the gradient that changes it, as [`Rule::apply`] gets them.
#[derive(Debug)]
pub struct RuleState<'a> {
    /// The variable's value, then those of its slots.
    pub(crate) values: &'a mut [Tensor],
    pub(crate) gradient: &'a [f32],
    /// The gradient's rows, if it is of some rows only.
    pub(crate) rows: Option<RowsAt<'a>>,
}

/// The rows of a variable that a gradient is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsAt<'a> {
    /// The row numbers, ascending.
    pub(crate) positions: &'a [usize],
    /// The number of elements in a row; above 0.
    pub(crate) width: usize,
}

impl Slot {
    /// A slot with a value for each element of the variable, initially `first`.
    pub fn like_variable(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Everywhere(first) }
    }

    /// A slot with one number, initially `first`.
    pub fn scalar(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Scalar(first) }
    }

    /// A slot with one integer, initially 0.
    pub fn count(name: &'static str) -> Self {
        Self { name, first: FirstValue::Count }
    }
}

impl UpdateRule {
    /// The rule itself, if it is an `R`.
    pub fn get<R: Rule>(&self) -> Option<&R> {
        let rule: &dyn Any = &*self.0.rule;
        rule.downcast_ref()
    }

    /// Its name in scenarios.
    pub fn name(&self) -> &'static str {
        self.0.rule.name()
    }

    /// Its slots, in the order in which its update takes them.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.0.slots
    }

    /// The number of its slots that have a value for each element of the variable.
    pub(crate) fn slots_like_variable(&self) -> usize {
        let is_like = |slot: &&Slot| matches!(slot.first, FirstValue::Everywhere(_));
        self.0.slots.iter().filter(is_like).count()
    }

    /// What is wrong with the order of its slots, if something is.
    pub(crate) fn disorder(&self) -> Option<String> {
        let is_like = |slot: &&Slot| matches!(slot.first, FirstValue::Everywhere(_));
        let late = self.0.slots[self.slots_like_variable()..].iter().find(is_like)?;
        Some(format!(
            "the update rule `{}` lists the slot `{}`, which has the variable's shape, after one \
             of a single value: list those of the variable's shape first",
            self.name(),
            late.name
        ))
    }

    /// See [`Rule::moves_every_row`].
    pub(crate) fn moves_every_row(&self) -> bool {
        self.0.rule.moves_every_row()
    }

    /// See [`Rule::scales_by_rate`].
    pub(crate) fn scales_by_rate(&self) -> bool {
        self.0.rule.scales_by_rate()
    }

    /// See [`Rule::flops`].
    pub(crate) fn flops(&self) -> usize {
        self.0.rule.flops()
    }

    /// See [`Rule::default_learning_rate`].
    pub(crate) fn default_learning_rate(&self) -> f32 {
        self.0.rule.default_learning_rate()
    }

    /// See [`Rule::apply`].
    pub(crate) fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>) {
        self.0.rule.apply(learning_rate, state);
    }

    /// The same rule with the parameters that are `given`.
    pub(crate) fn with(&self, given: &mut Parameters) -> Self {
        self.0.rule.parameters(given)
    }

    /// Its parameters, and their values.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = Parameters::default();
        self.0.rule.parameters(&mut parameters);
        parameters.into_listed()
    }

    /// The values of its parameters.
    pub(crate) fn values(&self) -> Vec<ParameterValue> {
        self.parameters().into_iter().map(|parameter| parameter.value).collect()
    }

    /// Whether both are the same rule, whatever their parameters.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let [a, b]: [&dyn Any; 2] = [&*self.0.rule, &*other.0.rule];
        a.type_id() == b.type_id()
    }

    pub(super) fn kind(&self, is_sparse: bool) -> &'static str {
        self.0.rule.kinds()[usize::from(is_sparse)]
    }
}

impl<R: Rule> From<R> for UpdateRule {
    fn from(rule: R) -> Self {
        Self(Arc::new(Known { slots: rule.slots(), rule: Box::new(rule) }))
    }
}

impl PartialEq for UpdateRule {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_kind(other) && self.parameters() == other.parameters()
    }
}

impl fmt::Debug for UpdateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.rule.fmt(f)
    }
}

/// Writes the rule's name and the values of its parameters. Only [`registered`](crate::optimizer)
/// rules are read back.
impl Serialize for UpdateRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.name(), self.values()).serialize(serializer)
    }
}
