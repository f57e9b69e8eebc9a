//! Update rules: how a gradient changes a variable, and what each rule keeps beside it.

mod parameters;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};

use crate::tensor::Tensor;

pub use parameters::{Parameter, ParameterValue, Parameters, Range};

/// One update rule, whole: its name, its parameters with their defaults and ranges, its slots, and
/// its arithmetic. Scenarios, messages, graphs, costs and kernels read nothing else of it.
///
/// A program makes a rule of its own by implementing this for a type with its parameters, and
/// [registers](crate::optimizer::register_rule) it before it does anything else:
///
/// ```
/// use trainyard::graph::{Parameters, Range, Rule, RuleState, Slot, UpdateRule};
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
/// ```
pub trait Rule: Any + fmt::Debug + Send + Sync {
    /// Its name in scenarios and in messages.
    fn name(&self) -> &'static str;

    /// What the operations that apply it are called: to a whole gradient, and to some rows.
    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyGradient", "SparseApplyGradient"]
    }

    /// The same rule with the parameters that are `given`. Those of `self` stand for the others, so
    /// the rule that is registered has the defaults.
    fn parameters(&self, given: &mut Parameters) -> UpdateRule;

    /// The learning rate where a scenario names none.
    fn default_learning_rate(&self) -> f32 {
        0.01
    }

    /// What it keeps beside a variable, in the order in which [`Rule::apply`] finds it: first all
    /// that have the variable's shape.
    fn slots(&self) -> Vec<Slot> {
        Vec::new()
    }

    /// Whether a gradient of some rows moves the others as well: their moments decay, or their
    /// weights. It is made dense then.
    fn moves_every_row(&self) -> bool {
        false
    }

    /// The operations on an element, for the compute model. A root counts as one, a power as 40.
    fn flops(&self) -> usize;

    /// Updates the variable and its slots.
    fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>);
}

/// An update rule with its parameters, as a value.
#[derive(Clone)]
pub struct UpdateRule(Arc<Known>);

/// A rule, and what is asked of it in every step.
struct Known {
    rule: Box<dyn Rule>,
    slots: Vec<Slot>,
}

/// A value that a rule keeps beside a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// What follows `variable/` in its name.
    pub name: &'static str,
    /// What it holds before the first update.
    pub first: FirstValue,
}

/// What a slot holds, and what it begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FirstValue {
    /// This, for each element of the variable.
    Everywhere(f32),
    /// One number.
    Scalar(f32),
    /// One count, from 0.
    Count,
}

/// A variable with its slots, and the gradient that changes it: what [`Rule::apply`] works on.
pub struct RuleState<'a> {
    /// The variable's value, then its slots'.
    pub(crate) values: &'a mut [Tensor],
    pub(crate) gradient: &'a [f32],
    /// Where the gradient is of some rows.
    pub(crate) rows: Option<RowsAt<'a>>,
}

/// Which rows of a variable a gradient is of.
#[derive(Clone, Copy)]
pub(crate) struct RowsAt<'a> {
    /// Ascending.
    pub(crate) positions: &'a [usize],
    /// The elements of a row; above 0.
    pub(crate) width: usize,
}

impl Slot {
    /// A value for each element of the variable, that begins at `first`.
    pub fn like_variable(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Everywhere(first) }
    }

    /// One number, that begins at `first`.
    pub fn scalar(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Scalar(first) }
    }

    /// One integer, that begins at 0.
    pub fn count(name: &'static str) -> Self {
        Self { name, first: FirstValue::Count }
    }
}

impl UpdateRule {
    /// The rule itself, where it is an `R`.
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

    /// How many of its slots have a value for each element of the variable.
    pub(crate) fn slots_like_variable(&self) -> usize {
        let is_like = |slot: &&Slot| matches!(slot.first, FirstValue::Everywhere(_));
        self.0.slots.iter().filter(is_like).count()
    }

    /// See [`Rule::moves_every_row`].
    pub(crate) fn moves_every_row(&self) -> bool {
        self.0.rule.moves_every_row()
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

/// Its name and the values of its parameters. [`registered`](crate::optimizer) rules are read back.
impl Serialize for UpdateRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values: Vec<ParameterValue> =
            self.parameters().into_iter().map(|parameter| parameter.value).collect();
        (self.name(), values).serialize(serializer)
    }
}
